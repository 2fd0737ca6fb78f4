-- The statements of the SQLite store. The store sends those of one operation in one transaction.
-- `stores/rows.py` has the columns of a task, `{task}`, and the fragments made of them; `request` and
-- `attempts` are NULL in a pull task.

-- fragment: no_bytes
x''

-- fragment: queue_of_tag
-- The queue as the index of tags has it.
queue

-- fragment: project
substr(queue, 1, instr(queue, '/'))

-- fragment: is_listed
-- Whether a name is one of `names`.
name IN (SELECT value FROM json_each(:names))

-- fragment: never
-- Later than any other time: `min` and `max` of NULL and a time are NULL.
9223372036854775807

-- fragment: end_of_life
coalesce(enqueued_usec + :lifetime_usec, {never})

-- name: find_exhausted
-- Whether a task is past the end of its last lease.
SELECT 1 FROM tasks WHERE {project} = :project AND ends_usec <= :now_usec LIMIT 1

-- name: exhausted_totals
SELECT queue, count(*), sum(stored_bytes) FROM tasks WHERE {project} = :project AND ends_usec <= :now_usec GROUP BY queue

-- name: keep_exhausted
INSERT INTO exhausted ({task})
SELECT {task} FROM tasks WHERE {project} = :project AND ends_usec <= :now_usec ORDER BY ends_usec, sequence

-- name: record_exhausted
-- One event for the tasks of a queue that were exhausted at the same time.
INSERT INTO events (queue, id, usec, kind, until_usec, size, names, retry_counts)
SELECT queue, :last_id + row_number() OVER (ORDER BY ends_usec), ends_usec, 'exhausted', NULL,
    count(*), group_concat(name), group_concat(retry_count)
FROM (
    SELECT queue, ends_usec, name, retry_count FROM tasks WHERE {project} = :project AND ends_usec <= :now_usec
    ORDER BY ends_usec, sequence
) AS due
GROUP BY queue, ends_usec

-- name: tombstone_exhausted
UPDATE tasks SET {tombstone} ends_usec
WHERE {project} = :project AND ends_usec <= :now_usec

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
UPDATE tasks SET eta_usec = :now_usec
WHERE {of_project} AND eta_usec > :now_usec AND retry_count > finished

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

-- name: record
INSERT INTO events (queue, id, usec, kind, until_usec, size, names, retry_counts, origin,
    status, reason, fault)
VALUES (:queue, :id, :usec, :kind, :until_usec, :size, :names, :retry_counts, :origin,
    :status, :reason, :fault)

-- name: count_failed
INSERT INTO events (queue, id, usec, kind, size, names, retry_counts, status, reason, fault)
VALUES (:queue, :id, :usec, :kind, :size, '', '', :status, :reason, :fault)

-- name: last_event
SELECT coalesce(max(id), 0) FROM events WHERE {of_project}

-- name: remove_checks
-- Delete those before: the space of the latest stays in use, so that it is not what the next finds.
DELETE FROM tasks WHERE {project} = :project AND free_usec = :free_usec AND name != :name

-- name: apply_retention
UPDATE tasks SET
    ends_usec = nullif(min({end_of_life}, CASE WHEN retry_count > 0 AND retry_count >= :leases
        THEN max(eta_usec, enqueued_usec + :age_usec) ELSE {never} END), {never})
WHERE queue = :queue AND eta_usec IS NOT NULL
    AND (ends_usec IS NOT NULL OR :lifetime_usec IS NOT NULL
        OR (retry_count > 0 AND retry_count >= :leases))

-- name: drop_some_tasks
DELETE FROM tasks WHERE sequence IN (SELECT sequence FROM tasks WHERE {of_project} LIMIT :rows)

-- name: drop_project
-- Delete what is left of a project that was cleared.
DELETE FROM retentions WHERE {of_project}

-- name: drop_ tasks exhausted events leased retentions
DELETE FROM {table} WHERE queue = :queue

-- name: totals
-- How many tasks each queue has, and their size.
SELECT queue, count(*), sum(stored_bytes) FROM tasks WHERE {of_project} AND eta_usec IS NOT NULL
GROUP BY queue

-- name: etas_of_leases
-- The etas at which leases end, each with the names of the tasks that have it; those never leased
-- can be among them. 50,000 rows of their own would take three times as long.
SELECT eta_usec, group_concat(name) FROM tasks WHERE queue = :queue AND eta_usec IN (
    SELECT until_usec FROM events WHERE queue = :queue AND kind IN ('leased', 'extended'))
GROUP BY eta_usec

-- name: delete_all_ tasks events
-- Without other projects: SQLite drops the pages of a table, a tenth of the time of `clear_tasks`.
DELETE FROM {table}

-- name: clear_ tasks exhausted events leased queues
DELETE FROM {table} WHERE {of_project}
