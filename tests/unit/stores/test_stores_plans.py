"""Every statement goes by an index, however many tasks there are."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from stores import own_schema

from pullqueue.stores import postgres_statements, statements
from pullqueue.stores.postgres_server import DriverConnection, connect, parsed, prepare
from pullqueue.stores.postgres_session import STATEMENTS as POSTGRES_STATEMENTS
from pullqueue.stores.sqlite_file import open_file
from pullqueue.stores.sqlite_session import STATEMENTS as SQLITE_STATEMENTS

WHOLE = {"ALL_TASKS", "ALL_EXHAUSTED", "ALL_TOMBSTONES", "ALL_LEASED"}
"""They are to read everything."""
SQLITE_ONLY = {"LEASE", "LEASE_ONE", "MODIFY", "DELETE", "DELETE_ONE", "COUNT_LEASED"}
"""PostgreSQL has statements of its own for these."""
SMALL = {"balance", "calls", "retry_limits", "unnest"}
"""Tables of a few rows."""

TASKS_PER_QUEUE = 2_000


def statements_of(module: ModuleType) -> dict[str, str]:
    """Give the statements of a module by name."""
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", value)
    }
    return {name: value for name, value in found.items() if name.isupper() and name[0] != "_"}


def arguments_of(statement: str) -> dict[str, object]:
    """Give some value for each parameter of a statement."""
    values: dict[str, object] = {
        "queue": "q3",
        "name": "n5",
        "names": ["n5", "n6"],
        "sequences": [5, 6],
        "payloads": [b"x", b"y"],
        "tags": [b"", b""],
        "etas_usec": [None, 1],
        "sizes": [1, 1],
        "payload": b"x",
        "nothing": b"",
        "tag": b"=red",
        "kind": "added",
        "retry_counts": "0",
        "purpose": "test",
    }
    return {name: values.get(name, 1000) for name in re.findall(r"(?<!:):(\w+)", statement)} | {
        name: values[name] for name in re.findall(r"IN_LIST\((\w+)\)", statement)
    }


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Give an SQLite store."""
    path = tmp_path_factory.mktemp("plans") / "tasks.db"
    connection = open_file(Path(path), synchronous="normal")
    yield connection
    connection.close()


@pytest.mark.parametrize("name", sorted(statements_of(statements).keys() - WHOLE))
def test_sqlite(sqlite_file: sqlite3.Connection, name: str) -> None:
    """No table is read from one end to the other, nor a queue where a name is looked for."""
    statement = statements_of(statements)[name]
    arguments = {
        key: json.dumps(value) if isinstance(value, list) else value
        for key, value in arguments_of(statement).items()
    }
    steps = sqlite_file.execute(f"EXPLAIN QUERY PLAN {SQLITE_STATEMENTS[statement]}", arguments)
    plan = [str(step[3]) for step in steps]

    assert not [step for step in plan if re.match(r"SCAN (tasks|events|exhausted|leased)\b", step)]
    assert not [step for step in plan if re.search(r"tasks USING .*\(queue=\?\)$", step)]
    if "name = :name" in statement or "IN_LIST(names)" in statement:
        assert any("tasks_name (queue=? AND name=?)" in step for step in plan)


@pytest.fixture(scope="module")
def database() -> Iterator[DriverConnection]:
    """Give a PostgreSQL store with some tasks in several queues."""
    address = parsed(own_schema("plans"))
    prepare(address)
    connection = connect(address)
    for table in ("tasks", "events", "leased", "exhausted"):
        connection.execute(f"TRUNCATE {table}".encode())
    connection.execute(
        "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
        "stored_bytes) SELECT 'q' || q, 'n' || n, 'x', '=red', n, 0, n, 1 "
        "FROM generate_series(1, 5) AS q, generate_series(1, %s::bigint) AS n",
        (TASKS_PER_QUEUE,),
    )
    yield connection
    connection.close()


def plan_nodes(node: dict[str, object]) -> Iterator[dict[str, object]]:
    """Walk through a plan."""
    yield node
    for below in node.get("Plans", ()):  # type: ignore[attr-defined]
        yield from plan_nodes(below)


def postgres_statements_used() -> dict[str, str]:
    """Give all statements that are sent to PostgreSQL."""
    shared = statements_of(statements)
    used = {name: shared[name] for name in shared.keys() - SQLITE_ONLY - WHOLE}
    leases = {
        f"{name} {shape}": statement
        for name in LEASES
        for shape, statement in getattr(postgres_statements, name)._asdict().items()
    }
    shared_used = {f"shared {name}": value for name, value in used.items()}
    return shared_used | statements_of(postgres_statements) | leases


LEASES = ("LEASE", "LEASE_BY_TAG", "LEASE_BY_FIRST_TAG")
INDEX_OF = {
    "LEASE": "tasks_due",
    "LEASE_BY_TAG": "tasks_due_tag_postgresql",
    "LEASE_BY_FIRST_TAG": "tasks_due_tag_postgresql",
    "MODIFY": "tasks_name",
    "DELETE": "tasks_name",
    "DELETE_ONE": "tasks_name",
    "shared GET": "tasks_name",
    "shared NAMES": "tasks_name",
}
"""What finds the tasks of the most frequent statements."""


def plan_of(database: DriverConnection, statement: str) -> list[dict[str, object]]:
    """Give the steps of the plan that is made once for all parameters."""
    arguments = arguments_of(statement)
    numbered = POSTGRES_STATEMENTS[statement]
    for number, name in enumerate(arguments, 1):
        numbered = numbered.replace(f"%({name})s", f"${number}")
    with psycopg.ClientCursor(database) as cursor:
        cursor.execute(f"PREPARE plan AS {numbered}".encode())
        execute = f"plan({', '.join(['%s'] * len(arguments))})" if arguments else "plan"
        explain = f"EXPLAIN (FORMAT JSON) EXECUTE {execute}"
        row = cursor.execute(explain.encode(), list(arguments.values())).fetchone()
        cursor.execute(b"DEALLOCATE plan")
    assert row is not None
    return list(plan_nodes(row[0][0]["Plan"]))


@pytest.mark.parametrize("analyzed", ["never", "when it was empty", "with tasks"])
def test_postgres(database: DriverConnection, analyzed: str) -> None:
    """No plan reads a whole table, whatever the server believes about how large it is."""
    if analyzed == "with tasks":
        database.execute("ANALYZE")
    elif analyzed == "when it was empty":
        with database.transaction(force_rollback=True):
            database.execute("DELETE FROM tasks")
            database.execute("ANALYZE")
    found: dict[str, object] = {}
    for name, statement in postgres_statements_used().items():
        nodes = plan_of(database, statement)
        found[name] = {
            node.get("Relation Name") for node in nodes if node["Node Type"] == "Seq Scan"
        } - SMALL
        first = name.partition(" ")[0]
        index = INDEX_OF.get(first if first in LEASES else name)
        if index:
            indexes = {node.get("Index Name") for node in nodes} - {None, "tasks_pkey"}
            assert index in indexes, name
            assert indexes <= {index, "tasks_due"}, name

    assert {name: tables for name, tables in found.items() if tables} == {}
