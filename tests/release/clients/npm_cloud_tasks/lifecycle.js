// The lifecycle of tasks with @google-cloud/tasks, reported as JSON on standard output.
// Arguments: the client's package, "grpc" or "rest", and the server's address for that.
'use strict';

const {connect} = require('./connection');
const client = connect('v2beta2');

async function call(method, request) {
  const [response] = await client[method](request);
  return response;
}

// Returns the code of an error.
function refused(method, request) {
  return call(method, request).then(() => null, error => error.code);
}

async function lifecycle() {
  const parent = client.queuePath('app', 'us-central1', 'pull-queue');
  const results = {created: []};
  for (const [payload, tag] of [['one', 'red'], ['two', 'blue'], ['three', 'red']]) {
    const task = {pullMessage: {payload: Buffer.from(payload), tag}};
    results.created.push((await call('createTask', {parent, task})).name);
  }
  const listed = await call('listTasks', {parent});
  results.listed = listed.map(task => task.name);
  const request = {parent, maxTasks: 10, leaseDuration: {seconds: 60}, responseView: 'FULL'};
  const leased = await call('leaseTasks', {...request, filter: 'tag="red"'});
  results.leased = leased.tasks.map(task => task.pullMessage.payload.toString());
  const held = leased.tasks.map(({name, scheduleTime}) => ({name, scheduleTime}));
  const renewed = await call('renewLease', {...held[0], leaseDuration: {seconds: 90}});
  results.stale = await refused('acknowledgeTask', held[0]);
  await call('acknowledgeTask', {name: renewed.name, scheduleTime: renewed.scheduleTime});
  results.gone = await refused('getTask', {name: renewed.name});
  results.attempts = (await call('cancelLease', held[1])).status.attemptDispatchCount;
  const queue = await call('getQueue', {name: parent, readMask: {paths: ['stats']}});
  results.count = Number(queue.stats.tasksCount);
  for (const task of listed.slice(1)) {
    await call('deleteTask', {name: task.name});
  }
  results.locations = [];
  for await (const {locationId} of client.listLocationsAsync({name: 'projects/app'})) {
    results.locations.push(locationId);
  }
  await client.close();
  return results;
}

lifecycle().then(
  results => console.log(JSON.stringify(results)),
  error => {
    console.error(error);
    process.exitCode = 1;
  }
);
