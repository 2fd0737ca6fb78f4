-- How long a queue keeps tasks and the names of deleted ones; `tasks.ends_usec` was computed with it.
-- No `tombstone_usec`: what the store's limits say.
ALTER TABLE retry_limits RENAME TO retentions;
ALTER INDEX retry_limits_pkey RENAME TO retentions_pkey;
ALTER TABLE retentions ADD COLUMN lifetime_usec bigint;
ALTER TABLE retentions ADD COLUMN tombstone_usec bigint;

-- What is recorded of queues beside their tasks. `settings` are those of a queue that was made at run
-- time, as JSON; queue.yaml has those of the others.
CREATE TABLE queues (
    queue text COLLATE "C" NOT NULL PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    purged_usec bigint,
    deleted_usec bigint,
    settings text
);
