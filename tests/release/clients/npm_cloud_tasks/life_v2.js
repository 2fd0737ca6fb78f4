// The life of tasks of v2 with @google-cloud/tasks, reported as JSON on standard output.
// Arguments: the client's package, "grpc" or "rest", and the server's address for that.
'use strict';

const {inspect} = require('util');
const {connect, transport} = require('./connection');
const client = connect('v2');

async function main() {
  const queue = `node-${transport}`;
  const location = client.locationPath('app', 'us-central1');
  const parent = client.queuePath('app', 'us-central1', queue);
  const retryConfig = {minBackoff: {nanos: 100000000}};
  await client.createQueue({parent: location, queue: {name: parent, retryConfig}});
  const create = async (name, scheduleTime) => {
    const httpRequest = {
      url: `https://api.example.com/${name}`,
      body: Buffer.from('work').toString('base64'),
      oidcToken: {serviceAccountEmail: 'worker@app.iam.gserviceaccount.com'},
    };
    const task = {name: `${parent}/tasks/${name}`, httpRequest, scheduleTime};
    return (await client.createTask({parent, task}))[0].name;
  };
  const later = {seconds: Math.floor(Date.now() / 1000) + 3600};
  await create(`${queue}-retried`);
  const run = await create(`${queue}-run`, later);
  const deleted = await create(`${queue}-deleted`, later);
  const results = {
    url: (await client.getTask({name: run}))[0].httpRequest.url,
  };
  await create(`${queue}-run`, later).catch(error => {
    results.again = error.code;
    results.printed = inspect(error); // what console.error prints
  });
  await client.deleteTask({name: deleted});
  await create(`${queue}-purged`, later);
  await client.runTask({name: run});
  const [tasks] = await client.listTasks({parent});
  results.listed = tasks.map(task => task.name).includes(`${parent}/tasks/${queue}-purged`);
  await client.close();
  console.log(JSON.stringify(results));
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
