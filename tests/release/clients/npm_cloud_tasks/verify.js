// Verifies an ID token of the server with google-auth-library, and prints its e-mail as JSON.
// Arguments: the library, the token, the server's URL, and the audience.
'use strict';

const [, , library, token, server, audience] = process.argv;
const {OAuth2Client} = require(library);

async function main() {
  const keys = await (await fetch(`${server}/oauth2/v1/certs`)).json();
  const client = new OAuth2Client();
  const ticket = await client.verifySignedJwtWithCertsAsync(token, keys, audience, [server]);
  console.log(JSON.stringify(ticket.getPayload().email));
}

main();
