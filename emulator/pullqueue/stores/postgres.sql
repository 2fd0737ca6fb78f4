-- The statements of the PostgreSQL store. Each operation is one statement, which is a transaction and
-- a single round trip, and also records what it did.
--
-- `now_usec` is the time of a clock that is moved by hand; NULL: that of the database. Rows are changed
-- by `sequence = ANY(ARRAY(...))`, never by a join, so that no estimate of their number can lead the
-- planner to read the whole table; and what is looked for by name has no condition on `eta_usec`,
-- with which the planner would use the order of etas instead. Rows are locked in the order of their
-- names, so that operations on the same tasks wait for each other instead of ending in a deadlock.
-- `stores/rows.py` has the columns of a task, `{task}`, and the fragments made of them; `request` and
-- `attempts` are NULL in a pull task.

-- fragment: no_bytes
''

-- fragment: queue_of_tag
-- The queue as the index of tags has it.
queue || ''

-- fragment: project
substr(queue, 1, strpos(queue, '/'))

-- fragment: is_listed
-- Whether a name is one of `names`.
name = ANY(%(names)s)

-- fragment: now
now AS MATERIALIZED (SELECT coalesce(%(now_usec)s::bigint, clock_usec()) AS usec)

-- fragment: now_usec
(SELECT usec FROM now)

-- fragment: not_exhausted
(ends_usec IS NULL OR ends_usec > (SELECT usec FROM now))

-- fragment: add_to_totals
ON CONFLICT (queue, part) DO UPDATE SET
        tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes

-- fragment: queue_exists
CASE WHEN %(is_runtime)s::boolean
    THEN EXISTS (SELECT FROM queues WHERE queue = %(queue)s AND settings IS NOT NULL)
    ELSE NOT EXISTS (SELECT FROM queues WHERE queue = %(queue)s AND deleted_usec IS NOT NULL) END

-- name: find_exhausted
-- The time, and whether a task is past the end of its last lease by then.
SELECT now.usec, EXISTS (
    SELECT FROM tasks WHERE {project} = %(project)s AND ends_usec <= now.usec)
FROM (SELECT coalesce(%(now_usec)s::bigint, clock_usec()) AS usec) AS now

-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ

-- name: no_timeout
-- An operation on a whole store may take its time.
SET LOCAL statement_timeout = 0

-- name: lock_tasks
-- Wait for those who change tasks, and keep others from it until the transaction ends.
LOCK TABLE tasks IN EXCLUSIVE MODE

-- name: lock_totals
-- Keep others from adding tasks under a storage limit until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ': storage limit' || %(project)s, 0))

-- name: exhaust
-- Make tombstones of tasks that are past the end of their last lease, and keep them as they were.
WITH {now},
due AS MATERIALIZED (
    SELECT {task}, ends_usec FROM tasks
    WHERE {project} = %(project)s AND ends_usec <= {now_usec}
    ORDER BY ends_usec, sequence LIMIT 1000 FOR UPDATE
),
kept AS (
    INSERT INTO exhausted ({task})
    SELECT {task} FROM due ORDER BY ends_usec, sequence
),
tombstoned AS (
    UPDATE tasks SET {tombstone} ends_usec
    WHERE sequence = ANY(ARRAY(SELECT sequence FROM due))
),
counted AS (
    INSERT INTO totals (queue, part, tasks, bytes)
    SELECT queue, own_part(), -count(*), -sum(stored_bytes) FROM due GROUP BY queue
    {add_to_totals}
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts)
    SELECT queue, ends_usec, 'exhausted', NULL, count(*),
        string_agg(name, ',' ORDER BY sequence),
        string_agg(CAST(retry_count AS text), ',' ORDER BY sequence)
    FROM due GROUP BY queue, ends_usec ORDER BY ends_usec
)
SELECT DISTINCT queue FROM due

-- name: find_queue
-- A row if there is a queue.
SELECT 1 WHERE {queue_exists}

-- name: insert
-- Store the tasks whose names are free; a tombstone that has expired is replaced. Who deletes a queue
-- locks the table first: the statement then waits, and sees that there is no such queue.
WITH {now},
given AS MATERIALIZED (
    SELECT *, coalesce(wanted_usec, {now_usec}) AS eta_usec,
        nextval('tasks_sequence_seq') AS sequence, 0 AS retry_count, %(queue)s::text AS queue,
        {now_usec} AS enqueued_usec, CAST(NULL AS text) AS attempts
    FROM unnest({new_task_lists}, %(new_eta_usec)s::bigint[]) AS batch ({new_task}, wanted_usec)
    WHERE {queue_exists}
),
stored AS (
    INSERT INTO tasks ({task}, finished, ends_usec)
    SELECT {task}, CASE WHEN request IS NOT NULL THEN 0 END,
        enqueued_usec + %(lifetime_usec)s::bigint
    FROM given ORDER BY name
    ON CONFLICT (queue, name) DO UPDATE SET {task_excluded}, finished = excluded.finished,
        ends_usec = excluded.ends_usec, free_usec = NULL
    WHERE tasks.free_usec <= excluded.enqueued_usec
    RETURNING eta_usec, sequence, name, enqueued_usec, stored_bytes
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin)
    SELECT %(queue)s, {now_usec}, 'added', NULL, count(*),
        string_agg(name, ',' ORDER BY sequence), string_agg('0', ','), %(origin)s::text FROM stored
    HAVING count(*) > 0
),
counted AS (
    INSERT INTO totals (queue, part, tasks, bytes)
    SELECT %(queue)s, own_part(), count(*), sum(stored_bytes) FROM stored HAVING count(*) > 0
    {add_to_totals}
)
SELECT eta_usec, sequence, name, enqueued_usec FROM stored

-- fragment: begin_lease
-- The time of a lease, if it is permitted. A call waits for the row of `lease_calls` until the call
-- before it has ended, and sees the time of that call: the time of a call is when it is permitted.
WITH permitted AS (
    INSERT INTO lease_calls (queue, usecs)
    SELECT %(queue)s, ARRAY[coalesce(%(now_usec)s::bigint, clock_usec())]
    WHERE %(calls_per_second)s::bigint > 0
    ON CONFLICT (queue) DO UPDATE SET usecs = (
        -- Times in the future are those of a clock that was set back.
        CASE WHEN lease_calls.usecs[cardinality(lease_calls.usecs)]
                > coalesce(%(now_usec)s, clock_usec()) THEN ARRAY[]::bigint[]
            ELSE lease_calls.usecs[
                greatest(cardinality(lease_calls.usecs) - %(calls_per_second)s::integer + 2, 1):]
        END || coalesce(%(now_usec)s, clock_usec()))
    WHERE cardinality(lease_calls.usecs) < %(calls_per_second)s
        OR lease_calls.usecs[cardinality(lease_calls.usecs) - %(calls_per_second)s::integer + 1]
            <= coalesce(%(now_usec)s, clock_usec()) - 1000000
        OR lease_calls.usecs[cardinality(lease_calls.usecs)]
            > coalesce(%(now_usec)s, clock_usec())
    RETURNING usecs[cardinality(usecs)] AS usec
),
now AS MATERIALIZED (
    SELECT usec FROM permitted
    UNION ALL
    SELECT coalesce(%(now_usec)s, clock_usec()) WHERE %(calls_per_second)s IS NULL
),

-- fragment: lease_due
-- Lease the tasks that are `due`, as many as fit.
fitting AS MATERIALIZED (
    SELECT sequence, eta_usec AS place FROM (
        SELECT sequence, eta_usec, row_number() OVER by_eta AS number,
            sum(size) OVER by_eta AS total
        FROM due WINDOW by_eta AS (ORDER BY eta_usec, sequence)
    ) AS counted WHERE number = 1 OR total <= %(payload_bytes)s
),
leased_now AS (
    UPDATE tasks SET eta_usec = {now_usec} + %(lease_usec)s,
        retry_count = retry_count + 1,
        ends_usec = least(enqueued_usec + %(lifetime_usec)s::bigint,
            CASE WHEN retry_count + 1 >= %(leases)s::bigint THEN greatest(
                {now_usec} + %(lease_usec)s, enqueued_usec + %(age_usec)s) END)
    WHERE sequence = ANY(ARRAY(SELECT sequence FROM fitting))
    RETURNING {task}
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin)
    SELECT %(queue)s, {now_usec}, 'leased',
        {now_usec} + %(lease_usec)s, count(*),
        string_agg(name, ',' ORDER BY place, sequence),
        string_agg(CAST(retry_count AS text), ',' ORDER BY place, sequence), %(origin)s::text
    FROM leased_now JOIN fitting USING (sequence) HAVING count(*) > 0
),
counted AS (
    INSERT INTO leased (queue, second, part, tasks)
    SELECT %(queue)s, {now_usec} / 1000000, own_part(), count(*) FROM leased_now
    HAVING count(*) > 0
    ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks
)
SELECT EXISTS (
    SELECT FROM tasks WHERE {project} = %(project)s AND ends_usec <= now.usec
) AS exhausted, {task}
FROM now LEFT JOIN (leased_now JOIN fitting USING (sequence)) AS task ON true
ORDER BY place, task.sequence

-- name: lease
-- Lease the first due tasks that nobody else is leasing, as many as fit. No row: there were too many
-- calls within a second. One row without a task: nothing is due.
{begin_lease}
due AS MATERIALIZED (
    SELECT sequence, eta_usec, octet_length(payload) AS size FROM tasks
    WHERE queue = %(queue)s AND eta_usec <= {now_usec}
        AND {not_exhausted}
    ORDER BY eta_usec, sequence LIMIT %(max_tasks)s FOR UPDATE SKIP LOCKED
),
{lease_due}

-- name: lease_by_tag
-- The same for the tasks of a tag; NULL: of the tag of the first task that nobody else is leasing.
{begin_lease}
first AS MATERIALIZED (
    SELECT tag FROM tasks
    WHERE queue = %(queue)s AND eta_usec <= {now_usec}
        AND {not_exhausted}
    ORDER BY eta_usec, sequence LIMIT 1 FOR UPDATE SKIP LOCKED
),
due AS MATERIALIZED (
    SELECT sequence, eta_usec, octet_length(payload) AS size FROM tasks
    WHERE queue || '' = %(queue)s AND tag = coalesce(%(tag)b::bytea, (SELECT tag FROM first))
        AND eta_usec <= {now_usec}
        AND {not_exhausted}
    ORDER BY eta_usec, sequence LIMIT %(max_tasks)s FOR UPDATE SKIP LOCKED
),
{lease_due}

-- name: exhaust_due
-- End the last lease of due tasks now.
UPDATE tasks SET ends_usec = %(now_usec)s WHERE sequence = ANY(ARRAY(
    SELECT sequence FROM tasks WHERE queue = %(queue)s AND eta_usec <= %(now_usec)s
    ORDER BY eta_usec, sequence LIMIT %(max_tasks)s FOR UPDATE SKIP LOCKED))

-- name: exhaust_due_by_tag
UPDATE tasks SET ends_usec = %(now_usec)s WHERE sequence = ANY(ARRAY(
    SELECT sequence FROM tasks
    WHERE queue || '' = %(queue)s AND eta_usec <= %(now_usec)s
        AND tag = coalesce(%(tag)b::bytea, (
            SELECT tag FROM tasks WHERE queue = %(queue)s AND eta_usec <= %(now_usec)s
            ORDER BY eta_usec, sequence LIMIT 1))
    ORDER BY eta_usec, sequence LIMIT %(max_tasks)s FOR UPDATE SKIP LOCKED))

-- name: modify_lease
WITH {now},
changed AS (
    UPDATE tasks SET eta_usec = {now_usec} + %(lease_usec)s,
        ends_usec = least(enqueued_usec + %(lifetime_usec)s::bigint,
            CASE WHEN retry_count >= %(leases)s::bigint THEN greatest(
                {now_usec} + %(lease_usec)s, enqueued_usec + %(age_usec)s) END)
    WHERE queue = %(queue)s AND name = %(name)s
        AND coalesce(eta_usec, 0) > {now_usec} AND retry_count > 0
        AND (%(expected_eta_usec)s::bigint IS NULL OR eta_usec = %(expected_eta_usec)s)
        AND {not_exhausted}
    RETURNING {task}
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin)
    SELECT queue, {now_usec}, %(kind)s,
        CASE WHEN %(lease_usec)s > 0 THEN eta_usec END, 1, name, CAST(retry_count AS text),
        %(origin)s::text
    FROM changed
)
SELECT {task} FROM changed

-- name: move_attempt
-- Move the eta of a push task whose attempt starts, goes on or has failed.
WITH {now},
moved AS (
    UPDATE tasks SET eta_usec = {now_usec} + %(wait_usec)s::bigint,
        retry_count = retry_count + %(started)s::integer,
        attempts = coalesce(%(attempts)s::text, attempts),
        finished = coalesce(%(finished)s::integer, finished)
    WHERE queue = %(queue)s AND name = %(name)s
        AND coalesce(eta_usec, 0) = %(expected_eta_usec)s::bigint AND free_usec IS NULL
        AND {not_exhausted}
    RETURNING {task}
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin,
        status, reason, fault)
    SELECT queue, {now_usec}, %(kind)s::text, eta_usec, %(size)s::integer, name,
        CAST(retry_count AS text), %(origin)s::text, %(status)s::integer, %(reason)s::text, %(fault)s::integer
    FROM moved WHERE %(kind)s::text IS NOT NULL
),
counted AS (
    INSERT INTO leased (queue, second, part, tasks)
    SELECT queue, {now_usec} / 1000000, own_part(), %(size)s::integer FROM moved
    WHERE %(started)s::integer > 0
    ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks
)
SELECT {task} FROM moved

-- name: count_failed
INSERT INTO events (queue, usec, kind, size, names, retry_counts, status, reason, fault)
VALUES (%(queue)s, %(usec)s, %(kind)s, %(size)s, '', '', %(status)s, %(reason)s, %(fault)s)

-- name: end_attempt
-- Make a tombstone of a push task after its last attempt, and keep it if it is exhausted.
WITH {now},
ended AS MATERIALIZED (
    SELECT {task} FROM tasks
    WHERE queue = %(queue)s AND name = %(name)s
        AND coalesce(eta_usec, 0) = %(expected_eta_usec)s::bigint AND free_usec IS NULL
        AND {not_exhausted}
    FOR UPDATE
),
kept AS (
    INSERT INTO exhausted ({task_without_attempts}, attempts)
    SELECT {task_without_attempts}, %(attempts)s::text
    FROM ended WHERE %(exhausted)s::boolean
),
tombstoned AS (
    UPDATE tasks SET {tombstone} {now_usec}
    WHERE sequence = ANY(ARRAY(SELECT sequence FROM ended))
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin,
        status, reason, fault)
    SELECT queue, {now_usec}, kind, NULL, size, name, CAST(retry_count AS text), %(origin)s::text,
        status, reason, fault
    FROM ended CROSS JOIN (VALUES
            (1, %(kind)s::text, %(size)s::integer, %(status)s::integer, %(reason)s::text,
                %(fault)s::integer),
            (2, 'exhausted', 1, NULL, NULL, NULL))
        AS happened (place, kind, size, status, reason, fault)
    WHERE place = 1 OR %(exhausted)s::boolean ORDER BY place
),
counted AS (
    INSERT INTO totals (queue, part, tasks, bytes)
    SELECT queue, own_part(), -1, -stored_bytes FROM ended
    {add_to_totals}
)
SELECT {task} FROM ended

-- name: delete
-- The index finds the names of a list in their order. With an `expected_eta_usec`, only tasks are
-- deleted whose current lease ends then.
WITH {now},
deleted AS (
    UPDATE tasks SET {tombstone} {now_usec}
    WHERE queue = %(queue)s AND name = ANY(%(names)s) AND free_usec IS NULL
        AND {not_exhausted}
        AND (%(expected_eta_usec)s::bigint IS NULL OR (retry_count > 0
            AND coalesce(eta_usec, 0) = %(expected_eta_usec)s
            AND coalesce(eta_usec, 0) > {now_usec}))
    RETURNING name, retry_count, stored_bytes
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin)
    SELECT %(queue)s, {now_usec}, 'deleted', NULL, count(*), string_agg(name, ','),
        string_agg(CAST(retry_count AS text), ','), %(origin)s::text
    FROM deleted HAVING count(*) > 0
),
counted AS (
    INSERT INTO totals (queue, part, tasks, bytes)
    SELECT %(queue)s, own_part(), -count(*), -sum(stored_bytes) FROM deleted HAVING count(*) > 0
    {add_to_totals}
)
SELECT name FROM deleted

-- name: purge
WITH deleted AS (
    UPDATE tasks SET {tombstone} %(now_usec)s
    WHERE queue = %(queue)s AND eta_usec IS NOT NULL
    RETURNING name, retry_count, stored_bytes
),
recorded AS (
    INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, origin)
    SELECT %(queue)s, %(now_usec)s, 'purged', NULL, count(*), string_agg(name, ','),
        string_agg(CAST(retry_count AS text), ','), %(origin)s::text
    FROM (SELECT * FROM deleted LIMIT %(events)s) AS first HAVING count(*) > 0
),
counted AS (
    INSERT INTO totals (queue, part, tasks, bytes)
    SELECT %(queue)s, own_part(), -count(*), -sum(stored_bytes) FROM deleted HAVING count(*) > 0
    {add_to_totals}
)
SELECT count(*) FROM deleted

-- name: remove_checks
-- Delete those before that no other server deletes at the same time.
DELETE FROM tasks WHERE sequence IN (
    SELECT sequence FROM tasks
    WHERE {project} = %(project)s AND free_usec = %(free_usec)s AND name != %(name)s
    FOR UPDATE SKIP LOCKED)

-- name: apply_retention
UPDATE tasks SET ends_usec = least(enqueued_usec + %(lifetime_usec)s::bigint,
    CASE WHEN retry_count > 0 AND retry_count >= %(leases)s::bigint
        THEN greatest(eta_usec, enqueued_usec + %(age_usec)s) END)
WHERE queue = %(queue)s AND eta_usec IS NOT NULL
    AND (ends_usec IS NOT NULL OR %(lifetime_usec)s::bigint IS NOT NULL
        OR (retry_count > 0 AND retry_count >= %(leases)s::bigint))

-- name: drop_queue
-- Delete everything of a queue but its record.
WITH no_exhausted AS (DELETE FROM exhausted WHERE queue = %(queue)s),
no_events AS (DELETE FROM events WHERE queue = %(queue)s),
no_leased AS (DELETE FROM leased WHERE queue = %(queue)s),
no_retentions AS (DELETE FROM retentions WHERE queue = %(queue)s),
no_totals AS (DELETE FROM totals WHERE queue = %(queue)s),
no_lease_calls AS (DELETE FROM lease_calls WHERE queue = %(queue)s)
DELETE FROM tasks WHERE queue = %(queue)s

-- name: totals
-- How many tasks a queue has, and their size; NULL: those of each queue.
SELECT queue, sum(tasks), sum(bytes) FROM totals
WHERE {of_project} AND queue = coalesce(%(queue)s::text, queue) GROUP BY queue

-- name: etas_of_leases
-- The etas at which leases end, each with the names of the tasks that have it; those never leased
-- can be among them.
SELECT eta_usec, string_agg(name, ',') FROM tasks WHERE queue = %(queue)s AND eta_usec IN (
    SELECT until_usec FROM events WHERE queue = %(queue)s AND kind IN ('leased', 'extended'))
GROUP BY eta_usec

-- name: clear
-- Delete everything but the retentions, which follow from the configuration.
WITH no_exhausted AS (DELETE FROM exhausted WHERE {of_project}),
no_events AS (DELETE FROM events WHERE {of_project}),
no_leased AS (DELETE FROM leased WHERE {of_project}),
no_totals AS (DELETE FROM totals WHERE {of_project}),
no_lease_calls AS (DELETE FROM lease_calls WHERE {of_project}),
no_queues AS (DELETE FROM queues WHERE {of_project})
DELETE FROM tasks WHERE {of_project}

-- name: drop_some_tasks
DELETE FROM tasks WHERE sequence = ANY(ARRAY(
    SELECT sequence FROM tasks WHERE {of_project} LIMIT %(rows)s))

-- name: drop_project
-- Delete what is left of a project that was cleared.
WITH no_dispatchers AS (DELETE FROM dispatchers WHERE {of_project})
DELETE FROM retentions WHERE {of_project}

-- name: restore_totals
INSERT INTO totals (queue, part, tasks, bytes)
SELECT queue, 0, count(*), sum(stored_bytes) FROM tasks WHERE {of_project} AND eta_usec IS NOT NULL
GROUP BY queue

-- name: renumber
-- Number new tasks from above those that are stored.
SELECT setval('tasks_sequence_seq', coalesce(max(sequence), 0) + 1, false) FROM tasks

-- name: claim_dispatch
-- Make a server the one that sends the tasks of a queue, for a while, unless another one is.
-- The time is the machine's, also where tasks have that of a clock that is moved by hand.
-- The row says whether it has been since it asked first: the subquery sees the claim before.
INSERT INTO dispatchers (queue, server, until_usec)
VALUES (%(queue)s, %(server)s, clock_usec() + %(usec)s)
ON CONFLICT (queue) DO UPDATE SET server = excluded.server, until_usec = excluded.until_usec
    WHERE dispatchers.server = excluded.server OR dispatchers.until_usec < clock_usec()
RETURNING EXISTS (SELECT FROM dispatchers WHERE queue = %(queue)s AND server = %(server)s)

-- name: release_dispatch
DELETE FROM dispatchers WHERE server = %(server)s
