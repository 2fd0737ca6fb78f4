// What the programs beside this one share: a client of @google-cloud/tasks for a server.
// Arguments: the client's package, "grpc" or "rest", and the server's address for that.
'use strict';

const [, , packageName, transport, address] = process.argv;
const {grpc} = require(`${packageName}/../../google-gax`);
const {PassThroughClient} = require(`${packageName}/../../google-auth-library`);
const [host, port] = address.split(':');
const transports = {
  grpc: {sslCreds: grpc.credentials.createInsecure()},
  rest: {fallback: true, protocol: 'http', authClient: new PassThroughClient()},
};

function connect(version) {
  const {CloudTasksClient} = require(packageName)[version];
  return new CloudTasksClient({
    apiEndpoint: host,
    port: Number(port),
    ...transports[transport],
  });
}

module.exports = {connect, transport};
