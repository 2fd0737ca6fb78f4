"""pullqueue.stores.sqlite: what a failure leaves, and what the file keeps."""

from __future__ import annotations

import sqlite3

import pytest
from store_rules import Start

from pullqueue import (
    AttemptRecord,
    Emulator,
    InternalError,
    Limits,
    ManualClock,
    NewTask,
    TaskState,
    TransientError,
)
from pullqueue.engine.attempts import start_attempt
from pullqueue.stores.sqlite import SqliteStore

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def store(start: Start) -> Emulator:
    return start(limits=Limits())


def store_of(emulator: Emulator) -> SqliteStore:
    store = emulator.store
    assert isinstance(store, SqliteStore)
    return store


def test_a_store_that_is_closed_is_not_called_damaged(store: Emulator) -> None:
    store.close()

    with pytest.raises(TransientError, match=r"^the store is closed: "):
        store.queue("pull").add()


def test_tasks_of_a_killed_server_are_due_at_once(
    store: Emulator, start: Start, clock: ManualClock
) -> None:
    """When the file is opened again."""
    queue = store.queue("default")
    start_attempt(queue, queue.add(name="one"), lease_seconds=600, attempts=AttemptRecord())
    before = queue.get_task("one").state_at(clock.now_usec())
    store.close()

    task = start().queue("default").get_task("one")

    assert (before, task.state_at(clock.now_usec())) == (TaskState.RUNNING, TaskState.AVAILABLE)
    assert (task.eta, task.retry_count) == (clock.now(), 1)


def test_what_failed_leaves_neither_task_nor_event(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = store.queue("pull")
    queue.add(name="first")

    def fail(*_: object, **_options: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store_of(store), "_record", fail)
        with pytest.raises(TransientError):
            queue.add_many([NewTask(name="refused"), NewTask(name="refused-too")])
        with pytest.raises(TransientError):
            queue.delete_tasks("first")
    with monkeypatch.context() as patch:
        patch.setattr(store_of(store), "_restored", fail)
        with pytest.raises(TransientError):
            store.restore(store.export())
    queue.add(name="second")

    assert (queue.fetch_statistics().tasks, store.bytes_stored) == (2, 11)
    assert [event.task_name for event in queue.events()] == ["first", "second"]


def test_an_emulator_that_cannot_be_made_leaves_its_file_to_the_next(start: Start) -> None:
    with pytest.raises(AttributeError, match="by_name"):
        start("queue.yaml")

    assert start().queue("pull").fetch_statistics().tasks == 0


def test_a_call_succeeds_though_old_records_cannot_be_trimmed(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    queue = store.queue("pull")
    monkeypatch.setattr(store_of(store), "_trim", fail)
    store_of(store)._touched["pull"] = 1_000_000

    queue.add(name="one")

    assert queue.get_task("one")
    assert store_of(store)._touched["pull"] == 0


def test_a_full_disk_changes_nothing_and_can_be_tried_again(store: Emulator) -> None:
    queue = store.queue("pull")
    queue.add(b"x" * 100_000, name="first")
    pages = store_of(store)._file.writer.execute("PRAGMA page_count").fetchone()[0]
    store_of(store)._file.writer.execute(f"PRAGMA max_page_count = {pages + 2}")

    with pytest.raises(TransientError, match=r"the store's file: .* full; try again"):
        queue.add(b"x" * 100_000, name="second")
    store_of(store)._file.writer.execute(f"PRAGMA max_page_count = {pages + 1000}")

    assert queue.fetch_statistics().tasks == 1
    assert store.bytes_stored == 100_005
    queue.add(b"x" * 100_000, name="second")


def test_a_transaction_that_cannot_be_ended_changes_nothing(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        file = store_of(store)._file
        patch.setattr(file, "writer", Failing(file.writer))
        with pytest.raises(TransientError, match="disk I/O error"):
            queue.lease_tasks(60, 1)

    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [1]
    assert queue.fetch_statistics().leased_last_minute == 1


def test_a_file_that_breaks_in_use_is_an_internal_error(
    store: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    with monkeypatch.context() as patch:
        patch.setattr(store.store, "_record", fail)
        with pytest.raises(InternalError, match=r"^the store's file is damaged \(database"):
            store.queue("pull").add()
