"""The statements that all databases share, written as `Session` tells."""

from __future__ import annotations

from pullqueue.stores.rows import TASK_COLUMNS

BURY = """payload = :nothing, tag = :nothing, eta_usec = NULL, ends_usec = NULL,
free_usec = :free_usec"""
"""What makes a tombstone of a task."""

# -- time ----------------------------------------------------------------------------------------

FIRST_END = "SELECT min(ends_usec) FROM tasks WHERE ends_usec IS NOT NULL"
SPENT = f"""
SELECT {TASK_COLUMNS}, ends_usec FROM tasks WHERE ends_usec <= :now_usec
ORDER BY ends_usec, sequence LIMIT 1000 LOCK_ROWS"""

# -- the life of tasks ---------------------------------------------------------------------------

NAMES = """
SELECT name, eta_usec IS NULL FROM tasks
WHERE queue = :queue AND name IN_LIST(names)
AND (eta_usec IS NOT NULL OR free_usec > :now_usec)"""
"""The names that are taken, and whether each is so by a tombstone."""

_DUE = """FROM tasks WHERE queue = :queue AND eta_usec <= :now_usec"""
DUE = f"""
SELECT {TASK_COLUMNS} {_DUE} ORDER BY eta_usec, sequence LIMIT :max_tasks LOCK_ROWS"""
DUE_BY_TAG = f"""
SELECT {TASK_COLUMNS} {_DUE} AND tag = :tag
ORDER BY eta_usec, sequence LIMIT :max_tasks LOCK_ROWS"""
FIRST_TAG = f"""
SELECT tag {_DUE} ORDER BY eta_usec, sequence LIMIT 1 LOCK_ROWS"""

_TAKE = """
UPDATE tasks SET eta_usec = :until_usec, retry_count = retry_count + 1,
ends_usec = CASE WHEN retry_count + 1 >= :leases THEN
    CASE WHEN enqueued_usec + :age_usec > :until_usec THEN enqueued_usec + :age_usec
    ELSE :until_usec END
END"""
LEASE = f"{_TAKE} WHERE sequence IN_LIST(sequences)"
LEASE_ONE = f"{_TAKE} WHERE sequence = :sequence"
MODIFY = f"""
UPDATE tasks SET eta_usec = :until_usec,
ends_usec = CASE WHEN retry_count >= :leases THEN
    CASE WHEN enqueued_usec + :age_usec > :until_usec THEN enqueued_usec + :age_usec
    ELSE :until_usec END
END
WHERE queue = :queue AND name = :name AND eta_usec > :now_usec AND retry_count > 0
AND (:expected_eta_usec IS NULL OR eta_usec = :expected_eta_usec)
RETURNING {TASK_COLUMNS}"""
DELETE = f"""
UPDATE tasks SET {BURY}
WHERE queue = :queue AND name IN_LIST(names) AND +eta_usec IS NOT NULL
RETURNING name, retry_count, stored_bytes"""
"""The plus sign keeps SQLite from reading all tasks of the queue in the order of their etas."""
DELETE_ONE = f"""
UPDATE tasks SET {BURY} WHERE queue = :queue AND name = :name AND eta_usec IS NOT NULL
RETURNING name, retry_count, stored_bytes"""
PURGE = f"""
UPDATE tasks SET {BURY} WHERE queue = :queue AND eta_usec IS NOT NULL
RETURNING name, retry_count, stored_bytes"""
BURY_SEQUENCES = f"UPDATE tasks SET {BURY} WHERE sequence IN_LIST(sequences)"

FREE_NAMES = "DELETE FROM tasks WHERE queue = :queue AND name IN_LIST(names) AND +eta_usec IS NULL"
FREE_ALL_NAMES = "DELETE FROM tasks WHERE queue || '' = :queue AND free_usec IS NOT NULL"

# -- retry limits --------------------------------------------------------------------------------

RETRY_LIMIT = "SELECT leases, age_usec FROM retry_limits WHERE queue = :queue"
SET_RETRY_LIMIT = """
INSERT INTO retry_limits (queue, leases, age_usec) VALUES (:queue, :leases, :age_usec)
ON CONFLICT (queue) DO UPDATE SET leases = excluded.leases, age_usec = excluded.age_usec"""
LIMIT_LEASES = """
UPDATE tasks SET ends_usec = CASE WHEN retry_count > 0 AND retry_count >= :leases THEN
    CASE WHEN enqueued_usec + :age_usec > eta_usec THEN enqueued_usec + :age_usec
    ELSE eta_usec END
END
WHERE queue = :queue AND eta_usec IS NOT NULL
AND (ends_usec IS NOT NULL OR (retry_count > 0 AND retry_count >= :leases))"""

# -- records -------------------------------------------------------------------------------------

RECORD = """
INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts)
VALUES (:queue, :usec, :kind, :until_usec, :size, :names, :retry_counts)"""
EVENTS = """
SELECT usec, kind, names, retry_counts, until_usec FROM events WHERE queue = :queue ORDER BY id"""
KEEP_EXHAUSTED = f"""
INSERT INTO exhausted ({TASK_COLUMNS}) VALUES (:eta_usec, :sequence, :name, :queue, :payload,
:tag, :retry_count, :enqueued_usec, :stored_bytes)"""
EXHAUSTED = f"SELECT {TASK_COLUMNS} FROM exhausted WHERE queue = :queue ORDER BY id"
FORGET_EXHAUSTED = """
DELETE FROM exhausted WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, row_number() OVER latest AS number, sum(length(payload)) OVER latest AS total
        FROM exhausted WHERE queue = :queue WINDOW latest AS (ORDER BY id DESC)
    ) AS counted
    WHERE number > :kept OR total > :payload_bytes)"""
DROP_PAYLOADS = "UPDATE exhausted SET payload = :nothing WHERE queue = :queue"
COUNT_LEASED = """
INSERT INTO leased (queue, second, part, tasks) VALUES (:queue, :second, 0, :tasks)
ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks"""

# -- sweeping ------------------------------------------------------------------------------------

TOLD = "SELECT coalesce(sum(size), 0) FROM events WHERE queue = :queue"
FORGET_EVENTS = """
DELETE FROM events WHERE queue = :queue AND id <= (
    SELECT max(id) FROM (
        SELECT id, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size AS told_before
        FROM events WHERE queue = :queue ORDER BY id LIMIT :rows
    ) AS oldest
    WHERE told_before < :excess)
AND id < (SELECT max(id) FROM events WHERE queue = :queue)"""
"""Adding up what is to go, and not what stays, is the less to add up."""
FORGET_LEASED = "DELETE FROM leased WHERE queue = :queue AND second <= :second"
FORGET_TOMBSTONES = """
DELETE FROM tasks WHERE free_usec <= (
    SELECT max(free_usec) FROM (
        SELECT free_usec FROM tasks WHERE free_usec <= :now_usec ORDER BY free_usec LIMIT :rows
    ) AS oldest)"""

# -- questions -----------------------------------------------------------------------------------

GET = f"""
SELECT {TASK_COLUMNS} FROM tasks WHERE queue = :queue AND name = :name
AND (eta_usec IS NOT NULL OR free_usec > :now_usec)"""
AHEAD = """
SELECT count(*), coalesce(sum(CASE WHEN retry_count > 0 THEN 1 ELSE 0 END), 0) FROM tasks
WHERE queue = :queue AND eta_usec > :now_usec"""
FIRST_ETA = """
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec IS NOT NULL
ORDER BY eta_usec LIMIT 1"""
LEASED = """
SELECT coalesce(sum(CASE WHEN second > :minute THEN tasks ELSE 0 END), 0), coalesce(sum(tasks), 0)
FROM leased WHERE queue = :queue AND second > :hour"""
NEXT_ETA = """
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec > :now_usec
ORDER BY eta_usec LIMIT 1"""
NEXT_END = """
SELECT min(ends_usec) FROM tasks WHERE queue || '' = :queue AND ends_usec IS NOT NULL"""
"""What is joined to the queue's name keeps SQLite from reading all tasks of the queue."""
LAST_LEASE_END = """
SELECT eta_usec FROM tasks WHERE queue = :queue AND eta_usec > :now_usec AND retry_count > 0
ORDER BY eta_usec DESC LIMIT 1"""

# -- everything ----------------------------------------------------------------------------------

ALL_TASKS = f"""
SELECT {TASK_COLUMNS} FROM tasks WHERE eta_usec IS NOT NULL ORDER BY queue, eta_usec, sequence"""
ALL_EXHAUSTED = f"SELECT {TASK_COLUMNS} FROM exhausted ORDER BY id"
ALL_TOMBSTONES = """
SELECT queue, name, free_usec FROM tasks WHERE free_usec > :now_usec ORDER BY free_usec, sequence"""
ALL_LEASED = """
SELECT queue, second, sum(tasks) FROM leased WHERE second > :second GROUP BY queue, second
ORDER BY queue, second"""
RESTORE_TASK = f"""
INSERT INTO tasks ({TASK_COLUMNS}) VALUES (:eta_usec, :sequence, :name, :queue, :payload,
:tag, :retry_count, :enqueued_usec, :stored_bytes)"""
RESTORE_TOMBSTONE = """
INSERT INTO tasks (queue, name, payload, tag, retry_count, enqueued_usec, stored_bytes, free_usec)
VALUES (:queue, :name, :nothing, :nothing, 0, 0, 0, :free_usec)"""
