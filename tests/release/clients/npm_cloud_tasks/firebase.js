// Tasks of a function with firebase-admin, reported as JSON on standard output.
// Arguments: the folder of the packages. CLOUD_TASKS_EMULATOR_HOST names the server.
'use strict';

const [, , packages] = process.argv;
const {initializeApp} = require(`${packages}/firebase-admin/lib/app`);
const {getFunctions} = require(`${packages}/firebase-admin/lib/functions`);

async function main() {
  initializeApp({projectId: 'app'});
  const queue = getFunctions().taskQueue('resize');
  await queue.enqueue({image: 'cat.png'});
  const later = {id: 'dog', scheduleDelaySeconds: 3600};
  await queue.enqueue({image: 'dog.png'}, later);
  const again = await queue.enqueue({}, later).then(() => '', error => error.code);
  await queue.delete('dog');
  const missing = await getFunctions()
    .taskQueue('missing')
    .enqueue({})
    .then(() => '', error => error.code);
  console.log(JSON.stringify({again, missing}));
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
