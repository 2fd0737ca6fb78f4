-- How long a queue keeps tasks and the names of deleted ones; `tasks.ends_usec` was computed with it.
-- No `tombstone_usec`: what the store's limits say.
ALTER TABLE retry_limits RENAME TO retentions;
ALTER TABLE retentions ADD COLUMN lifetime_usec BIGINT;
ALTER TABLE retentions ADD COLUMN tombstone_usec BIGINT;

-- What is recorded of queues beside their tasks. `settings` are those of a queue that was made at run
-- time, as JSON; queue.yaml has those of the others.
CREATE TABLE queues (
    queue TEXT NOT NULL PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    purged_usec BIGINT,
    deleted_usec BIGINT,
    settings TEXT
);
