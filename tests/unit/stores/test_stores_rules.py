"""The rules of the store seam that contract suite and model do not look at, in each store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from stores import STORES, store_url

from pullqueue import (
    DeleteResult,
    Emulator,
    EventKind,
    InternalError,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    TaskAlreadyExistsError,
    TaskState,
    TombstonedTaskError,
    TransientError,
    UnknownTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.stores.sqlite import SqliteStore

LIMITS = Limits(events_kept=50, exhausted_kept=3, tombstone_seconds=100)


def config_of(limit: int | None) -> QueueConfig:
    """Give a queue with a retry limit, and one without."""
    retry = RetryParameters(task_retry_limit=limit, task_age_limit_seconds=300)
    return QueueConfig(
        queues=(
            QueueSettings(name="pull", mode=QueueMode.PULL),
            QueueSettings(name="limited", mode=QueueMode.PULL, retry_parameters=retry),
        )
    )


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the URL of each store in turn."""
    with store_url(request.param) as url:
        yield url


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def emulator(url: str, clock: ManualClock) -> Iterator[Emulator]:
    """Give an emulator with an empty store."""
    emulator = Emulator(config_of(2), clock=clock, limits=LIMITS, store=url)
    emulator.reset()
    yield emulator
    emulator.close()


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    """Give its queue without limits."""
    return emulator.queue("pull")


def steps(queue: Queue, name: str) -> list[str]:
    """Give what happened to a task."""
    return [event.kind.value for event in queue.history(name)]


def test_the_history_of_a_task(queue: Queue, clock: ManualClock) -> None:
    """Every step is told, those that nobody took too."""
    queue.add_many([NewTask(name="one"), NewTask(name="other")])
    queue.lease_tasks(10, 1)
    clock.advance(10)
    (held,) = queue.lease_tasks(
        10,
        1,
    )[:1]
    queue.lease_tasks(10, 1)
    (held,) = [task for task in queue.list_tasks() if task.name == "one"]
    queue.modify_task_lease(held, 20)
    queue.modify_lease("one", 0)
    queue.delete_tasks("one")
    queue.purge()

    assert steps(queue, "one") == [
        "added", "leased", "lease expired", "leased", "extended", "released", "deleted",
    ]  # fmt: skip
    assert steps(queue, "other")[-1] == "purged"
    assert [event.retry_count for event in queue.history("one")][-1] == 2


def test_the_record_is_bounded(queue: Queue) -> None:
    """The latest events are told, whole operations, as many as are kept."""
    for number in range(60):
        queue.add_many([NewTask(name=f"{number}-{place}") for place in range(100)])
    for place in range(70):
        queue.add(name=f"last-{place}")

    events = queue.events()

    assert len(events) == LIMITS.events_kept
    assert events[-1].task_name == "last-69"
    assert {event.kind for event in events} == {EventKind.ADDED}


def test_one_large_operation_is_told(queue: Queue) -> None:
    """The latest operation is told though it has more tasks than are kept."""
    queue.add_many([NewTask(name=f"n{number}") for number in range(60)])

    assert len(queue.events()) in (LIMITS.events_kept, 60)


def test_no_record(url: str, clock: ManualClock) -> None:
    """Where no events are kept, the latest operation is told all the same."""
    emulator = Emulator(config_of(2), clock=clock, limits=Limits(events_kept=0), store=url)
    emulator.reset()
    queue = emulator.queue("pull")
    queue.add(name="one")
    queue.delete_tasks("one")
    queue.add(name="two")

    assert [event.task_name for event in queue.events()] == ["two"]
    emulator.close()


def test_the_exhausted_are_bounded(emulator: Emulator, clock: ManualClock) -> None:
    """The latest are kept, in the order in which they went, as they were."""
    queue = emulator.queue("limited")
    clock.advance(1)
    for number in range(5):
        queue.add(b"work", name=f"n{number}", tag="red")
    for _ in range(2):
        queue.lease_tasks(10, 5)
        clock.advance(10)
    before = queue.fetch_statistics().tasks
    clock.advance(300)

    assert before == 5
    assert [task.name for task in queue.exhausted] == ["n2", "n3", "n4"]
    assert {(t.payload, t.tag, t.retry_count) for t in queue.exhausted} == {(b"work", "red", 2)}
    assert steps(queue, "n0")[-1] == "exhausted"
    assert queue.delete_tasks(["n0", "none"]) == [DeleteResult.TOMBSTONED, DeleteResult.UNKNOWN]


def test_lists(queue: Queue, clock: ManualClock) -> None:
    """Tasks are listed by state and tag, page by page."""
    queue.add_many([NewTask(name=f"n{n}", tag="red" if n % 2 else None) for n in range(6)])
    queue.lease_tasks(10, 2)
    queue.add(name="later", eta=clock.now() + timedelta(seconds=5))

    def names(**options: object) -> list[str]:
        return [task.name for task in queue.list_tasks(**options)]  # type: ignore[arg-type]

    assert names(state=TaskState.AVAILABLE) == ["n2", "n3", "n4", "n5"]
    assert names(state=TaskState.LEASED) == ["n0", "n1"]
    assert names(state=TaskState.SCHEDULED) == ["later"]
    assert names(tag="red") == ["n3", "n5", "n1"]
    page = queue.list_tasks(4)
    assert names(after=page[-1]) == ["later", "n0", "n1"]


def test_moments(queue: Queue, clock: ManualClock) -> None:
    """The next change and the end of the last lease."""
    assert queue.next_change() is queue.last_lease_end() is None
    queue.add(eta=clock.now() + timedelta(seconds=5))
    queue.add()
    queue.lease_tasks(10, 1)

    assert queue.next_change() == clock.now() + timedelta(seconds=5)
    assert queue.last_lease_end() == clock.now() + timedelta(seconds=10)


def test_the_statistics_of_an_hour(queue: Queue, clock: ManualClock) -> None:
    """Leases count for a minute and for an hour."""
    queue.add_many([NewTask() for _ in range(3)])
    queue.lease_tasks(0, 3)
    clock.advance(60)
    queue.lease_tasks(0, 1)

    first = queue.fetch_statistics()
    clock.advance(3540)
    second = queue.fetch_statistics()

    assert (first.leased_last_minute, first.leased_last_hour) == (1, 4)
    assert (second.leased_last_minute, second.leased_last_hour) == (0, 1)


def test_a_freed_name(queue: Queue, clock: ManualClock) -> None:
    """Names of deleted tasks can be freed: one, or all; time frees the rest."""
    for name in ("a", "b", "c"):
        queue.add(name=name)
    queue.delete_tasks(["a", "b", "c"])
    queue.free_names(["a", "unknown"])

    queue.add(name="a")
    with pytest.raises(TombstonedTaskError):
        queue.add(name="b")
    queue.delete_tasks("a")
    queue.free_names()
    queue.add(name="b")
    queue.delete_tasks("b")
    clock.advance(LIMITS.tombstone_seconds - 0.000001)
    with pytest.raises(TombstonedTaskError):
        queue.get_task("b")
    clock.advance(0.000001)
    with pytest.raises(UnknownTaskError):
        queue.get_task("b")
    assert queue.add(name="b").retry_count == 0


def test_a_batch_with_names_that_are_taken(queue: Queue) -> None:
    """The others are added, in the order given; made up names pass over what is taken."""
    queue.add(name="task2")
    queue.add(name="gone")
    queue.delete_tasks("gone")
    queue._store._names = map("task{}".format, count(1)).__next__  # type: ignore[attr-defined]

    batch = [NewTask(), NewTask(name="gone"), NewTask(), NewTask(name="task2"), NewTask(name="x")]
    with pytest.raises(TombstonedTaskError) as excinfo:
        queue.add_many(batch)

    assert {task.name for task in excinfo.value.added} == {"task1", "task3", "x"}
    assert excinfo.value.refused == {
        "gone": TombstonedTaskError,
        "task2": TaskAlreadyExistsError,
    }


def test_made_up_names_that_are_taken(queue: Queue, emulator: Emulator) -> None:
    """However many are, others are found, and each task comes back in its place."""
    taken = 1_100
    names = [NewTask(name=f"task{number}") for number in range(taken)]
    for start in range(0, taken, 100):
        queue.add_many(names[start : start + 100])
    emulator.names = map("task{}".format, count()).__next__

    added = queue.add_many([NewTask(b"first"), NewTask(b"second", name="x"), NewTask(b"third")])

    assert [task.payload for task in added] == [b"first", b"second", b"third"]
    assert [queue.get_task(task.name) for task in added] == added
    assert {task.name for task in added} <= {"x", *(f"task{taken + more}" for more in range(4))}


@pytest.mark.parametrize("limit_bytes", [None, 500])
def test_which_name_is_refused_first(url: str, clock: ManualClock, limit_bytes: int | None) -> None:
    """The first in the batch, whatever the order in which the store finds them."""
    config = QueueConfig(queues=config_of(2).queues, total_storage_limit_bytes=limit_bytes)
    emulator = Emulator(config, clock=clock, store=url)
    emulator.reset()
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name="a"), NewTask(name="z")])
    queue.delete_tasks("a")

    refused = queue.insert([NewTask(name="z"), NewTask(name="new"), NewTask(name="a")]).refused

    assert list(refused.items()) == [("z", TaskAlreadyExistsError), ("a", TombstonedTaskError)]
    emulator.close()


def test_nothing_is_added_to_what_is_too_much(url: str, clock: ManualClock) -> None:
    """A taken name is told as such, also where less may be stored than is."""
    emulator = Emulator(config_of(2), clock=clock, store=url)
    emulator.reset()
    emulator.queue("pull").add(name="heavy")
    emulator.reconfigure(QueueConfig(queues=config_of(2).queues, total_storage_limit_bytes=1))

    with pytest.raises(TaskAlreadyExistsError):
        emulator.queue("pull").add(name="heavy")
    assert emulator.queue("pull").add_many([]) == []
    emulator.close()


def test_an_age_that_no_task_reaches(url: str, clock: ManualClock) -> None:
    """queue.yaml permits any; such a task is leased like others, and never given up."""
    retry = RetryParameters(task_retry_limit=1, task_age_limit_seconds=10**20)
    settings = QueueSettings(name="pull", mode=QueueMode.PULL, retry_parameters=retry)
    emulator = Emulator(QueueConfig(queues=(settings,)), clock=clock, store=url)
    emulator.reset()
    queue = emulator.queue("pull")
    queue.add(name="one")

    for _ in range(2):
        assert [task.name for task in queue.lease_tasks(10, 1)] == ["one"]
        clock.advance(10)

    assert queue.exhausted == []
    emulator.close()


def test_the_name_of_a_task_whose_end_has_come(emulator: Emulator, clock: ManualClock) -> None:
    """It is taken by a tombstone, though nobody looked since."""
    queue = emulator.queue("limited")
    clock.advance(300)
    queue.add(name="one")
    for _ in range(2):
        queue.lease_tasks(200, 1)
        clock.advance(200)

    with pytest.raises(TombstonedTaskError):
        queue.add(name="one")
    assert [task.name for task in queue.exhausted] == ["one"]


@pytest.mark.parametrize("name", ["a\0b", "ü", "\ud800", "x" * 600, ""])
def test_a_name_that_no_task_can_have(queue: Queue, name: str) -> None:
    """It is unknown, whatever a database thinks of it."""
    assert queue.delete_tasks([name, "b"]) == [DeleteResult.UNKNOWN] * 2
    assert queue.delete_tasks(name) == [DeleteResult.UNKNOWN]
    with pytest.raises(UnknownTaskError):
        queue.get_task(name)
    with pytest.raises(UnknownTaskError):
        queue.modify_lease(name, 10)
    queue.free_names([name])


@pytest.mark.parametrize("tag", ["", "\0", "=", "é" * 500, "'; --"])
def test_any_tag(queue: Queue, tag: str) -> None:
    """A tag comes back as it was, and is another than none."""
    queue.add(tag=tag)
    queue.add()

    assert [task.tag for task in queue.lease_tasks_by_tag(10, 10, tag)] == [tag]
    assert [task.tag for task in queue.lease_tasks_by_tag(10, 10)] == [None]


def test_a_limit_that_changed_while_nobody_was_there(url: str, clock: ManualClock) -> None:
    """A store that is opened with another retry limit holds its tasks to that one."""
    if url == "memory":
        return
    first = Emulator(config_of(None), clock=clock, store=url)
    first.reset()
    first.queue("limited").add(name="one")
    first.queue("limited").lease_tasks(10, 1)
    first.close()

    second = Emulator(config_of(1), clock=clock, store=url)
    clock.advance(300)
    assert [task.name for task in second.queue("limited").exhausted] == ["one"]
    second.close()


def test_export_and_restore(emulator: Emulator, url: str, clock: ManualClock) -> None:
    """What one store held another can hold: tasks, tombstones, the exhausted, statistics."""
    queue, limited = emulator.queue("pull"), emulator.queue("limited")
    clock.advance(1000)
    queue.add_many([NewTask(payload=b"\x00\xff", name=f"n{n}", tag="red") for n in range(5)])
    queue.delete_tasks("n0")
    limited.add(name="held")
    limited.lease_tasks(10, 1)
    queue.lease_tasks(20, 2)
    contents = emulator.export()
    target = Emulator(config_of(2), clock=clock, limits=LIMITS)

    target.restore(contents)
    emulator.restore(target.export())

    assert emulator.export() == contents == target.export()
    assert queue.fetch_statistics() == target.queue("pull").fetch_statistics()
    assert queue.fetch_statistics().leased_last_minute == 2
    assert queue.add().sequence > max(task.sequence for task in contents["pull"].tasks)
    with pytest.raises(TombstonedTaskError):
        queue.add(name="n0")
    clock.advance(10)
    assert [task.retry_count for task in limited.lease_tasks(10, 1)] == [2]
    target.close()


def test_an_add_that_is_refused_changes_nothing(url: str, clock: ManualClock) -> None:
    """Over the storage limit nothing is stored, and what is held is reckoned as before."""
    config = QueueConfig(queues=config_of(2).queues, total_storage_limit_bytes=10)
    emulator = Emulator(config, clock=clock, store=url)
    emulator.reset()
    queue = emulator.queue("pull")
    queue.add(b"1234", name="a")

    with pytest.raises(OverQuotaError) as excinfo:
        queue.add_many([NewTask(payload=b"12", name="b"), NewTask(payload=b"12", name="c")])

    assert (excinfo.value.needed_bytes, excinfo.value.limit_bytes) == (11, 10)
    assert emulator.bytes_stored == 5
    assert queue.fetch_statistics().tasks == 1
    assert queue.add(b"1234", name="b").name == "b"
    emulator.close()


class TestSqlite:
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Iterator[Emulator]:
        """Give an emulator with an SQLite store."""
        emulator = Emulator(config_of(2), clock=clock, store=f"sqlite:///{tmp_path / 'tasks.db'}")
        yield emulator
        emulator.close()

    def connection(self, emulator: Emulator) -> sqlite3.Connection:
        """Give the store's connection."""
        store = emulator._store
        assert isinstance(store, SqliteStore)
        return store._connection._connection

    def test_the_record_is_kept(self, store: Emulator, tmp_path: Path, clock: ManualClock) -> None:
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

    def test_what_failed_is_not_recorded(
        self, store: Emulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
        self, store: Emulator, monkeypatch: pytest.MonkeyPatch
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

    def test_a_file_that_was_opened_in_vain(self, tmp_path: Path) -> None:
        """An emulator that cannot be made leaves its file to the next."""
        url = f"sqlite:///{tmp_path / 'tasks.db'}"
        with pytest.raises(AttributeError, match="queues"):
            Emulator("queue.yaml", store=url)  # type: ignore[arg-type]

        emulator = Emulator(config_of(2), store=url)
        assert emulator.queue("pull").fetch_statistics().tasks == 0
        emulator.close()

    @pytest.mark.parametrize("count", [1, 2])
    def test_the_record_can_wait(
        self, store: Emulator, monkeypatch: pytest.MonkeyPatch, count: int
    ) -> None:
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

    def test_a_full_disk(self, store: Emulator) -> None:
        """The caller may try again later; nothing has changed, and nothing is miscounted."""
        queue = store.queue("pull")
        queue.add(b"x" * 100_000, name="first")
        pages = self.connection(store).execute("PRAGMA page_count").fetchone()[0]
        self.connection(store).execute(f"PRAGMA max_page_count = {pages + 2}")

        with pytest.raises(TransientError, match=r"the store's file: .* full; try again"):
            queue.add(b"x" * 100_000, name="second")
        self.connection(store).execute(f"PRAGMA max_page_count = {pages + 1000}")

        assert queue.fetch_statistics().tasks == 1
        assert store.bytes_stored == 100_005
        queue.add(b"x" * 100_000, name="second")

    def test_a_transaction_that_cannot_be_ended(
        self, store: Emulator, monkeypatch: pytest.MonkeyPatch
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
            patch.setattr(inner, "_connection", Failing(self.connection(store)))
            with pytest.raises(TransientError, match="disk I/O error"):
                queue.lease_tasks(60, 1)

        assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [1]
        assert queue.fetch_statistics().leased_last_minute == 1

    def test_a_file_that_breaks_in_use(
        self, store: Emulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """That cannot be tried again, and is said so."""

        def fail(*_: object) -> None:
            raise sqlite3.DatabaseError("database disk image is malformed")

        with monkeypatch.context() as patch:
            patch.setattr(store._store, "_touch", fail)
            with pytest.raises(InternalError, match=r"^the store's file: database disk image is"):
                store.queue("pull").add()
