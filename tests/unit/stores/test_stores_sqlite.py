"""pullqueue.stores.sqlite: what a failure leaves, and what the file keeps."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_rules import config_of

from pullqueue import Emulator, InternalError, ManualClock, NewTask, TransientError
from pullqueue.stores.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Emulator]:
    """Give an emulator with an SQLite store."""
    emulator = Emulator(config_of(2), clock=clock, store=f"sqlite:///{tmp_path / 'tasks.db'}")
    yield emulator
    emulator.close()


def connection_of(emulator: Emulator) -> sqlite3.Connection:
    """Give the store's connection."""
    store = emulator._store
    assert isinstance(store, SqliteStore)
    return store._connection._connection


def test_the_record_is_kept(store: Emulator, tmp_path: Path, clock: ManualClock) -> None:
    """What was recorded is there when the file is opened again, in order."""
    queue = store.queue("pull")
    for number in range(100):
        queue.add(name=f"n{number}")
    store.close()
    store.close()

    again = Emulator(config_of(2), clock=clock, store=f"sqlite:///{tmp_path / 'tasks.db'}")
    again.queue("pull").delete_tasks("n7")
    names = [event.task_name for event in again.queue("pull").events()]
    again.close()

    assert names == [*(f"n{number}" for number in range(100)), "n7"]


def test_what_failed_is_not_recorded(store: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that came to nothing leaves no event, whatever was still to be written."""
    queue = store.queue("pull")
    inner = store._store
    assert isinstance(inner, SqliteStore)
    for number in range(63):
        queue.add(name=f"n{number}")

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(inner, "_touch", fail)
        with pytest.raises(TransientError):
            queue.add_many([NewTask(name="refused"), NewTask(name="refused-too")])
    queue.delete_tasks("n0")

    assert queue.fetch_statistics().tasks == 62
    assert [event.task_name for event in queue.events()][-2:] == ["n62", "n0"]
    assert len(queue.events()) == 64


def test_the_order_of_the_record_after_failures(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever failed in between, the record goes on where it was."""
    queue = store.queue("pull")

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    queue.add(name="first")
    with monkeypatch.context() as patch:
        patch.setattr(store._store, "_touch", fail)
        with pytest.raises(TransientError):
            queue.add_many([NewTask(name="refused"), NewTask(name="refused-too")])
    queue.add(name="second")
    with monkeypatch.context() as patch:
        patch.setattr(store._store, "_renumber", fail)
        with pytest.raises(TransientError):
            store.restore(store.export())
    queue.add(name="third")

    assert [event.task_name for event in queue.events()] == ["first", "second", "third"]


def test_a_file_that_was_opened_in_vain(tmp_path: Path) -> None:
    """An emulator that cannot be made leaves its file to the next."""
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with pytest.raises(AttributeError, match="queues"):
        Emulator("queue.yaml", store=url)  # type: ignore[arg-type]

    emulator = Emulator(config_of(2), store=url)
    assert emulator.queue("pull").fetch_statistics().tasks == 0
    emulator.close()


@pytest.mark.parametrize("count", [1, 2])
def test_the_record_can_wait(store: Emulator, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A call of one statement is done though the record cannot be written; others are not."""
    queue = store.queue("pull")
    for number in range(63):
        queue.add(name=f"n{number}")
    tasks = [NewTask(name=f"last{number}") for number in range(count)]

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store._store, "_write_events", fail)
        if count == 1:
            queue.add_many(tasks)
        else:
            with pytest.raises(TransientError):
                queue.add_many(tasks)
            tasks = []

    names = [*(f"n{number}" for number in range(63)), *(task.name for task in tasks)]
    assert [task.name for task in queue.list_tasks()] == names
    assert [event.task_name for event in queue.events()] == names


def test_a_full_disk(store: Emulator) -> None:
    """The caller may try again later; nothing has changed, and nothing is miscounted."""
    queue = store.queue("pull")
    queue.add(b"x" * 100_000, name="first")
    pages = connection_of(store).execute("PRAGMA page_count").fetchone()[0]
    connection_of(store).execute(f"PRAGMA max_page_count = {pages + 2}")

    with pytest.raises(TransientError, match=r"the store's file: .* full; try again"):
        queue.add(b"x" * 100_000, name="second")
    connection_of(store).execute(f"PRAGMA max_page_count = {pages + 1000}")

    assert queue.fetch_statistics().tasks == 1
    assert store.bytes_stored == 100_005
    queue.add(b"x" * 100_000, name="second")


def test_a_transaction_that_cannot_be_ended(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as if it had never begun."""
    queue = store.queue("pull")
    queue.add(name="first")

    class Failing:
        """A connection that cannot write to its disk."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        def __getattr__(self, name: str) -> object:
            return getattr(self.connection, name)

        def execute(self, statement: str, *parameters: object) -> object:
            if statement == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return self.connection.execute(statement, *parameters)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        inner = store._store._connection  # type: ignore[attr-defined]
        patch.setattr(inner, "_connection", Failing(connection_of(store)))
        with pytest.raises(TransientError, match="disk I/O error"):
            queue.lease_tasks(60, 1)

    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [1]
    assert queue.fetch_statistics().leased_last_minute == 1


def test_a_file_that_breaks_in_use(store: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """That cannot be tried again, and is said so."""

    def fail(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    with monkeypatch.context() as patch:
        patch.setattr(store._store, "_touch", fail)
        with pytest.raises(InternalError, match=r"^the store's file: database disk image is"):
            store.queue("pull").add()
