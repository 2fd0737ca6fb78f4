"""Calls to SQLite by `sqlite3` are points of `race_test` and `crash_test` by themselves."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from failing import assert_hidden_errors_are_found
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.testing import CrashTestError, RaceResult, RaceTestError, crash_test, race_test

pytestmark = pytest.mark.slow

CONNECT = sqlite3.connect
"""As `from sqlite3 import connect` in an app."""


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(self.path, **options)
        return connection

    def reset(self) -> None:
        self.path.unlink(missing_ok=True)
        with closing(self.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)")
            connection.execute("INSERT INTO counters VALUES ('all', 0)")

    @property
    def value(self) -> int:
        with closing(self.connect()) as connection:
            return read(connection)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "app.sqlite")


def read(connection: sqlite3.Connection | sqlite3.Cursor) -> int:
    rows = connection.execute("SELECT value FROM counters WHERE name = 'all'")
    return int(rows.fetchone()[0])


UPDATE = "UPDATE counters SET value = ? WHERE name = 'all'"


def race(emulator: Emulator, database: Database, count: Callable[[], None]) -> RaceResult:
    def check() -> None:
        assert database.value == 2

    options: Any = {"copies": 2, "setup": database.reset, "check": check}
    return race_test(emulator, count, **options, clock=False, preemptions=1)


class Logged(sqlite3.Connection):
    def execute(self, *args: Any) -> sqlite3.Cursor:
        return super().execute(*args)


class LoggedCursor(sqlite3.Cursor):
    """Another."""


def by_connection(database: Database) -> None:
    connection = database.connect()
    connection.execute(UPDATE, (read(connection) + 1,))
    connection.commit()
    connection.close()


def by_block(database: Database) -> None:
    with closing(database.connect()) as connection, connection:
        connection.execute(UPDATE, (read(connection) + 1,))


def by_cursor(database: Database) -> None:
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(UPDATE, (read(cursor) + 1,))
        connection.commit()


def by_many(database: Database) -> None:
    with closing(database.connect()) as connection, connection:
        value = read(connection) + 1
        connection.executemany(UPDATE, ((each,) for each in (value, value)))


def by_script(database: Database) -> None:
    with closing(database.connect()) as connection:
        connection.executescript(f"BEGIN; {UPDATE.replace('?', str(read(connection) + 1))}; COMMIT")


def by_autocommit(database: Database) -> None:
    with closing(database.connect(isolation_level=None)) as connection:
        connection.execute(UPDATE, (read(connection) + 1,))


def by_name(database: Database) -> None:
    with closing(CONNECT(database.path)) as connection, connection:
        connection.execute(UPDATE, (read(connection) + 1,))


def by_factory(database: Database) -> None:
    with closing(database.connect(factory=Logged)) as connection, connection:
        assert isinstance(connection, Logged)
        cursor = connection.cursor(LoggedCursor)
        assert isinstance(cursor, LoggedCursor)
        connection.execute(UPDATE, (read(cursor) + 1,))


def by_position(database: Database) -> None:
    arguments: list[Any] = [database.path, 5.0, 0, "", True, Logged]
    connection = sqlite3.connect(*arguments)
    with closing(connection), connection:
        connection.execute(UPDATE, (read(connection) + 1,))


def by_transaction(database: Database) -> None:
    """A transaction that takes its lock after it has read."""
    with closing(database.connect(isolation_level=None)) as connection:
        connection.execute("BEGIN")
        value = read(connection)
        connection.execute(UPDATE, (value + 1,))
        connection.execute("COMMIT")


LOST = [by_connection, by_block, by_cursor, by_many, by_script, by_autocommit, by_name]
LOST += [by_factory, by_position]


@pytest.mark.filterwarnings("ignore:Passing more than 1 positional argument")  # since 3.13
@pytest.mark.parametrize("count", LOST)
def test_a_lost_update_is_found(
    emulator: Emulator, database: Database, count: Callable[[Database], None]
) -> None:
    with pytest.raises(RaceTestError, match="assert 1 == 2"):
        race(emulator, database, lambda: count(database))


def locked(database: Database) -> None:
    with closing(database.connect(isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(UPDATE, (read(connection) + 1,))
        connection.execute("COMMIT")


def by_isolation_level(database: Database) -> None:
    with closing(database.connect(isolation_level="EXCLUSIVE")) as connection, connection:
        connection.execute("UPDATE counters SET value = value WHERE name = 'all'")
        connection.execute(UPDATE, (read(connection) + 1,))


def by_one_statement(database: Database) -> None:
    with closing(database.connect()) as connection, connection:
        connection.execute("UPDATE counters SET value = value + 1")


@pytest.mark.parametrize("count", [locked, by_isolation_level, by_one_statement])
def test_a_transaction_with_a_lock_is_correct(
    emulator: Emulator, database: Database, count: Callable[[Database], None]
) -> None:
    result = race(emulator, database, lambda: count(database))

    assert result.is_complete
    assert result > 1
    assert str(result).startswith(f"all {int(result)} orders that can differ of calls to sqlite3")


def test_who_finds_the_database_locked_waits(emulator: Emulator, database: Database) -> None:
    """It does not get an error, and goes on after the commit."""
    with pytest.raises(RaceTestError) as caught:
        race(emulator, database, lambda: by_connection(database))

    steps = [step.partition(" (")[0].partition(": ")[2] for step in caught.value.schedule]
    waits = steps.index("waits for a lock")
    assert steps[waits + 1 : waits + 3] == ["sqlite3: COMMIT", f"sqlite3: {UPDATE}"]


def test_a_transaction_that_has_read_does_not_wait_to_write(
    emulator: Emulator, database: Database
) -> None:
    """SQLite refuses at once what could be a deadlock, whatever the timeout is."""
    with pytest.raises(RaceTestError, match="database is locked") as caught:
        race(emulator, database, lambda: by_transaction(database))

    assert not any("waits" in step for step in caught.value.schedule)
    assert not any(step.startswith("time:") for step in caught.value.schedule)


def test_a_lock_that_is_not_released_ends_by_the_timeout(
    emulator: Emulator, database: Database
) -> None:
    """The clock moves by the timeout of the connection where nobody can go on."""
    kept: list[sqlite3.Connection] = []

    def keep() -> None:
        kept.append(database.connect(isolation_level=None, check_same_thread=False))
        kept[0].execute("BEGIN IMMEDIATE")

    def write() -> None:
        with closing(database.connect(isolation_level=None, timeout=7)) as connection:
            connection.execute(UPDATE, (1,))

    def setup() -> None:
        while kept:
            kept.pop().close()
        database.reset()

    with pytest.raises(RaceTestError, match="database is locked") as caught:
        race_test(emulator, keep, write, setup=setup, check=lambda: None)
    setup()

    assert any(step.startswith("time: moves 0:00:07") for step in caught.value.schedule)


@pytest.mark.parametrize(
    ("pragma", "moved"),
    [
        ("PRAGMA synchronous = OFF", "0:00:05"),
        ("PRAGMA busy_timeout = 2000", "0:00:02"),
        ("PRAGMA busy_timeout = 0", ""),
    ],
)
def test_a_connection_waits_as_long_as_it_is_set(
    emulator: Emulator, database: Database, pragma: str, moved: str
) -> None:
    """Without a timeout it does not wait."""

    def keep() -> None:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(60)  # noqa: TID251 - moves the clock

    def write() -> None:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute(pragma)
            connection.execute(UPDATE, (1,))

    with pytest.raises(RaceTestError, match="database is locked") as caught:
        race_test(emulator, keep, write, setup=database.reset, check=lambda: None, clock=False)

    moves = [step for step in caught.value.schedule if step.startswith("time:")]
    assert [step.split()[2] for step in moves] == ([moved] if moved else [])


def test_time_does_not_pass_for_who_waits_while_others_can_go_on(
    emulator: Emulator, database: Database
) -> None:
    """Also where time is an actor: a slow worker would make each other one fail."""

    def check() -> None:
        assert database.value == 2

    result = race_test(
        emulator, lambda: locked(database), copies=2, setup=database.reset, check=check
    )

    assert result.is_complete


def test_what_a_killed_handler_has_not_committed_is_rolled_back(
    emulator: Emulator, pushed: Queue, database: Database
) -> None:
    """Also where the connection is one of the app's module, and outlives the handler."""
    connections: list[sqlite3.Connection] = []

    def setup() -> None:
        while connections:
            connections.pop().close()
        database.reset()
        pushed.add(name="one")

    def send(_: object) -> int:
        if not connections:
            connections.append(database.connect())
        (connection,) = connections
        if not connection.execute("SELECT 1 FROM counters WHERE name = 'done'").fetchone():
            connection.execute("UPDATE counters SET value = value + 1")
            connection.execute("INSERT INTO counters VALUES ('done', 1)")
            connection.commit()
        return 200

    def check() -> None:
        assert database.value == 1

    result = crash_test(emulator, setup=setup, check=check, send=send)
    connections.pop().close()

    assert result.seen == ("sqlite3",)
    assert (
        str(result)
        == f"all {int(result)} crashes of calls to sqlite3, without errors of calls (errors=True)"
    )


def test_a_handler_that_commits_before_it_adds_a_task_loses_it(
    emulator: Emulator, pushed: Queue, database: Database
) -> None:
    """The order is paid, and the retry finds that and does not add the task."""
    mails: list[str] = []

    def setup() -> None:
        mails.clear()
        database.reset()
        pushed.add(name="pay")

    def send(request: Any) -> int:
        if request.task_name == "mail":
            mails.append("mail")
        else:
            with closing(database.connect()) as connection, connection:
                if read(connection):
                    return 200
                connection.execute(UPDATE, (1,))
            pushed.add(name="mail")
        return 200

    def check() -> None:
        assert mails

    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=send)

    first = caught.value.failures[0]
    assert first.title.startswith('killed before call 4, add(["mail"]) ')
    assert "sqlite3: COMMIT (" in first.calls[2]


def test_connections_outside_of_tests_are_those_of_python(database: Database) -> None:
    with closing(database.connect()) as connection:
        assert type(connection) is sqlite3.Connection


def test_services_leaves_databases_out(
    emulator: Emulator, queue: Queue, database: Database
) -> None:
    def count() -> None:
        queue.fetch_statistics()
        locked(database)

    result = race_test(
        emulator,
        count,
        copies=2,
        setup=database.reset,
        check=lambda: database.value,
        services=False,
    )

    assert result.seen == ("queues",)


SCHEMA = """
CREATE TABLE a (value INTEGER);
CREATE TABLE b (value INTEGER);
CREATE TABLE log (value INTEGER);
CREATE VIEW both AS SELECT value FROM a UNION ALL SELECT value FROM b;
CREATE TRIGGER logged AFTER UPDATE ON b BEGIN INSERT INTO log VALUES (new.value); END;
INSERT INTO a VALUES (1);
INSERT INTO b VALUES (1);
"""
STATEMENTS = [
    "SELECT value FROM a",
    "SELECT value FROM b",
    "SELECT value FROM both",
    "SELECT value FROM log",
    "SELECT 1",
    "UPDATE a SET value = value + 1",
    "UPDATE a SET value = value * 3",
    "UPDATE b SET value = value + 1",
    "UPDATE b SET value = (SELECT max(value) FROM a)",
    "INSERT INTO log SELECT value FROM a",
    "BEGIN",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
]
LONG = bool(os.environ.get("PULLQUEUE_TEST_LONG"))
sql_programs = st.lists(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=3), min_size=2, max_size=2
).filter(lambda program: LONG or sum(map(len, program)) <= 4)


class SqlProgram:
    def __init__(self, path: Path, actors: list[list[str]], mode: str) -> None:
        self.path = path
        self.actors = actors
        self.mode = mode
        self.kept = SimpleNamespace(seen={}, states=set())
        """What is kept for the test, and is not compared after each turn."""

    def setup(self) -> None:
        for path in self.path.parent.glob(f"{self.path.name}*"):
            path.unlink()
        self.kept.seen = {}
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA journal_mode = {self.mode}")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(SCHEMA)

    def act(self, number: int) -> None:
        seen = self.kept.seen.setdefault(number, [])
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for text in self.actors[number]:
                try:
                    seen.append(tuple(connection.execute(text).fetchall()))
                except sqlite3.OperationalError as error:
                    seen.append(str(error))
                    with suppress(sqlite3.OperationalError):
                        connection.execute("ROLLBACK")

    def check(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            rows = [
                tuple(connection.execute(f"SELECT value FROM {table}").fetchall())  # noqa: S608
                for table in ("a", "b", "log")
            ]
        seen = tuple(sorted((who, tuple(what)) for who, what in self.kept.seen.items()))
        self.kept.states.add((tuple(rows), seen))

    def race(self, **options: Any) -> tuple[RaceResult, set[object]]:
        emulator = Emulator.from_text("queue: []", clock=ManualClock())

        def actor(number: int) -> Callable[[], None]:
            def function() -> None:
                self.act(number)

            function.__name__ = f"actor{number}"
            return function

        run: Callable[..., RaceResult] = race_test
        result = run(
            emulator,
            *map(actor, range(len(self.actors))),
            setup=self.setup,
            check=self.check,
            schedules=100_000,
            seconds=math.inf,
            clock=False,
            unseen="ignore",
            **options,
        )
        return result, self.kept.states


@given(sql_programs, st.integers(1, 2), st.sampled_from(["DELETE", "WAL"]))
@settings(
    max_examples=2 if not LONG else 500,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example([["UPDATE a SET value = value + 1"], ["UPDATE a SET value = value * 3"]], 1, "DELETE")
@example([["BEGIN", "SELECT value FROM a", "COMMIT"], ["UPDATE a SET value = 5"]], 2, "DELETE")
@example(
    [["BEGIN", "SELECT value FROM a", "SELECT value FROM b"]] * 1
    + [["BEGIN", "UPDATE a SET value = 5", "UPDATE b SET value = 5", "COMMIT"]],
    2,
    "WAL",
)
def test_orders_that_are_left_out_lead_to_the_same_states(
    tmp_path: Path, program: list[list[str]], preemptions: int, mode: str
) -> None:
    path = tmp_path / "program.sqlite"
    all_orders, expected = SqlProgram(path, program, mode).race(
        reduce=False, preemptions=preemptions
    )
    result, states = SqlProgram(path, program, mode).race(preemptions=preemptions)

    assert all_orders.is_complete
    assert result.is_complete
    assert states == expected
    assert result <= all_orders


def in_a_block(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute(UPDATE, (1,))


def with_a_commit(connection: sqlite3.Connection) -> None:
    connection.execute(UPDATE, (1,))
    connection.commit()


def with_a_statement(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    for statement in ("BEGIN", UPDATE.replace("?", "1"), "COMMIT"):
        connection.execute(statement)


@pytest.mark.parametrize("write", [in_a_block, with_a_commit, with_a_statement])
def test_a_write_that_fails_is_an_error_of_sqlite(
    emulator: Emulator,
    pushed: Queue,
    database: Database,
    write: Callable[[sqlite3.Connection], None],
) -> None:
    """The connection is kept, so a transaction that stays open would be seen."""
    kept: list[sqlite3.Connection] = []

    def reset() -> None:
        database.reset()
        kept[:] = [database.connect()]

    def value() -> int:
        found = database.value
        kept.pop().close()
        return found

    assert_hidden_errors_are_found(
        emulator,
        pushed,
        sqlite3.OperationalError,
        reset=reset,
        write=lambda: write(kept[0]),
        value=value,
    )
