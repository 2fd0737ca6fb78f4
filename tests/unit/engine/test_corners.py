"""The engine's small promises, each of which some change of its source would break."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pullqueue import (
    Emulator,
    EventKind,
    InvalidTagError,
    InvalidTaskNameError,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    TaskState,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters

SECOND = 1_000_000


def settings_of(leases: int | None = None) -> QueueSettings:
    """Return the settings of the queue `q`."""
    retry = RetryParameters(task_retry_limit=leases)
    return QueueSettings(name="q", mode=QueueMode.PULL, retry_parameters=retry)


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator whose queue's tasks can be leased twice."""
    return Emulator(QueueConfig(queues=(settings_of(leases=2),)), clock=clock)


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    """Return the queue."""
    return emulator.queue("q")


class TestLeases:
    def test_a_release_is_recorded(self, queue: Queue) -> None:
        """Giving back is an event of its own, with no end."""
        queue.add(name="one")
        (task,) = queue.lease_tasks(60, 1)

        queue.modify_task_lease(task, 0)

        event = queue.history("one")[-1]
        assert (event.kind, event.until) == (EventKind.RELEASED, None)

    def test_a_tag_that_is_none(self, queue: Queue) -> None:
        """A tag to lease by has up to 500 characters, however many bytes these are."""
        assert queue.lease_tasks_by_tag(60, 1, "ä" * 500) == []
        with pytest.raises(InvalidTagError, match="has 501 characters"):
            queue.lease_tasks_by_tag(60, 1, "x" * 501)

    def test_nothing_is_left_of_a_task(self, queue: Queue) -> None:
        """A task that was leased and deleted is in none of the indexes."""
        queue.add(name="one", tag="red")
        queue.delete_tasks(queue.lease_tasks(60, 1))

        index = queue._store._queues["q"].tasks  # type: ignore[attr-defined]
        assert (len(index), len(index._scheduled), index._by_tag) == (0, 0, {})


class TestAdding:
    def test_nothing(self, clock: ManualClock) -> None:
        """An add that stores nothing is not an event, and removes none from the record."""
        config = QueueConfig(queues=(settings_of(),))
        queue = Emulator(config, clock=clock, limits=Limits(events_kept=1)).queue("q")
        queue.add_many([NewTask(name="one"), NewTask(name="two")])

        assert queue.insert([NewTask(name="one")]).added == []

        assert [event.task_name for event in queue.events()] == ["one", "two"]

    def test_a_source_that_repeats_itself(self, queue: Queue, emulator: Emulator) -> None:
        """A generated name is used once, also within a batch."""
        names = iter(["a", "a", "b", "given", "c"])
        emulator.names = lambda: next(names)

        added = queue.add_many([NewTask(), NewTask(), NewTask(name="given"), NewTask()])

        assert [task.name for task in added] == ["a", "b", "given", "c"]

    def test_a_check_alone(self, queue: Queue) -> None:
        """What would be refused is refused, and nothing is added."""
        with pytest.raises(InvalidTaskNameError):
            queue.check([NewTask(name="no name")])
        queue.check([NewTask(name="a-name")])

        assert queue.list_tasks() == []

    def test_a_hundred_are_listed(self, queue: Queue) -> None:
        """A list has 100 tasks unless more are asked for."""
        for _ in range(2):
            queue.add_many([NewTask() for _ in range(60)])

        assert len(queue.list_tasks()) == 100


class TestConfiguration:
    def test_all_settings_change(self, emulator: Emulator, queue: Queue) -> None:
        """Settings, retry limit and storage limit are those of the last configuration."""
        changed = replace(settings_of(leases=5), line=3)

        emulator.reconfigure(QueueConfig(queues=(changed,), total_storage_limit_bytes=1))

        assert queue.settings is changed
        assert queue.retention.leases == 5
        with pytest.raises(OverQuotaError):
            queue.add(b"work")


class TestTheEndOfTime:
    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return a clock with an hour left."""
        return ManualClock(datetime.max.replace(tzinfo=UTC) - timedelta(hours=1))

    def test_an_age_that_no_task_reaches(self, clock: ManualClock) -> None:
        """Where a task can never be old enough to be exhausted, there is no next change."""
        retry = RetryParameters(task_retry_limit=1, task_age_limit_seconds=3601)
        settings = QueueSettings(name="q", mode=QueueMode.PULL, retry_parameters=retry)
        queue = Emulator(QueueConfig(queues=(settings,)), clock=clock).queue("q")
        queue.add(name="one")
        queue.lease_tasks(0, 1)

        assert queue.next_change() is None


class TestRestoring:
    def test_to_an_earlier_clock(self, emulator: Emulator, queue: Queue) -> None:
        """A task that was free is scheduled until its eta comes again; a leased one is leased."""
        queue.add_many([NewTask(name="leased"), NewTask(name="free")])
        queue.lease_tasks(0, 1)
        clock = ManualClock(ManualClock.DEFAULT_START - timedelta(hours=1))
        earlier = Emulator(emulator.config, clock=clock)

        earlier.restore(emulator.export())

        numbers = earlier.queue("q").fetch_statistics()
        assert (numbers.available, numbers.leased, numbers.scheduled) == (0, 1, 1)
        listed = earlier.queue("q").list_tasks(state=TaskState.SCHEDULED)
        assert [task.name for task in listed] == ["free"]
        clock.advance(3600)
        assert earlier.queue("q").fetch_statistics().available == 2


class TestRecords:
    def test_the_names_of_events(self) -> None:
        """Their values are shown to people."""
        assert [kind.value for kind in EventKind] == [
            "added",
            "leased",
            "extended",
            "released",
            "lease expired",
            "deleted",
            "purged",
            "exhausted",
            "attempt started",
            "attempt succeeded",
            "attempt failed",
            "attempt interrupted",
        ]


class TestLimitsThatChange:
    def test_to_and_fro(self, emulator: Emulator, queue: Queue, clock: ManualClock) -> None:
        """A last lease that was none for a while is one again."""
        queue.add(name="one")
        queue.lease_tasks(0, 1)
        queue.lease_tasks(60, 1)
        for leases in (5, 2):
            emulator.reconfigure(QueueConfig(queues=(settings_of(leases),)))

        clock.advance(60)

        assert [task.name for task in queue.exhausted] == ["one"]
        assert queue.list_tasks() == []
