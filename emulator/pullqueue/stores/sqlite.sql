-- The statements of the SQLite store. The store sends those of one operation in one transaction.
-- `stores/rows.py` has the columns of a task, `{task}`, and the fragments made of them; `request` and
-- `attempts` are NULL in a pull task.

-- fragment: waiting_state
-- The state of a task whose eta is in the future; `finished` is NULL in a pull task.
CASE WHEN retry_count = 0 THEN 'scheduled' WHEN finished IS NULL THEN 'leased'
        WHEN retry_count > finished THEN 'running' ELSE 'retrying' END

-- fragment: tombstone
-- What makes a tombstone of a task; the time from which on its name is in use follows.
payload = x'', tag = x'', request = NULL, attempts = NULL, finished = NULL, eta_usec = NULL,
    ends_usec = NULL, free_usec = coalesce((
        SELECT tombstone_usec FROM retentions WHERE retentions.queue = tasks.queue),
        :tombstone_usec) +

-- fragment: never
-- Later than any other time: `min` and `max` of NULL and a time are NULL.
9223372036854775807

-- fragment: end_of_life
coalesce(enqueued_usec + :lifetime_usec, {never})

-- name: find_exhausted
-- Whether a task is past the end of its last lease.
SELECT 1 FROM tasks WHERE ends_usec <= :now_usec LIMIT 1

-- name: exhausted_totals
SELECT queue, count(*), sum(stored_bytes) FROM tasks WHERE ends_usec <= :now_usec GROUP BY queue

-- name: keep_exhausted
INSERT INTO exhausted ({task})
SELECT {task} FROM tasks WHERE ends_usec <= :now_usec ORDER BY ends_usec, sequence

-- name: record_exhausted
-- One event for the tasks of a queue that were exhausted at the same time.
INSERT INTO events (queue, id, usec, kind, until_usec, size, names, retry_counts)
SELECT queue, :last_id + row_number() OVER (ORDER BY ends_usec), ends_usec, 'exhausted', NULL,
    count(*), group_concat(name), group_concat(retry_count)
FROM (
    SELECT queue, ends_usec, name, retry_count FROM tasks WHERE ends_usec <= :now_usec
    ORDER BY ends_usec, sequence
) AS due
GROUP BY queue, ends_usec

-- name: tombstone_exhausted
UPDATE tasks SET {tombstone} ends_usec
WHERE ends_usec <= :now_usec

-- name: trim_exhausted
-- Delete the oldest exhausted tasks that are too many, or too large together.
DELETE FROM exhausted WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, row_number() OVER latest AS number, sum(length(payload)) OVER latest AS total
        FROM exhausted WHERE queue = :queue WINDOW latest AS (ORDER BY id DESC)
    )
    WHERE number > :kept OR total > :payload_bytes)

-- name: next_sequence
-- The number of the next task; no row: there is no such queue.
SELECT coalesce((SELECT max(sequence) FROM tasks), 0) + 1
WHERE CASE WHEN :is_runtime
    THEN EXISTS (SELECT 1 FROM queues WHERE queue = :queue AND settings IS NOT NULL)
    ELSE NOT EXISTS (SELECT 1 FROM queues WHERE queue = :queue AND deleted_usec IS NOT NULL) END

-- name: insert_task
-- Store a task unless its name is in use; a tombstone that has expired is replaced.
INSERT INTO tasks ({task}, finished, ends_usec) VALUES ({task_values}, ?, ?)
ON CONFLICT (queue, name) DO UPDATE SET {task_excluded}, finished = excluded.finished,
    ends_usec = excluded.ends_usec, free_usec = NULL
WHERE tasks.free_usec <= excluded.enqueued_usec

-- name: sequences_from
SELECT sequence FROM tasks WHERE sequence >= :sequence

-- name: names_in_use
-- The names of a list that are in use, and whether each is that of a tombstone.
SELECT name, eta_usec IS NULL FROM tasks
WHERE queue = :queue AND name IN (SELECT value FROM json_each(:names))
    AND (eta_usec IS NOT NULL OR free_usec > :now_usec)

-- name: due
SELECT {task} FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec
ORDER BY eta_usec, sequence LIMIT :max_tasks

-- name: due_by_tag
SELECT {task} FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec AND tag = :tag
ORDER BY eta_usec, sequence LIMIT :max_tasks

-- name: first_due_tag
SELECT tag FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec
ORDER BY eta_usec, sequence LIMIT 1

-- name: lease_tasks
UPDATE tasks SET eta_usec = :until_usec, retry_count = retry_count + 1,
    ends_usec = nullif(min({end_of_life}, CASE WHEN retry_count + 1 >= :leases
        THEN max(:until_usec, enqueued_usec + :age_usec) ELSE {never} END), {never})
WHERE sequence IN (SELECT value FROM json_each(:sequences))

-- name: exhaust_due
-- End the last lease of due tasks now.
UPDATE tasks SET ends_usec = :now_usec WHERE sequence IN (
    SELECT sequence FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec
    ORDER BY eta_usec, sequence LIMIT :max_tasks)

-- name: exhaust_due_by_tag
UPDATE tasks SET ends_usec = :now_usec WHERE sequence IN (
    SELECT sequence FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec AND tag = :tag
    ORDER BY eta_usec, sequence LIMIT :max_tasks)

-- name: count_leased
INSERT INTO leased (queue, second, part, tasks) VALUES (:queue, :second, 0, :tasks)
ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks

-- name: modify_lease
UPDATE tasks SET eta_usec = :now_usec + :lease_usec,
    ends_usec = nullif(min({end_of_life}, CASE WHEN retry_count >= :leases
        THEN max(:now_usec + :lease_usec, enqueued_usec + :age_usec) ELSE {never} END), {never})
WHERE queue = :queue AND name = :name AND eta_usec > :now_usec AND retry_count > 0
    AND (:expected_eta_usec IS NULL OR eta_usec = :expected_eta_usec)
RETURNING {task}

-- name: move_attempt
-- Move the eta of a push task whose attempt starts, goes on or has failed.
UPDATE tasks SET eta_usec = :now_usec + :wait_usec, retry_count = retry_count + :started,
    attempts = coalesce(:attempts, attempts), finished = coalesce(:finished, finished)
WHERE queue = :queue AND name = :name AND +eta_usec = :expected_eta_usec
RETURNING {task}

-- name: release_attempts
UPDATE tasks SET eta_usec = :now_usec WHERE eta_usec > :now_usec AND retry_count > finished

-- name: delete
-- Make tombstones of tasks; with an `expected_eta_usec`, only of those whose current lease ends then.
-- The `+` keeps the planner from reading all tasks of the queue.
UPDATE tasks SET {tombstone} :now_usec
WHERE queue = :queue AND name IN (SELECT value FROM json_each(:names)) AND +eta_usec IS NOT NULL
    AND (:expected_eta_usec IS NULL OR (
        eta_usec = :expected_eta_usec AND eta_usec > :now_usec AND retry_count > 0))
RETURNING name, retry_count, stored_bytes

-- name: purge
UPDATE tasks SET {tombstone} :now_usec
WHERE queue = :queue AND eta_usec IS NOT NULL
RETURNING name, retry_count, stored_bytes

-- name: remove_exhausted
DELETE FROM exhausted
WHERE queue = :queue AND name IN (SELECT value FROM json_each(:names))

-- name: drop_exhausted_payloads
UPDATE exhausted SET payload = x'' WHERE queue = :queue

-- name: free_names
DELETE FROM tasks
WHERE queue = :queue AND name IN (SELECT value FROM json_each(:names)) AND +eta_usec IS NULL

-- name: free_all_names
-- What is appended to the name keeps the planner from reading all tasks of the queue.
DELETE FROM tasks WHERE queue || '' = :queue AND free_usec IS NOT NULL

-- name: record
INSERT INTO events (queue, id, usec, kind, until_usec, size, names, retry_counts, status, origin)
VALUES (:queue, :id, :usec, :kind, :until_usec, :size, :names, :retry_counts, :status, :origin)

-- name: last_event
SELECT coalesce(max(id), 0) FROM events

-- name: recorded_events
-- How many events of a queue are recorded.
SELECT coalesce(sum(size), 0) FROM events WHERE queue = :queue

-- name: trim_events
-- Delete the oldest operations that have at least `excess` events; the latest operation stays.
DELETE FROM events WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size AS before
        FROM events WHERE queue = :queue ORDER BY id LIMIT :rows
    )
    WHERE before < :excess)
AND id < (SELECT max(id) FROM events WHERE queue = :queue)

-- name: trim_leased
DELETE FROM leased WHERE queue = :queue AND second <= :second

-- name: trim_tombstones
DELETE FROM tasks WHERE free_usec <= (
    SELECT max(free_usec) FROM (
        SELECT free_usec FROM tasks WHERE free_usec <= :now_usec ORDER BY free_usec LIMIT :rows
    ))

-- name: check
-- Store a task as an add does, but as a tombstone that has expired: no other statement reads it.
INSERT INTO tasks (queue, name, payload, tag, retry_count, enqueued_usec, stored_bytes, free_usec)
VALUES ('', :name, :payload, x'', 0, 0, 0, :free_usec)

-- name: remove_checks
-- Delete those before: the space of the latest stays in use, so that it is not what the next finds.
DELETE FROM tasks WHERE free_usec = :free_usec AND name != :name

-- name: retention
SELECT leases, age_usec, lifetime_usec, tombstone_usec FROM retentions WHERE queue = :queue

-- name: set_retention
INSERT INTO retentions (queue, leases, age_usec, lifetime_usec, tombstone_usec)
VALUES (:queue, :leases, :age_usec, :lifetime_usec, :tombstone_usec)
ON CONFLICT (queue) DO UPDATE SET leases = excluded.leases, age_usec = excluded.age_usec,
    lifetime_usec = excluded.lifetime_usec, tombstone_usec = excluded.tombstone_usec

-- name: apply_retention
UPDATE tasks SET
    ends_usec = nullif(min({end_of_life}, CASE WHEN retry_count > 0 AND retry_count >= :leases
        THEN max(eta_usec, enqueued_usec + :age_usec) ELSE {never} END), {never})
WHERE queue = :queue AND eta_usec IS NOT NULL
    AND (ends_usec IS NOT NULL OR :lifetime_usec IS NOT NULL
        OR (retry_count > 0 AND retry_count >= :leases))

-- name: queue_records
SELECT queue, paused, purged_usec, deleted_usec, settings FROM queues

-- name: change_queue_record
-- NULL leaves a part as it is.
INSERT INTO queues (queue, paused, purged_usec, settings)
VALUES (:queue, coalesce(:paused, 0), :purged_usec, :settings)
ON CONFLICT (queue) DO UPDATE SET paused = coalesce(:paused, paused),
    purged_usec = coalesce(:purged_usec, purged_usec), settings = coalesce(:settings, settings)

-- name: create_queue
-- Where several servers create a queue at once, one of them inserts or changes the record.
INSERT INTO queues (queue, paused, settings) VALUES (:queue, 0, :settings)
ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, purged_usec = NULL, deleted_usec = NULL,
    settings = excluded.settings
WHERE queues.settings IS NULL AND coalesce(queues.deleted_usec <= :last_deleted_usec, true)

-- name: set_queue_record
INSERT OR REPLACE INTO queues (queue, paused, purged_usec, deleted_usec, settings)
VALUES (:queue, :paused, :purged_usec, :deleted_usec, :settings)

-- name: drop_queue_record
DELETE FROM queues WHERE queue = :queue

-- name: drop_tasks
DELETE FROM tasks WHERE queue = :queue

-- name: drop_exhausted
DELETE FROM exhausted WHERE queue = :queue

-- name: drop_events
DELETE FROM events WHERE queue = :queue

-- name: drop_leased
DELETE FROM leased WHERE queue = :queue

-- name: drop_retentions
DELETE FROM retentions WHERE queue = :queue

-- name: get
SELECT {task} FROM tasks WHERE queue = :queue AND name = :name
    AND (eta_usec IS NOT NULL OR free_usec > :now_usec)

-- name: list
SELECT {task} FROM tasks WHERE queue = :queue AND eta_usec BETWEEN :first_usec AND :last_usec
    AND (:state IS NULL OR :state = {waiting_state})
    AND (eta_usec, sequence) > (:after_usec, :after_sequence)
ORDER BY eta_usec, sequence LIMIT :rows

-- name: list_by_tag
SELECT {task} FROM tasks WHERE queue = :queue AND tag = :tag AND eta_usec BETWEEN :first_usec AND :last_usec
    AND (:state IS NULL OR :state = {waiting_state})
    AND (eta_usec, sequence) > (:after_usec, :after_sequence)
ORDER BY eta_usec, sequence LIMIT :rows

-- name: count_tags
SELECT tag, count(*) FROM tasks WHERE queue = :queue AND tag <> x'' AND eta_usec IS NOT NULL
GROUP BY tag ORDER BY count(*) DESC, tag LIMIT :rows

-- name: totals
-- How many tasks each queue has, and their size.
SELECT queue, count(*), sum(stored_bytes) FROM tasks WHERE eta_usec IS NOT NULL GROUP BY queue

-- name: future
-- How many tasks have an eta in the future: all, and those of each state.
SELECT count(*), coalesce(sum(retry_count = 0), 0),
    coalesce(sum(retry_count > 0 AND finished IS NULL), 0),
    coalesce(sum(retry_count > finished), 0), coalesce(sum(retry_count BETWEEN 1 AND finished), 0)
FROM tasks WHERE queue = :queue AND eta_usec > :now_usec

-- name: first_eta
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec IS NOT NULL ORDER BY eta_usec LIMIT 1

-- name: leased_since
SELECT coalesce(sum(CASE WHEN second > :minute THEN tasks ELSE 0 END), 0), coalesce(sum(tasks), 0)
FROM leased WHERE queue = :queue AND second > :hour

-- name: next_eta
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec > :now_usec ORDER BY eta_usec LIMIT 1

-- name: next_end
SELECT min(ends_usec) FROM tasks WHERE queue || '' = :queue AND ends_usec IS NOT NULL

-- name: last_lease_end
SELECT eta_usec FROM tasks
WHERE queue = :queue AND eta_usec > :now_usec AND retry_count > coalesce(finished, 0)
ORDER BY eta_usec DESC LIMIT 1

-- name: count_exhausted
-- How many tasks are kept.
SELECT count(*) FROM exhausted WHERE queue = :queue

-- name: exhausted
SELECT {task} FROM exhausted WHERE queue = :queue ORDER BY id

-- name: events
SELECT usec, kind, names, retry_counts, until_usec, status, origin FROM events
WHERE queue = :queue ORDER BY id

-- name: leases
-- The operations that lease tasks or renew leases, the latest first.
SELECT usec, kind, names, retry_counts, until_usec, status, origin FROM events
WHERE queue = :queue AND kind IN ('leased', 'extended') ORDER BY id DESC

-- name: last_attempts
-- When attempts started and ended, the latest first.
SELECT usec, kind, status FROM events WHERE queue = :queue
    AND kind IN ('attempt started', 'attempt succeeded', 'attempt failed')
ORDER BY id DESC LIMIT :rows

-- name: cron_runs
SELECT job, started_usec, status, reason FROM cron_runs

-- name: record_cron_run
INSERT INTO cron_runs (job, started_usec, status, reason) VALUES (:job, :started_usec, :status, :reason)
ON CONFLICT (job) DO UPDATE SET started_usec = excluded.started_usec, status = excluded.status,
    reason = excluded.reason

-- name: etas_of_leases
-- The etas at which leases end, each with the names of the tasks that have it; those never leased
-- can be among them. 50,000 rows of their own would take three times as long.
SELECT eta_usec, group_concat(name) FROM tasks WHERE queue = :queue AND eta_usec IN (
    SELECT until_usec FROM events WHERE queue = :queue AND kind IN ('leased', 'extended'))
GROUP BY eta_usec

-- name: lease_steps
-- What happened to leases, the latest first.
SELECT usec, kind, names, origin FROM events
WHERE queue = :queue AND kind IN ('leased', 'extended', 'released') ORDER BY id DESC

-- name: count_events
-- How many events of each kind there were after a time.
SELECT kind, sum(size) FROM events WHERE queue = :queue AND usec > :since_usec GROUP BY kind

-- name: flow
-- How many events of each kind there were in each minute from a time on.
SELECT kind, usec / :minute_usec, sum(size) FROM events WHERE queue = :queue AND usec >= :first_usec GROUP BY 1, 2

-- name: all_tasks
SELECT {task} FROM tasks WHERE eta_usec IS NOT NULL ORDER BY queue, eta_usec, sequence

-- name: all_exhausted
SELECT {task} FROM exhausted ORDER BY id

-- name: all_tombstones
SELECT queue, name, free_usec FROM tasks WHERE free_usec > :now_usec ORDER BY free_usec, sequence

-- name: all_leased
SELECT queue, second, sum(tasks) FROM leased WHERE second > :second GROUP BY queue, second
ORDER BY queue, second

-- name: clear_tasks
DELETE FROM tasks

-- name: clear_exhausted
DELETE FROM exhausted

-- name: clear_events
DELETE FROM events

-- name: clear_leased
DELETE FROM leased

-- name: clear_queues
DELETE FROM queues

-- name: restore_task
INSERT INTO tasks ({task}, finished) VALUES ({task_values}, ?)

-- name: restore_exhausted
INSERT INTO exhausted ({task}) VALUES ({task_values})

-- name: restore_tombstone
INSERT INTO tasks (queue, name, free_usec, payload, tag, retry_count, enqueued_usec, stored_bytes)
VALUES (?, ?, ?, x'', x'', 0, 0, 0)
