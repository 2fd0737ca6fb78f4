-- The constraints state what the package writes, so that the check of a file that is opened finds
-- what something else has written. Times are in the years 1 to 9999.

-- A task and the tombstone it leaves are one row, so that one unique index guards a name from the
-- first add to the expiry of the tombstone: a task has `eta_usec`, a tombstone has `free_usec`, and
-- no row has both. `tag` is empty for none and `=` before the tag otherwise. `ends_usec` is when a
-- task that has used up its leases is exhausted, `free_usec` when a tombstone expires. `request` and
-- `attempts` of a push task are JSON that only the package reads; `finished` is the number of its last
-- attempt that ended, by which states are counted. A pull task has none of them.
CREATE TABLE tasks (
    sequence INTEGER NOT NULL PRIMARY KEY,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    tag BLOB NOT NULL,
    eta_usec BIGINT,
    retry_count INTEGER NOT NULL,
    enqueued_usec BIGINT NOT NULL,
    stored_bytes INTEGER NOT NULL,
    request TEXT,
    attempts TEXT,
    finished INTEGER,
    ends_usec BIGINT,
    free_usec BIGINT,
    CHECK (typeof(queue) = 'text' AND typeof(name) = 'text' AND typeof(payload) = 'blob'
        AND typeof(tag) = 'blob' AND typeof(retry_count) = 'integer' AND retry_count >= 0
        AND typeof(stored_bytes) = 'integer' AND sequence BETWEEN 1 AND 1 << 62
        AND coalesce(eta_usec, 0) BETWEEN -62135596800000000 AND 253402300799999999
        AND enqueued_usec BETWEEN -62135596800000000 AND 253402300799999999
        AND typeof(coalesce(eta_usec, 0)) = 'integer' AND typeof(enqueued_usec) = 'integer'
        AND (request IS NULL OR json_valid(request))
        AND (attempts IS NULL OR json_valid(attempts))
        AND typeof(coalesce(finished, 0)) = 'integer' AND typeof(coalesce(ends_usec, 0)) = 'integer'
        AND typeof(coalesce(free_usec, 0)) = 'integer')
);
CREATE UNIQUE INDEX tasks_name ON tasks (queue, name);
CREATE INDEX tasks_due ON tasks (queue, eta_usec, sequence) WHERE eta_usec IS NOT NULL;
CREATE INDEX tasks_due_tag_sqlite ON tasks (queue, tag, eta_usec, sequence)
WHERE eta_usec IS NOT NULL;
-- Those of times begin with the project of the queue: it looks for its own tasks, by its own time.
CREATE INDEX tasks_ends ON tasks (substr(queue, 1, instr(queue, '/')), ends_usec)
WHERE ends_usec IS NOT NULL;
CREATE INDEX tasks_free ON tasks (substr(queue, 1, instr(queue, '/')), free_usec)
WHERE free_usec IS NOT NULL;

-- Exhausted tasks as they were at the end, the latest of each queue.
CREATE TABLE exhausted (
    id INTEGER NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    tag BLOB NOT NULL,
    eta_usec BIGINT,
    retry_count INTEGER NOT NULL,
    enqueued_usec BIGINT NOT NULL,
    stored_bytes INTEGER NOT NULL,
    request TEXT,
    attempts TEXT,
    CHECK (typeof(queue) = 'text' AND typeof(name) = 'text' AND typeof(payload) = 'blob'
        AND typeof(tag) = 'blob' AND typeof(retry_count) = 'integer' AND retry_count >= 0
        AND typeof(stored_bytes) = 'integer' AND sequence BETWEEN 1 AND 1 << 62
        AND coalesce(eta_usec, 0) BETWEEN -62135596800000000 AND 253402300799999999
        AND enqueued_usec BETWEEN -62135596800000000 AND 253402300799999999
        AND typeof(coalesce(eta_usec, 0)) = 'integer' AND typeof(enqueued_usec) = 'integer'
        AND (request IS NULL OR json_valid(request))
        AND (attempts IS NULL OR json_valid(attempts)))
);
CREATE INDEX exhausted_queue ON exhausted (queue, id);

-- One row per operation; `names` and `retry_counts` are lists with commas, `status`, `reason` and
-- `fault` are how an attempt has ended. `origin` is the call it was part of: JSON that only the package reads; NULL: of none, or it
-- is not known.
CREATE TABLE events (
    queue TEXT NOT NULL,
    id BIGINT NOT NULL,
    usec BIGINT NOT NULL,
    kind TEXT NOT NULL,
    until_usec BIGINT,
    size INTEGER NOT NULL,
    names TEXT NOT NULL,
    retry_counts TEXT NOT NULL,
    origin TEXT,
    status INTEGER,
    reason TEXT,
    fault INTEGER,
    PRIMARY KEY (queue, id),
    CHECK (typeof(queue) = 'text' AND typeof(usec) = 'integer' AND typeof(kind) = 'text'
        AND usec BETWEEN -62135596800000000 AND 253402300799999999
        AND coalesce(until_usec, 0) BETWEEN -62135596800000000 AND 253402300799999999
        AND typeof(coalesce(until_usec, 0)) = 'integer' AND typeof(size) = 'integer'
        AND typeof(names) = 'text' AND typeof(retry_counts) = 'text'
        AND typeof(coalesce(status, 0)) = 'integer' AND typeof(coalesce(fault, 0)) = 'integer'
        AND (origin IS NULL OR json_valid(origin)))
) WITHOUT ROWID;

-- How many tasks were leased in a second. `part` is always 0.
CREATE TABLE leased (
    queue TEXT NOT NULL,
    second BIGINT NOT NULL,
    part INTEGER NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (queue, second, part),
    CHECK (typeof(second) = 'integer' AND typeof(tasks) = 'integer' AND tasks BETWEEN 0 AND 1 << 40)
);

-- How long a queue keeps tasks and the names of deleted ones; `tasks.ends_usec` was computed with it.
-- No `tombstone_usec`: what the store's limits say.
CREATE TABLE retentions (
    queue TEXT NOT NULL PRIMARY KEY,
    leases INTEGER,
    age_usec BIGINT NOT NULL,
    lifetime_usec BIGINT,
    tombstone_usec BIGINT,
    CHECK (typeof(coalesce(leases, 0)) = 'integer' AND typeof(age_usec) = 'integer'
        AND typeof(coalesce(lifetime_usec, 0)) = 'integer'
        AND typeof(coalesce(tombstone_usec, 0)) = 'integer')
);

-- What is recorded of queues beside their tasks. `settings` are those of a queue that was made at run
-- time, as JSON; queue.yaml has those of the others.
CREATE TABLE queues (
    queue TEXT NOT NULL PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    purged_usec BIGINT,
    deleted_usec BIGINT,
    settings TEXT,
    CHECK (typeof(queue) = 'text' AND paused IN (0, 1)
        AND typeof(coalesce(purged_usec, 0)) = 'integer'
        AND typeof(coalesce(deleted_usec, 0)) = 'integer'
        AND (settings IS NULL OR json_valid(settings)))
);

-- The last run of each cron job, by its schedule and its URL.
CREATE TABLE cron_runs (
    job TEXT NOT NULL PRIMARY KEY,
    started_usec BIGINT NOT NULL,
    status INTEGER,
    reason TEXT,
    CHECK (typeof(started_usec) = 'integer' AND typeof(coalesce(status, 0)) = 'integer'
        AND started_usec BETWEEN -62135596800000000 AND 253402300799999999)
);

-- The other projects of the server. The keys of their queues, in the columns `queue` above, are
-- `~NUMBER/NAME`; those of its own project are the names.
CREATE TABLE projects (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL,
    CHECK (typeof(name) = 'text' AND json_valid(record))
);
