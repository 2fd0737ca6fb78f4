// The whole life of tasks with a googleapis client, told as JSON on standard output.
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

// Gives the answer, or what the client makes of a refusal.
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

async function live() {
  const api = made === 'generated' ? google.taskqueue('v1beta2') : await discovered();
  const tasks = (method, parameters) =>
    call(api, 'tasks', method, Object.assign({}, queue, parameters));
  const told = {};
  told.inserted = [];
  for (const tag of ['red', 'blue', 'red']) {
    const resource = {queueName: 'pull-queue', payloadBase64: 'd29yaw==', tag};
    told.inserted.push(await tasks('insert', {resource}));
  }
  const id = told.inserted[0].id;
  told.listed = await tasks('list', {});
  told.got = await tasks('get', {task: id});
  told.queue = await call(api, 'taskqueues', 'get', Object.assign({getStats: true}, queue));
  told.leased = await tasks('lease', {numTasks: 1, leaseSecs: 30});
  told.leasedByTag = await tasks('lease', {numTasks: 9, leaseSecs: 30, groupByTag: true, tag: 'red'});
  const held = told.leased.items[0];
  told.updated = await tasks('update', {task: id, newLeaseSeconds: 60, resource: held});
  told.stale = await tasks('update', {task: id, newLeaseSeconds: 60, resource: held});
  const named = {queueName: 'pull-queue'};
  told.patched = await tasks('patch', {task: id, newLeaseSeconds: 90, resource: named});
  told.deleted = [];
  for (const task of told.inserted) {
    told.deleted.push(await tasks('delete', {task: task.id}));
  }
  told.gone = await tasks('delete', {task: id});
  told.unknown = await call(api, 'tasks', 'list', {project: 'app', taskqueue: 'nowhere'});
  told.forbidden = await call(api, 'tasks', 'insert', {
    project: 'app',
    taskqueue: 'read-only',
    resource: {payloadBase64: ''},
  });
  told.empty = await tasks('lease', {numTasks: 1, leaseSecs: 30});
  return told;
}

live().then(
  told => console.log(JSON.stringify(told)),
  error => {
    console.error(error);
    process.exit(1);
  }
);
