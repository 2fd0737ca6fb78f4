"""The operations that PostgreSQL does in one statement each, records and all.

A statement of its own is a transaction of its own and a single round trip. `now` is the time at
which it takes place: the database's, unless the store's clock is moved by hand. Rows are changed by
`sequence = ANY(ARRAY(...))`, never by a join, so that no estimate of how many there might be can
lead the planner to read the whole table; and what is looked for by name is not said to have an eta
in words that would let the planner go by the order of etas instead.
"""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.stores.rows import TASK_COLUMNS
from pullqueue.stores.statements import BURY

NOW_USEC = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""The database's time."""

PARTS = 64
"""So many rows share a count, one for each writer, so that writers do not wait for each other."""

_PART = f"mod(pg_backend_pid(), {PARTS})"
_NOW = f"""
WITH now AS MATERIALIZED (SELECT coalesce(CAST(:now_usec AS bigint), {NOW_USEC}) AS usec)"""
_T = "(SELECT usec FROM now)"
_NOT_SPENT = f"(ends_usec IS NULL OR ends_usec > {_T})"
_RECORD = "INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts)"
_BALANCE = "INSERT INTO balance (queue, part, tasks, bytes)"
_ADD_TO_BALANCE = """
ON CONFLICT (queue, part) DO UPDATE SET
tasks = balance.tasks + excluded.tasks, bytes = balance.bytes + excluded.bytes"""

NOW = f"SELECT {NOW_USEC}"

INSERT = f"""{_NOW},
given AS (
    SELECT * FROM unnest(CAST(:names AS text[]), CAST(:payloads AS bytea[]),
        CAST(:tags AS bytea[]), CAST(:etas_usec AS bigint[]), CAST(:sizes AS bigint[]))
    WITH ORDINALITY AS given (name, payload, tag, eta_usec, size, place)
),
stored AS (
    INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec,
        stored_bytes)
    SELECT CAST(:queue AS text), name, payload, tag, coalesce(eta_usec, {_T}), 0, {_T}, size
    FROM given ORDER BY place
    ON CONFLICT (queue, name) DO UPDATE SET sequence = excluded.sequence,
        payload = excluded.payload, tag = excluded.tag, eta_usec = excluded.eta_usec,
        retry_count = 0, enqueued_usec = excluded.enqueued_usec,
        stored_bytes = excluded.stored_bytes, free_usec = NULL
    WHERE tasks.free_usec <= excluded.enqueued_usec
    RETURNING eta_usec, sequence, name, enqueued_usec, stored_bytes
),
told AS (
    {_RECORD}
    SELECT CAST(:queue AS text), {_T}, 'added', NULL, count(*),
        string_agg(name, ',' ORDER BY sequence), string_agg('0', ',') FROM stored
    HAVING count(*) > 0
),
balanced AS (
    {_BALANCE}
    SELECT CAST(:queue AS text), {_PART}, count(*), sum(stored_bytes) FROM stored
    HAVING count(*) > 0 {_ADD_TO_BALANCE}
)
SELECT eta_usec, sequence, name, enqueued_usec FROM stored ORDER BY sequence"""
"""Stores the drafts whose names are free. A tombstone whose time has passed gives way."""


_TAKE = f"""
    UPDATE tasks SET eta_usec = {_T} + :lease_usec, retry_count = retry_count + 1,
        ends_usec = CASE WHEN retry_count + 1 >= CAST(:leases AS bigint)
            THEN greatest({_T} + :lease_usec, enqueued_usec + :age_usec) END"""
_TELL_LEASED = f"""
    {_RECORD}
    SELECT CAST(:queue AS text), {_T}, 'leased', {_T} + :lease_usec"""
_COUNT_LEASED = f"""
    INSERT INTO leased (queue, second, part, tasks)
    SELECT CAST(:queue AS text), {_T} / 1000000, {_PART}"""
_ADD_TO_LEASED = """
    ON CONFLICT (queue, second, part) DO UPDATE SET tasks = leased.tasks + excluded.tasks"""
_IN_ORDER = "ORDER BY eta_usec, sequence"


def _due(tag: str | None) -> str:
    """Give where the tasks that can be leased are; `tag` is where the tag comes from."""
    due = f"FROM tasks WHERE queue = :queue AND eta_usec <= {_T} AND {_NOT_SPENT}"
    return due.replace("queue = :queue", f"queue || '' = :queue AND tag = {tag}") if tag else due


_FIRST_TAG = "(SELECT tag FROM first)"
_FIRST = f""",
first AS MATERIALIZED (
    SELECT tag {_due(None)} {_IN_ORDER} LIMIT 1 FOR UPDATE SKIP LOCKED
)"""


def _lease_one(tag: str | None) -> str:
    """Give the statement that leases one task: there is nothing to add up or to put in order."""
    return f"""{_NOW}{_FIRST if tag == _FIRST_TAG else ""},
leased_now AS ({_TAKE}
    WHERE sequence = (SELECT sequence {_due(tag)} {_IN_ORDER} LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING {TASK_COLUMNS}
),
told AS ({_TELL_LEASED}, 1, name, CAST(retry_count AS text) FROM leased_now),
counted AS ({_COUNT_LEASED}, 1 FROM leased_now WHERE true {_ADD_TO_LEASED})
SELECT {TASK_COLUMNS} FROM leased_now"""


def _lease(tag: str | None, *, weighed: bool) -> str:
    """Give the statement that leases tasks; `tag` is where the tag comes from.

    It is `weighed` if it has to look at what the payloads weigh together.
    """
    weight = "eta_usec, octet_length(payload) AS weight"
    fitting = """
fitting AS MATERIALIZED (
    SELECT sequence, eta_usec AS place FROM (
        SELECT sequence, eta_usec, row_number() OVER by_eta AS number,
            sum(weight) OVER by_eta AS total
        FROM due WINDOW by_eta AS (ORDER BY eta_usec, sequence)
    ) AS weighed WHERE number = 1 OR total <= :payload_bytes
),"""
    return f"""{_NOW}{_FIRST if tag == _FIRST_TAG else ""},
{"due" if weighed else "fitting"} AS MATERIALIZED (
    SELECT sequence, {weight if weighed else "eta_usec AS place"}
    {_due(tag)} {_IN_ORDER} LIMIT :max_tasks FOR UPDATE SKIP LOCKED
),{fitting if weighed else ""}
leased_now AS ({_TAKE}
    WHERE sequence = ANY(ARRAY(SELECT sequence FROM fitting))
    RETURNING {TASK_COLUMNS}
),
told AS ({_TELL_LEASED}, count(*), string_agg(name, ',' ORDER BY place, sequence),
        string_agg(CAST(retry_count AS text), ',' ORDER BY place, sequence)
    FROM leased_now JOIN fitting USING (sequence) HAVING count(*) > 0
),
counted AS ({_COUNT_LEASED}, count(*) FROM leased_now HAVING count(*) > 0 {_ADD_TO_LEASED})
SELECT {TASK_COLUMNS} FROM leased_now JOIN fitting USING (sequence) ORDER BY place, sequence"""


class Leasing(NamedTuple):
    """The statements that lease tasks from the same place."""

    one: str
    some: str
    """Without weighing payloads."""
    weighed: str


def _leasing(tag: str | None) -> Leasing:
    return Leasing(_lease_one(tag), _lease(tag, weighed=False), _lease(tag, weighed=True))


LEASE = _leasing(None)
LEASE_BY_TAG = _leasing(":tag")
LEASE_BY_FIRST_TAG = _leasing(_FIRST_TAG)
"""The tag is that of the first task that nobody else is leasing at this moment."""

MODIFY = f"""{_NOW},
changed AS (
    UPDATE tasks SET eta_usec = {_T} + :lease_usec,
        ends_usec = CASE WHEN retry_count >= CAST(:leases AS bigint)
            THEN greatest({_T} + :lease_usec, enqueued_usec + :age_usec) END
    WHERE queue = :queue AND name = :name AND coalesce(eta_usec, 0) > {_T} AND retry_count > 0
        AND (CAST(:expected_eta_usec AS bigint) IS NULL
            OR eta_usec = :expected_eta_usec) AND {_NOT_SPENT}
    RETURNING {TASK_COLUMNS}
),
told AS (
    {_RECORD}
    SELECT queue, {_T}, :kind, CASE WHEN :lease_usec > 0 THEN eta_usec END, 1, name,
        CAST(retry_count AS text) FROM changed
)
SELECT {TASK_COLUMNS} FROM changed"""


def _delete(where: str, *, told: str, balanced: str) -> str:
    """Give the statement that makes tombstones of tasks and tells of them, and keeps the balance.

    `told` and `balanced` are what is said of those that are `gone`.
    """
    return f"""
gone AS (
    UPDATE tasks SET {BURY.replace(":free_usec", f"{_T} + :tombstone_usec")}
    WHERE {where}
    RETURNING name, retry_count, stored_bytes
),
told AS ({_RECORD} SELECT CAST(:queue AS text), {_T}, 'deleted', NULL, {told}),
balanced AS (
    {_BALANCE} SELECT CAST(:queue AS text), {_PART}, {balanced} {_ADD_TO_BALANCE}
)
SELECT name FROM gone"""


_IS_THERE = f"free_usec IS NULL AND {_NOT_SPENT}"
# What is known to be one task need not be added up.
DELETE_ONE = f"{_NOW}," + _delete(
    f"queue = :queue AND name = :name AND {_IS_THERE}",
    told="1, name, CAST(retry_count AS text) FROM gone",
    balanced="-1, -stored_bytes FROM gone WHERE true",
)
# Tasks are locked in one order, so that those who delete the same ones wait for each other in turn.
DELETE = f"""{_NOW},
doomed AS MATERIALIZED (
    SELECT sequence FROM tasks WHERE queue = :queue AND name = ANY(:names) AND {_IS_THERE}
    ORDER BY name FOR UPDATE
),""" + _delete(
    "sequence = ANY(ARRAY(SELECT sequence FROM doomed))",
    told="""count(*), string_agg(name, ','), string_agg(CAST(retry_count AS text), ',') FROM gone
    HAVING count(*) > 0""",
    balanced="-count(*), -sum(stored_bytes) FROM gone HAVING count(*) > 0",
)


# -- parts of operations of several statements -----------------------------------------------------

ADD_TO_BALANCE = f"""
{_BALANCE} VALUES (:queue, {_PART}, :tasks, :bytes) {_ADD_TO_BALANCE}"""
HELD = """
SELECT coalesce(sum(tasks), 0), coalesce(sum(bytes), 0) FROM balance
WHERE queue = coalesce(CAST(:queue AS text), queue)"""
EXCLUDE = """
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ': ' || :purpose, 0))"""
ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
ANY_SPENT = "SELECT sequence FROM tasks WHERE ends_usec <= :now_usec LIMIT 1"
ANY_SPENT_NOW = f"""
SELECT sequence FROM tasks
WHERE ends_usec <= (SELECT coalesce(CAST(:now_usec AS bigint), {NOW_USEC})) LIMIT 1"""
FORGET_CALLS = "DELETE FROM calls WHERE queue = :queue AND usec <= :until_usec"
COUNT_CALLS = "SELECT count(*) FROM calls WHERE queue = :queue"
ADD_CALL = "INSERT INTO calls (queue, usec) VALUES (:queue, :now_usec)"
RENUMBER = """
SELECT setval(pg_get_serial_sequence('tasks', 'sequence'), coalesce(max(sequence), 0) + 1, false)
FROM tasks"""
