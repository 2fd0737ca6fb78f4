// Prints the access token that Node's gtoken gets for a key file.
// Arguments: gtoken's package, the key file, where to ask.
'use strict';

const [, , packageName, keyFile, url] = process.argv;
const loaded = require(packageName);
const GoogleToken = loaded.GoogleToken || loaded;
const scope = ['https://www.googleapis.com/auth/taskqueue'];
const token = new GoogleToken({keyFile, scope});

// It always asks Google, so what it sends is led to the emulator: `request` does so for gtoken 1, gaxios for 2.
if (token._request) {
  const ask = token._request;
  token._request = (options, done) => ask(Object.assign(options, {url}), done);
} else {
  const {Gaxios, instance} = require('gaxios');
  instance.defaults.adapter = options => new Gaxios().request(Object.assign(options, {url, adapter: null}));
}

token.getToken((error, text) => {
  console.log(error ? error.message : text);
});
