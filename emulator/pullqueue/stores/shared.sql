-- The statements that are the same in SQLite and PostgreSQL. Parameters are written as SQLite has them.
-- `sqlite.sql` and `postgres.sql` have the other statements, and the fragments that differ.
--
-- The column `queue` has the keys of queues: `stores/session.py` makes them of project and name. `{project}`
-- is the project of a key, which begins the indexes of times; `{of_project}` is true of the keys of one.

-- fragment: of_project
queue >= :first_key AND queue < :last_key

-- fragment: waiting_state
-- The state of a task whose eta is in the future; `finished` is NULL in a pull task.
CASE WHEN retry_count = 0 THEN 'scheduled' WHEN finished IS NULL THEN 'leased'
        WHEN retry_count > finished THEN 'running' ELSE 'retrying' END

-- fragment: tombstone
-- What makes a tombstone of a task; the time from which on its name is in use follows.
payload = {no_bytes}, tag = {no_bytes}, request = NULL, attempts = NULL, finished = NULL,
    eta_usec = NULL, ends_usec = NULL, free_usec = coalesce((
        SELECT tombstone_usec FROM retentions WHERE retentions.queue = tasks.queue),
        :tombstone_usec) +

-- name: trim_exhausted
-- Delete the oldest exhausted tasks that are too many, or too large together.
DELETE FROM exhausted WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, row_number() OVER latest AS number, sum(length(payload)) OVER latest AS total
        FROM exhausted WHERE queue = :queue WINDOW latest AS (ORDER BY id DESC)
    ) AS counted
    WHERE number > :kept OR total > :payload_bytes)

-- name: names_in_use
-- The names of a list that are in use, and whether each is that of a tombstone.
SELECT name, eta_usec IS NULL FROM tasks
WHERE queue = :queue AND {is_listed}
    AND (eta_usec IS NOT NULL OR free_usec > :now_usec)

-- name: count_leased
INSERT INTO leased (queue, second, part, tasks) VALUES (:queue, :second, 0, :tasks)
ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks

-- name: remove_exhausted
DELETE FROM exhausted WHERE queue = :queue AND {is_listed}

-- name: drop_exhausted_payloads
UPDATE exhausted SET payload = {no_bytes} WHERE queue = :queue

-- name: free_names
DELETE FROM tasks WHERE queue = :queue AND {is_listed} AND +eta_usec IS NULL

-- name: free_all_names
-- What is appended to the name keeps the planner from reading all tasks of the queue.
DELETE FROM tasks
WHERE {project} = :project AND queue || '' = :queue AND free_usec IS NOT NULL

-- fragment: recorded
-- How many events an operation is: attempts that are only counted are one.
CASE WHEN kind IN ('attempt started', 'attempt failed') THEN 1 ELSE size END

-- name: recorded_events
-- How many events of a queue are recorded.
SELECT coalesce(sum({recorded}), 0) FROM events WHERE queue = :queue

-- name: trim_events
-- Delete the oldest operations that have at least `excess` events; the latest operation stays.
DELETE FROM events WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, sum({recorded}) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - {recorded} AS before
        FROM events WHERE queue = :queue ORDER BY id LIMIT :rows
    ) AS oldest
    WHERE before < :excess)
AND id < (SELECT max(id) FROM events WHERE queue = :queue)

-- name: trim_leased
DELETE FROM leased WHERE queue = :queue AND second <= :second

-- name: trim_tombstones
DELETE FROM tasks WHERE {project} = :project AND free_usec <= (
    SELECT max(free_usec) FROM (
        SELECT free_usec FROM tasks WHERE {project} = :project AND free_usec <= :now_usec
        ORDER BY free_usec LIMIT :rows
    ) AS oldest)

-- name: check
-- Store a task as an add does, but as a tombstone that has expired: no other statement reads it.
INSERT INTO tasks (queue, name, payload, tag, retry_count, enqueued_usec, stored_bytes, free_usec)
VALUES (:queue, :name, :payload, {no_bytes}, 0, 0, 0, :free_usec)

-- name: retention
SELECT leases, age_usec, lifetime_usec, tombstone_usec FROM retentions WHERE queue = :queue

-- name: set_retention
INSERT INTO retentions (queue, leases, age_usec, lifetime_usec, tombstone_usec)
VALUES (:queue, :leases, :age_usec, :lifetime_usec, :tombstone_usec)
ON CONFLICT (queue) DO UPDATE SET leases = excluded.leases, age_usec = excluded.age_usec,
    lifetime_usec = excluded.lifetime_usec, tombstone_usec = excluded.tombstone_usec

-- name: queue_records
SELECT queue, paused, purged_usec, deleted_usec, settings FROM queues WHERE {of_project}

-- name: change_queue_record
-- NULL leaves a part as it is.
INSERT INTO queues (queue, paused, purged_usec, settings)
VALUES (:queue, coalesce(CAST(:paused AS boolean), false), CAST(:purged_usec AS bigint),
    CAST(:settings AS text))
ON CONFLICT (queue) DO UPDATE SET
    paused = coalesce(CAST(:paused AS boolean), queues.paused),
    purged_usec = coalesce(excluded.purged_usec, queues.purged_usec),
    settings = coalesce(excluded.settings, queues.settings)

-- name: create_queue
-- Where several servers create a queue at once, one of them inserts or changes the record.
INSERT INTO queues (queue, paused, settings) VALUES (:queue, false, :settings)
ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, purged_usec = NULL, deleted_usec = NULL,
    settings = excluded.settings
WHERE queues.settings IS NULL AND coalesce(queues.deleted_usec <= :last_deleted_usec, true)

-- name: set_queue_record
-- Replace the record, also one that another transaction inserts at the same time.
INSERT INTO queues (queue, paused, purged_usec, deleted_usec, settings)
VALUES (:queue, :paused, :purged_usec, :deleted_usec, :settings)
ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, purged_usec = excluded.purged_usec,
    deleted_usec = excluded.deleted_usec, settings = excluded.settings

-- name: drop_queue_record
DELETE FROM queues WHERE queue = :queue

-- name: get
SELECT {task} FROM tasks WHERE queue = :queue AND name = :name
    AND (eta_usec IS NOT NULL OR free_usec > :now_usec)

-- fragment: page
-- What of the tasks of a list is in a state, and after a position.
eta_usec BETWEEN :first_usec AND :last_usec
    AND (CAST(:state AS text) IS NULL OR CAST(:state AS text) = {waiting_state})
    AND (eta_usec, sequence) > (:after_usec, :after_sequence)
ORDER BY eta_usec, sequence LIMIT :rows

-- name: list
SELECT {task} FROM tasks WHERE queue = :queue AND {page}

-- name: list_by_tag
SELECT {task} FROM tasks WHERE {queue_of_tag} = :queue AND tag = :tag AND {page}

-- name: count_tags
SELECT tag, count(*) FROM tasks
WHERE {queue_of_tag} = :queue AND tag <> {no_bytes} AND eta_usec IS NOT NULL
GROUP BY tag ORDER BY count(*) DESC, tag LIMIT :rows

-- name: future
-- How many tasks have an eta in the future: all, and those of each state.
SELECT count(*), count(*) FILTER (WHERE retry_count = 0),
    count(*) FILTER (WHERE retry_count > 0 AND finished IS NULL),
    count(*) FILTER (WHERE retry_count > finished),
    count(*) FILTER (WHERE retry_count BETWEEN 1 AND finished)
FROM tasks WHERE queue = :queue AND eta_usec > :now_usec

-- name: first_eta
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec IS NOT NULL ORDER BY eta_usec LIMIT 1

-- name: leased_since
SELECT coalesce(sum(CASE WHEN second > :minute THEN tasks ELSE 0 END), 0), coalesce(sum(tasks), 0)
FROM leased WHERE queue = :queue AND second > :hour

-- name: next_eta
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec > :now_usec ORDER BY eta_usec LIMIT 1

-- name: next_end
SELECT min(ends_usec) FROM tasks
WHERE {project} = :project AND queue || '' = :queue AND ends_usec IS NOT NULL

-- name: last_lease_end
SELECT eta_usec FROM tasks
WHERE queue = :queue AND eta_usec > :now_usec AND retry_count > coalesce(finished, 0)
ORDER BY eta_usec DESC LIMIT 1

-- name: count_exhausted
-- How many tasks are kept.
SELECT count(*) FROM exhausted WHERE queue = :queue

-- name: exhausted
SELECT {task} FROM exhausted WHERE queue = :queue ORDER BY id

-- fragment: operations
SELECT usec, kind, names, retry_counts, until_usec, origin, status, reason, fault FROM events
WHERE queue = :queue

-- name: events
{operations} AND names <> '' ORDER BY id

-- name: leases
-- The operations that lease tasks or renew leases, the latest first.
{operations} AND kind IN ('leased', 'extended') ORDER BY id DESC

-- name: last_attempts
-- The operations that start and end attempts, the latest first.
{operations} AND names <> '' AND kind IN ('attempt started', 'attempt succeeded', 'attempt failed')
ORDER BY id DESC LIMIT :rows

-- name: cron_runs
SELECT job, started_usec, status, reason FROM cron_runs

-- name: record_cron_run
INSERT INTO cron_runs (job, started_usec, status, reason) VALUES (:job, :started_usec, :status, :reason)
ON CONFLICT (job) DO UPDATE SET started_usec = excluded.started_usec, status = excluded.status,
    reason = excluded.reason

-- name: projects
SELECT name, number, record FROM projects ORDER BY number

-- name: add_project
INSERT INTO projects (name, record) VALUES (:name, :record)
ON CONFLICT (name) DO UPDATE SET record = projects.record
RETURNING number, record

-- name: delete_project
DELETE FROM projects WHERE number = :number

-- name: lease_steps
-- What happened to leases, the latest first.
SELECT usec, kind, names, origin FROM events
WHERE queue = :queue AND kind IN ('leased', 'extended', 'released') ORDER BY id DESC

-- name: count_events
-- How many events of each kind there were after a time.
SELECT kind, sum(size) FROM events
WHERE queue = :queue AND usec > :since_usec AND size > 0 GROUP BY kind

-- name: count_failures
-- How many attempts failed after a time, by their results.
SELECT status, reason, fault, sum(size) FROM events
WHERE queue = :queue AND usec > :since_usec AND kind = 'attempt failed' AND size > 0 GROUP BY 1, 2, 3

-- name: flow
-- How many events of each kind there were in each minute from a time on.
SELECT kind, usec / CAST(:minute_usec AS bigint), sum(size) FROM events
WHERE queue = :queue AND usec >= :first_usec AND size > 0 GROUP BY 1, 2

-- name: all_tasks
SELECT {task} FROM tasks WHERE {of_project} AND eta_usec IS NOT NULL
ORDER BY queue, eta_usec, sequence

-- name: all_exhausted
SELECT {task} FROM exhausted WHERE {of_project} ORDER BY id

-- name: all_tombstones
SELECT queue, name, free_usec FROM tasks WHERE {project} = :project AND free_usec > :now_usec
ORDER BY free_usec, sequence

-- name: all_leased
SELECT queue, second, sum(tasks) FROM leased WHERE {of_project} AND second > :second
GROUP BY queue, second
ORDER BY queue, second

-- name: last_sequence
SELECT coalesce(max(sequence), 0) FROM tasks

-- name: restore_task
INSERT INTO tasks ({task}, finished) VALUES ({task_values}, {value})

-- name: restore_exhausted
INSERT INTO exhausted ({task}) VALUES ({task_values})

-- name: restore_tombstone
INSERT INTO tasks (queue, name, free_usec, payload, tag, retry_count, enqueued_usec, stored_bytes)
VALUES ({value}, {value}, {value}, {no_bytes}, {no_bytes}, 0, 0, 0)
