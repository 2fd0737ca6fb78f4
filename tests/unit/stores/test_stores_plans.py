"""Every statement goes by an index, however many tasks there are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from stores import own_schema

from pullqueue import NewTask, stores
from pullqueue.stores.postgres_pool import Connection, connect, parsed, prepare
from pullqueue.stores.rows import lists_of_new_tasks
from pullqueue.stores.sql_files import statements
from pullqueue.stores.sqlite_file import open_file

SQLITE = statements("sqlite")
POSTGRES = statements("postgres")
WHOLE = {
    *("all_tasks", "all_exhausted", "all_tombstones", "all_leased", "totals", "restore_totals"),
    *("delete_all_tasks", "delete_all_events", "clear", "clear_tasks", "clear_exhausted"),
    *("clear_events", "clear_leased", "clear_queues"),
    *("count_tags", "queue_records", "cron_runs", "projects", "drop_queue", "drop_tasks"),
    *("snapshot", "no_timeout", "lock_tasks", "renumber"),
}
"""They are to read everything, or read nothing."""
SMALL = {
    *("dispatchers", "totals", "lease_calls", "retentions", "queues", "cron_runs", "projects"),
    "unnest",
}
"""Tables of a few rows."""
TABLES = b"tasks, events, leased, exhausted"
TASKS_PER_QUEUE = 2_000


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_statement_is_used_and_exists(database: str) -> None:
    folder = Path(stores.__file__).parent
    code = "".join(
        (folder / f"{name}.py").read_text()
        for name in ("sql", "sql_reading", "sql_records", database)
    )
    known = {"sqlite": SQLITE, "postgres": POSTGRES}[database]

    used = {name for name in known if f'"{name}"' in code}
    for verb in ("clear", "drop"):
        used |= {name for name in known if name.startswith(verb) and f'f"{verb}_{{' in code}
    used |= {name for name in known if f'f"{name.removesuffix("_by_tag")}{{suffix}}"' in code}

    assert used == set(known)


def arguments_of(statement: str) -> dict[str, object]:
    """Return some value for each parameter of a statement."""
    values: dict[str, object] = {
        "queue": "q3",
        "name": "n5",
        "names": ["n5", "n6"],
        "payload": b"x",
        "attempts": "[]",
        "exhausted": True,
        "state": "leased",
        "tag": b"=red",
        "kind": "added",
        "retry_counts": "0",
        "paused": True,
        "is_runtime": True,
        "settings": "{}",
        **lists_of_new_tasks([NewTask(b"x", name="n5"), NewTask(name="n6", eta_usec=1)]),
    }
    names = re.findall(r"(?<!:):(\w+)|%\((\w+)\)[sb]", statement)
    return {name: values.get(name, 1000) for pair in names for name in pair if name}


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "tasks.db"
    writer, reader = open_file(path, synchronous="normal")
    yield writer
    reader.close()
    writer.close()


def test_no_statement_of_sqlite_reads_a_whole_table(sqlite_file: sqlite3.Connection) -> None:
    whole = re.compile(r"SCAN (tasks|events|exhausted|leased)$|.*tasks USING .*\(queue=\?\)$")
    for name in SQLITE.keys() - WHOLE:
        statement = SQLITE[name]
        arguments: object = arguments_of(statement) or [0] * statement.count("?")
        if isinstance(arguments, dict) and "names" in arguments and "json_each" in statement:
            arguments["names"] = '["n5", "n6"]'
        elif isinstance(arguments, dict) and "sequences" in arguments:
            arguments["sequences"] = "[5, 6]"
        elif isinstance(arguments, dict) and "names" in arguments:
            arguments["names"] = "n5"
        steps = sqlite_file.execute(f"EXPLAIN QUERY PLAN {statement}", arguments)  # type: ignore[arg-type]
        plan = [str(step[3]) for step in steps]

        assert not [step for step in plan if whole.match(step)], name
        # Of the exhausted, a thousand are kept for each queue.
        if name != "remove_exhausted" and re.search(r"name = :name|json_each\(:names\)", statement):
            assert any("tasks_name (queue=? AND name=?)" in step for step in plan), name


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    """Yield a PostgreSQL store with some tasks in several queues."""
    address = parsed(own_schema("plans"))
    prepare(address)
    connection = connect(address)
    connection.execute(b"TRUNCATE " + TABLES)
    connection.execute(
        "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
        "stored_bytes) SELECT 'q' || q, 'n' || n, 'x', '=red', n, 0, n, 1 "
        "FROM generate_series(1, 5) AS q, generate_series(1, %s::bigint) AS n",
        (TASKS_PER_QUEUE,),
    )
    yield connection
    connection.close()


def plan_nodes(node: dict[str, object]) -> Iterator[dict[str, object]]:
    yield node
    for below in node.get("Plans", ()):  # type: ignore[attr-defined]
        yield from plan_nodes(below)


INDEXES_OF = {
    "lease": {"tasks_due", "tasks_ends"},
    "lease_by_tag": {"tasks_due", "tasks_due_tag_postgresql", "tasks_ends"},
    "exhaust_due_by_tag": {"tasks_due", "tasks_due_tag_postgresql"},
    "list_by_tag": {"tasks_due_tag_postgresql"},
    "modify_lease": {"tasks_name"},
    "move_attempt": {"tasks_name"},
    "end_attempt": {"tasks_name", "retentions_pkey"},
    "delete": {"tasks_name", "retentions_pkey"},
    "free_names": {"tasks_name"},
    "get": {"tasks_name"},
    "names_in_use": {"tasks_name"},
}
"""What finds the tasks of the most frequent statements."""


def plan_of(database: Connection, statement: str) -> list[dict[str, object]]:
    """Return the steps of the plan that is made once for all parameters."""
    arguments = arguments_of(statement)
    numbered = statement.replace("%s", "NULL").replace("%b", "NULL")
    for number, name in enumerate(arguments, 1):
        numbered = re.sub(rf"%\({name}\)[sb]", f"${number}", numbered)
    with psycopg.ClientCursor(database) as cursor:
        cursor.execute(f"PREPARE plan AS {numbered}".encode())
        execute = f"plan({', '.join(['%s'] * len(arguments))})" if arguments else "plan"
        explain = f"EXPLAIN (FORMAT JSON) EXECUTE {execute}"
        row = cursor.execute(explain.encode(), list(arguments.values())).fetchone()
        cursor.execute(b"DEALLOCATE plan")
    assert row is not None
    return list(plan_nodes(row[0][0]["Plan"]))


@pytest.mark.parametrize("analyzed", ["never", "when it was empty", "with tasks"])
def test_no_statement_of_postgresql_reads_a_whole_table(
    database: Connection, analyzed: str
) -> None:
    if analyzed == "with tasks":
        database.execute(b"ANALYZE " + TABLES)
    elif analyzed == "when it was empty":
        with database.transaction(force_rollback=True):
            database.execute("DELETE FROM tasks")
            database.execute(b"ANALYZE " + TABLES)
    found: dict[str, object] = {}
    for name in POSTGRES.keys() - WHOLE:
        nodes = plan_of(database, POSTGRES[name])
        found[name] = {
            node.get("Relation Name") for node in nodes if node["Node Type"] == "Seq Scan"
        } - SMALL
        if name in INDEXES_OF:
            indexes = {str(node["Index Name"]) for node in nodes if "Index Name" in node}
            assert indexes - {"tasks_pkey"} == INDEXES_OF[name], name

    assert {name: tables for name, tables in found.items() if tables} == {}
