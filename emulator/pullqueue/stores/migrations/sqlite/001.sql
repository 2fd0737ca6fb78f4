-- A task and the tombstone it leaves are one row, so that one unique index guards a name from the
-- first add to the expiry of the tombstone: a task has `eta_usec`, a tombstone has `free_usec`, and
-- no row has both. `tag` is empty for none and `=` before the tag otherwise. `ends_usec` is when a
-- task that has used up its leases is exhausted, `free_usec` when a tombstone expires.
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
    ends_usec BIGINT,
    free_usec BIGINT
);
CREATE UNIQUE INDEX tasks_name ON tasks (queue, name);
CREATE INDEX tasks_due ON tasks (queue, eta_usec, sequence) WHERE eta_usec IS NOT NULL;
CREATE INDEX tasks_due_tag_sqlite ON tasks (queue, tag, eta_usec, sequence)
WHERE eta_usec IS NOT NULL;
CREATE INDEX tasks_ends ON tasks (ends_usec) WHERE ends_usec IS NOT NULL;
CREATE INDEX tasks_free ON tasks (free_usec) WHERE free_usec IS NOT NULL;

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
    ends_usec BIGINT
);
CREATE INDEX exhausted_queue ON exhausted (queue, id);

-- One row per operation; `names` and `retry_counts` are lists with commas.
CREATE TABLE events (
    queue TEXT NOT NULL,
    id BIGINT NOT NULL,
    usec BIGINT NOT NULL,
    kind TEXT NOT NULL,
    until_usec BIGINT,
    size INTEGER NOT NULL,
    names TEXT NOT NULL,
    retry_counts TEXT NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

-- How many tasks were leased in a second. `part` is always 0.
CREATE TABLE leased (
    queue TEXT NOT NULL,
    second BIGINT NOT NULL,
    part INTEGER NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (queue, second, part)
);

CREATE TABLE balance (
    queue TEXT NOT NULL,
    part INTEGER NOT NULL,
    tasks BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (queue, part)
);

CREATE TABLE calls (queue TEXT, usec BIGINT);
CREATE INDEX calls_queue ON calls (queue, usec);

-- The retry limits with which `tasks.ends_usec` was computed.
CREATE TABLE retry_limits (
    queue TEXT NOT NULL PRIMARY KEY,
    leases INTEGER,
    age_usec BIGINT NOT NULL
);
