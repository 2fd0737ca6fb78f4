// Prints what an editor's language server finds in files, and shows while a queue is typed.

const fs = require("fs");
const { getLanguageService } = require("yaml-language-server");
const { TextDocument } = require("vscode-languageserver-textdocument");
const [schema, files, typed] = JSON.parse(fs.readFileSync(0));
const service = getLanguageService({
  schemaRequestService: async () => schema,
  workspaceContext: { resolveRelativePath: (path) => path },
  telemetry: { sendError: (name, error) => { throw error; } },
});
const schemas = [{ uri: "file:///queue.schema.json", fileMatch: ["*.yaml"], priority: 3 }];
service.configure({ schemas, validate: true, completion: true, hover: true, yamlVersion: "1.1" });
const open = (name, text) => TextDocument.create(`file:///${name}.yaml`, "yaml", 1, text);
(async () => {
  const found = {};
  for (const [name, text] of Object.entries(files))
    found[name] = await service.doValidation(open(name, text), false);
  const document = open("typed", typed);
  const completed = await service.doComplete(document, { line: 3, character: 3 }, false);
  const hover = await service.doHover(document, { line: 2, character: 3 });
  console.log(JSON.stringify({ found, completed, hover }));
})();
