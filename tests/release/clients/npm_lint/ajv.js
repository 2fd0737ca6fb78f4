// Prints whether ajv, which must have no complaint about the schema, accepts each file.
// `errorMessage` is what editors show: a keyword of theirs, and of ajv-errors.

const fs = require("fs");
const Ajv = require(process.argv[2] === "7" ? "ajv" : "ajv/dist/2020").default;
const ajv = new Ajv({ strict: true, allowUnionTypes: true });
ajv.addVocabulary(["errorMessage"]);
const [schema, files] = JSON.parse(fs.readFileSync(0));
const validate = ajv.compile(schema);
console.log(JSON.stringify(files.map((file) => validate(file))));
