"""What is SQLite's own among the points of `race_test` and `crash_test`: its locks."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from functions import Run, adding, handling, in_turn, working
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kept import Program, check_reduction
from visits_sqlite import UPDATE, SqliteVisits

from pullqueue import Queue
from pullqueue.testing import Crash, CrashTestError, RaceTestError

pytestmark = pytest.mark.slow


@pytest.fixture
def database(tmp_path: Path) -> SqliteVisits:
    return SqliteVisits(tmp_path / "app.sqlite")


@pytest.fixture
def race(race: Run, database: SqliteVisits) -> Run:
    """A race of two actors that have to count."""
    return partial(race, copies=2, setup=database.reset, check=lambda: database.value() == 2)


def test_who_finds_the_database_locked_waits(race: Run, database: SqliteVisits) -> None:
    """No error is raised, and who waits goes on after the commit."""
    with pytest.raises(RaceTestError) as caught:
        race(database.by_connection, clock=False, preemptions=1)

    steps = [step.partition(" (")[0].partition(": ")[2] for step in caught.value.schedule]
    waits = steps.index("waits for a lock")
    assert steps[waits + 1 : waits + 3] == ["sqlite3: COMMIT", f"sqlite3: {UPDATE}"]


@pytest.mark.parametrize("close", [True, False])
def test_a_cursor_that_is_dropped_has_no_lock(
    race: Run, database: SqliteVisits, *, close: bool
) -> None:
    """SQLite unlocks the file as soon as nobody can fetch the rows that are left."""

    def visit() -> None:
        connection = database.connect()
        connection.execute("SELECT 1 FROM counters UNION ALL SELECT 2").fetchone()
        connection.execute("UPDATE counters SET value = value + 1")
        connection.commit()
        if close:
            connection.close()

    assert race(visit)


def test_a_lock_that_is_not_released_ends_by_the_timeout(race: Run, database: SqliteVisits) -> None:
    """The clock moves by the timeout of the connection where nobody can go on."""

    def keep() -> None:
        database.keep(isolation_level=None, check_same_thread=False).execute("BEGIN IMMEDIATE")

    def write() -> None:
        with closing(database.connect(isolation_level=None, timeout=7)) as connection:
            connection.execute(UPDATE, (1,))

    with pytest.raises(RaceTestError, match="database is locked") as caught:
        race(keep, write, copies=1)
    database.reset()

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
    race: Run, database: SqliteVisits, pragma: str, moved: str
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
        race(keep, write, copies=1, clock=False)

    moves = [step for step in caught.value.schedule if step.startswith("time:")]
    assert [step.split()[2] for step in moves] == ([moved] if moved else [])


def test_time_does_not_pass_for_who_waits_while_others_can_go_on(
    race: Run, database: SqliteVisits
) -> None:
    """Also where time is an actor: a slow worker would make each other one fail."""
    assert race(database.with_a_lock).is_complete


def test_the_connection_of_an_apps_module_is_rolled_back_where_its_handler_is_killed(
    crash: Run, pushed: Queue, database: SqliteVisits
) -> None:
    setup = in_turn(database.reset, adding(pushed, "one"))

    def count() -> None:
        connection = database.keep()
        if not connection.execute("SELECT 1 FROM counters WHERE name = 'done'").fetchone():
            connection.execute("UPDATE counters SET value = value + 1")
            connection.execute("INSERT INTO counters VALUES ('done', 1)")
            connection.commit()

    result = crash(setup=setup, check=lambda: database.value() == 1, send=handling(count))

    assert result.seen == ("sqlite3",)
    assert (
        str(result)
        == f"all {int(result)} crashes of calls to sqlite3, without errors of calls (errors=True)"
    )


# Since Python 3.12 the next transaction can be open after a commit.
@pytest.mark.parametrize(
    "options", [{}, *([{"autocommit": False}] if sys.version_info >= (3, 12) else [])]
)
def test_a_commit_can_be_the_last_call(
    crash: Run, queue: Queue, database: SqliteVisits, options: dict[str, Any]
) -> None:
    def count() -> None:
        with closing(database.connect(**options)) as connection:
            connection.execute("UPDATE counters SET value = value + 1")
            connection.commit()

    work, setup = working(queue, count), in_turn(database.reset, queue.add)
    with pytest.raises(CrashTestError) as caught:
        crash(work, setup=setup, check=lambda: database.value() == 1)
    crashes = [(each.crash, each.calls[-1].partition(" (")[0]) for each in caught.value.failures]
    assert (Crash.AFTER, "sqlite3: COMMIT") in crashes


def test_connections_outside_of_tests_are_those_of_python(database: SqliteVisits) -> None:
    with closing(database.connect()) as connection:
        assert type(connection) is sqlite3.Connection


def test_services_leaves_databases_out(race: Run, queue: Queue, database: SqliteVisits) -> None:
    count = in_turn(queue.fetch_statistics, database.with_a_lock)
    assert race(count, services=False).seen == ("queues",)


ATTACHING = {
    "a statement": ["ATTACH ? AS o"],
    "a statement in lower case, after a comment": ["/* other */ attach ? as o"],
    "twice": ["ATTACH ? AS p", "ATTACH ? AS o"],
    "after a detach": ["ATTACH ? AS o", "DETACH o", "ATTACH ? AS o"],
}


@pytest.mark.parametrize(
    ("how", "is_same"),
    [(how, True) for how in (*ATTACHING, "a script")]
    + [("a statement", False), ("a script", False)],
)
def test_tables_of_attached_databases_are_those_of_their_files(
    race: Run, database: SqliteVisits, tmp_path: Path, how: str, *, is_same: bool
) -> None:
    """An update that only one of two connections makes through ATTACH is lost, too."""
    path = str(tmp_path / "app.sqlite" if is_same else tmp_path / "other.sqlite")

    def setup() -> None:
        database.reset()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS counters (name TEXT, value INTEGER)")

    def change(connection: sqlite3.Connection, name: str) -> None:
        ((value,),) = connection.execute(f"SELECT sum(value) FROM {name}").fetchall()  # noqa: S608
        connection.execute(f"UPDATE {name} SET value = ?", ((value or 0) + 1,))  # noqa: S608

    def attached() -> None:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            if how == "a script":
                connection.executescript(f"ATTACH '{path}' AS o")
            for statement in ATTACHING.get(how, []):
                connection.execute(statement, (path,) if "?" in statement else ())
            change(connection, "o.counters")

    def direct() -> None:
        with closing(database.connect(isolation_level=None)) as connection:
            change(connection, "counters")

    run = partial(race, attached, direct, copies=1, setup=setup, clock=False)
    if is_same:
        with pytest.raises(RaceTestError, match="check returned False"):
            run()
    else:
        run = partial(run, check=lambda: database.value() == 1)
        assert run() < run(reduce=False)


def test_what_a_trigger_of_another_connection_changes_is_known(
    race: Run, queue: Queue, database: SqliteVisits
) -> None:
    """A connection is kept that has executed the same statement before there was the trigger."""
    database.reset()
    kept: list[sqlite3.Connection] = []

    def setup() -> None:
        if not kept:
            kept.append(database.connect(isolation_level=None, check_same_thread=False))
            kept[0].execute("CREATE TABLE log (value INTEGER)")
        kept[0].execute("DELETE FROM log")

    def count() -> None:
        kept[0].execute("UPDATE counters SET value = value + 1")

    def read() -> None:
        with closing(database.connect()) as connection:
            queue.add(str(connection.execute("SELECT * FROM log").fetchall()))

    def run(expected: bytes) -> Any:
        check = lambda: queue.list_tasks()[0].payload == expected  # noqa: E731
        return race(count, read, copies=1, setup=setup, check=check, clock=False)

    assert run(b"[]") == 1
    with closing(database.connect()) as connection:
        connection.execute(
            "CREATE TRIGGER logged AFTER UPDATE ON counters BEGIN INSERT INTO log VALUES (1); END"
        )
    with closing(kept[0]), pytest.raises(RaceTestError, match="check returned False"):
        run(b"[(1,)]")


SCHEMA = """
CREATE TABLE a (value INTEGER);
CREATE TABLE b (value INTEGER);
CREATE TABLE log (value INTEGER);
CREATE TABLE counted (value INTEGER PRIMARY KEY AUTOINCREMENT);
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


class SqlProgram(Program):
    options: ClassVar[dict[str, Any]] = {"clock": False, "unseen": "ignore"}

    def __init__(self, path: Path, actors: list[list[str]], mode: str) -> None:
        super().__init__(actors)
        self.path = path
        self.mode = mode

    def setup(self) -> None:
        for path in self.path.parent.glob(f"{self.path.name}*"):
            path.unlink()
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA journal_mode = {self.mode}")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(SCHEMA)

    def act(self, number: int, who: str) -> None:
        seen = self.seen(who)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for text in self.actors[number]:
                try:
                    seen.append(tuple(connection.execute(text).fetchall()))
                except sqlite3.OperationalError as error:
                    seen.append(str(error))
                    with suppress(sqlite3.OperationalError):
                        connection.execute("ROLLBACK")

    def state(self) -> tuple[object, ...]:
        with closing(sqlite3.connect(self.path)) as connection:
            return tuple(
                tuple(connection.execute(f"SELECT value FROM {table}").fetchall())  # noqa: S608
                for table in ("a", "b", "log")
            )


@given(sql_programs, st.integers(1, 2), st.sampled_from(["DELETE", "WAL"]))
@settings(
    max_examples=1 if not LONG else 500, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example([["UPDATE a SET value = value + 1"], ["UPDATE a SET value = value * 3"]], 1, "DELETE")
@example([["BEGIN", "SELECT value FROM a", "COMMIT"], ["UPDATE a SET value = 5"]], 2, "DELETE")
@example([["INSERT INTO counted VALUES (7)"], ["SELECT seq FROM sqlite_sequence"]], 1, "DELETE")
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
    check_reduction(lambda: SqlProgram(path, program, mode), preemptions=preemptions)
