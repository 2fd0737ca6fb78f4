"""`point`: where code with a database of its own can be killed, or interleaved with others."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from functions import Run, Work, handling, in_turn
from places import place

from pullqueue import Emulator
from pullqueue.push.request import PushRequest
from pullqueue.testing import Crash, CrashTestError, RaceTestError, point


class Connection(sqlite3.Connection):
    def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
        point(sql)
        return super().execute(sql, *args)  # type: ignore[arg-type] # as it is called

    def commit(self) -> None:
        point("commit")
        super().commit()


@pytest.fixture
def database() -> Iterator[Connection]:
    made = sqlite3.connect(":memory:", factory=Connection, check_same_thread=False)
    with closing(made) as database:
        database.execute("CREATE TABLE account (name TEXT, money INT)")
        yield database


@pytest.fixture
def setup(database: Connection, emulator: Emulator) -> Work:
    def setup() -> None:
        database.execute("DELETE FROM account")
        database.execute("INSERT INTO account VALUES ('ada', 10), ('bob', 10)")
        database.commit()
        emulator.queue("pushed").add(name="transfer")

    return setup


def money(database: Connection) -> dict[str, int]:
    return dict(database.execute("SELECT name, money FROM account").fetchall())


ADD = "UPDATE account SET money = money + 1 WHERE name = 'ada'"
TAKE = "UPDATE account SET money = money - 1 WHERE name = 'bob'"


def test_a_handler_is_killed_between_statements(
    crash: Run, database: Connection, setup: Work
) -> None:
    def handle(_: PushRequest) -> int:
        if money(database)["ada"] == 10:
            database.execute(ADD)
            database.commit()
            database.execute(TAKE)
            database.commit()
        return 200

    def check() -> None:
        database.rollback()
        assert sum(money(database).values()) == 20

    with pytest.raises(CrashTestError) as raised:
        crash(send=handle, setup=setup, check=check)

    killed = [(each.crash, each.calls[-1]) for each in raised.value.failures]
    assert (Crash.BEFORE, f"{TAKE} {place(handle, 'TAKE')}") in killed
    assert Crash.AFTER not in {crash for crash, _ in killed}


def test_a_point_is_one_crash(crash: Run, emulator: Emulator) -> None:
    """After a point is the same as before what follows it."""
    send = handling(partial(point, "one"), partial(point, "two"))

    crashes = crash(send=send, setup=emulator.queue("pushed").add)

    assert crashes == 2 + 1  # and its response
    assert str(crashes).endswith(", without crashes after what point() is called for")


def test_a_point_without_a_hook_is_shown_where_it_is(
    crash: Run, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever has called the handler is not the app's; a path elsewhere is shown whole."""
    runs: list[int] = []
    setup = in_turn(runs.clear, lambda: emulator.queue("pushed").add())

    def handle(request: PushRequest) -> int:
        runs.append(request.attempt)
        point("one")
        return 200

    monkeypatch.chdir(tmp_path)
    with pytest.raises(CrashTestError) as raised:
        crash(send=handle, setup=setup, check=lambda: runs == [1])

    line = handle.__code__.co_firstlineno + 2
    assert raised.value.failures[0].calls == (f"one ({__file__}:{line} in handle)",)


def test_who_was_killed_does_not_pass_a_point(crash: Run, emulator: Emulator) -> None:
    written: list[str] = []

    def write(value: str) -> None:
        point(f"write {value}")
        written.append(value)

    def handle(request: PushRequest) -> int:
        thread = threading.Thread(target=write, args=("in thread",))
        try:
            write(f"attempt {request.attempt}")
        finally:
            thread.start()
            thread.join()
            write("at the end")
        return 200

    setup = in_turn(written.clear, lambda: emulator.queue("pushed").add())

    def check() -> None:
        end = 3 if "attempt 2" in written else 0
        killed, done = written[: len(written) - end], written[len(written) - end :]
        assert killed == ["attempt 1", "in thread", "at the end"][: len(killed)]
        assert done == ["attempt 2", "in thread", "at the end"][:end]

    crash(send=handle, setup=setup, check=check)


def test_actors_are_interleaved_at_points(race: Run, database: Connection, setup: Work) -> None:
    def add() -> None:
        before = money(database)["ada"]
        database.execute("UPDATE account SET money = ? WHERE name = 'ada'", (before + 1,))

    def check() -> None:
        assert money(database)["ada"] == 12

    with pytest.raises(RaceTestError) as raised:
        race(add, setup=setup, check=check, copies=2)

    reads, preempts, *_ = raised.value.schedule
    assert reads.endswith(f" FROM account {place(money, 'SELECT')}")
    assert preempts.endswith(f" FROM account {place(money, 'SELECT')}   <- preempts add 1")

    add_at_once = partial(database.execute, ADD)
    assert race(add_at_once, setup=setup, check=check, copies=2) > 1
