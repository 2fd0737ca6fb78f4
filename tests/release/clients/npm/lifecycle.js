// The lifecycle of tasks with a googleapis client, reported as JSON on standard output.
// Arguments: the client's package, how it is made (discovered or generated), the server's root, a token.
'use strict';

const [, , packageName, made, root, token] = process.argv;
const loaded = require(packageName);
const google = loaded.google || loaded;
const queue = {project: 's~app', taskqueue: 'pull-queue'};

function discovered() {
  const url = `${root}/discovery/v1/apis/taskqueue/v1beta2/rest`;
  return new Promise((resolve, reject) => {
    // Old releases call back, newer ones promise.
    const promised = google.discoverAPI(url, (error, api) => (error ? reject(error) : resolve(api)));
    if (promised) {
      promised.then(resolve, reject);
    }
  });
}

function authorized() {
  const OAuth2 = google.auth.OAuth2;
  const client = new OAuth2('', '', '');
  client.setCredentials({access_token: token});
  return client;
}

// Returns the response, or the error as the client reports it.
function call(api, resource, method, parameters) {
  const given = Object.assign({auth: authorized()}, parameters);
  const options = made === 'generated' ? [{rootUrl: `${root}/`}] : [];
  return new Promise(resolve => {
    api[resource][method](given, ...options, (error, answer) => {
      if (error) {
        resolve({code: Number(error.code), message: error.message});
      } else {
        resolve(answer && answer.data !== undefined ? answer.data : answer);
      }
    });
  });
}

async function lifecycle() {
  const api = made === 'generated' ? google.taskqueue('v1beta2') : await discovered();
  const tasks = (method, parameters) =>
    call(api, 'tasks', method, Object.assign({}, queue, parameters));
  const results = {};
  results.inserted = [];
  for (const tag of ['red', 'blue', 'red']) {
    const resource = {queueName: 'pull-queue', payloadBase64: 'd29yaw==', tag};
    results.inserted.push(await tasks('insert', {resource}));
  }
  const id = results.inserted[0].id;
  results.listed = await tasks('list', {});
  results.got = await tasks('get', {task: id});
  results.queue = await call(api, 'taskqueues', 'get', Object.assign({getStats: true}, queue));
  results.leased = await tasks('lease', {numTasks: 1, leaseSecs: 30});
  results.leasedByTag = await tasks('lease', {numTasks: 9, leaseSecs: 30, groupByTag: true, tag: 'red'});
  const held = results.leased.items[0];
  results.updated = await tasks('update', {task: id, newLeaseSeconds: 60, resource: held});
  results.stale = await tasks('update', {task: id, newLeaseSeconds: 60, resource: held});
  const named = {queueName: 'pull-queue'};
  results.patched = await tasks('patch', {task: id, newLeaseSeconds: 90, resource: named});
  results.deleted = [];
  for (const task of results.inserted) {
    results.deleted.push(await tasks('delete', {task: task.id}));
  }
  results.gone = await tasks('delete', {task: id});
  results.unknown = await call(api, 'tasks', 'list', {project: 'app', taskqueue: 'nowhere'});
  results.forbidden = await call(api, 'tasks', 'insert', {
    project: 'app',
    taskqueue: 'read-only',
    resource: {payloadBase64: ''},
  });
  results.empty = await tasks('lease', {numTasks: 1, leaseSecs: 30});
  return results;
}

lifecycle().then(
  results => console.log(JSON.stringify(results)),
  error => {
    console.error(error);
    process.exit(1);
  }
);
