"""The engine's small promises, each of which some change of its source would break."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pullqueue import (
    Emulator,
    EventKind,
    InvalidLeaseTimeError,
    InvalidTagError,
    InvalidTaskNameError,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    TaskLeaseExpiredError,
    TaskState,
    TombstonedTaskError,
    UnknownQueueError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine.memory import index
from pullqueue.engine.memory.index import OrderedIndex
from pullqueue.engine.memory.rates import LeaseCounter, RateLimiter

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


class TestChunks:
    @pytest.fixture(params=[3, 4, 512])
    def chunk(self, request: pytest.FixtureRequest) -> Iterator[int]:
        """Let chunks be of some size."""
        usual, index._CHUNK = index._CHUNK, request.param
        yield request.param
        index._CHUNK = usual

    @pytest.mark.parametrize("longest", [1, 4, 90])
    def test_it_does_what_a_sorted_list_does(self, chunk: int, longest: int) -> None:
        """Whatever runs are added and removed, every question has the same answer."""
        chance = random.Random(chunk * longest)  # noqa: S311 - the same at each run
        made: OrderedIndex[tuple[int, int]] = OrderedIndex()
        model: list[tuple[int, int]] = []
        for step in range(120):
            everything = [(usec, step) for usec in range(100)]
            run = sorted(chance.sample(everything, chance.randint(1, longest)))
            made.add(run)
            model = sorted([*model, *run])
            if step % 3 == 0:
                gone = sorted(chance.sample(model, chance.randint(1, min(longest, len(model)))))
                made.remove(gone)
                model = sorted({*model} - {*gone})
            if step % 5 == 0:
                start = chance.randrange(len(model) + 1)
                gone = model[start : start + longest]
                made.remove(gone)
                del model[start : start + longest]
            self.compare(made, model, chance)
            assert max(map(len, made._chunks), default=0) <= 2 * chunk

    def compare(
        self,
        made: OrderedIndex[tuple[int, int]],
        model: list[tuple[int, int]],
        chance: random.Random,
    ) -> None:
        """Ask both the same."""
        usec, sequence = chance.randrange(100), chance.randrange(120)
        due = [entry for entry in model if entry[0] <= usec]
        assert list(made) == model
        assert list(reversed(made)) == model[::-1]
        assert len(made) == len(model)
        assert bool(made) == bool(model)
        for count in (1, 3, len(model)):
            assert made.due(usec, count) == due[:count]
        assert list(made.after(usec)) == model[len(due) :]
        assert made.count_after(usec) == len(model) - len(due)
        behind = [entry for entry in model if entry > (usec, sequence)]
        assert list(made.after(usec, sequence)) == behind

    def test_chunks_stay_large_enough(self) -> None:
        """A chunk is split into halves, not into crumbs."""
        made: OrderedIndex[tuple[int, int]] = OrderedIndex()
        for sequence in range(5000):
            made.add([(0, sequence)])

        assert len(made._chunks) <= 10
        assert [len(chunk) for chunk in made._chunks[:-1]] == [512] * (len(made._chunks) - 1)


class TestLeases:
    def test_a_limit_of_none_returns_an_empty_list(self, clock: ManualClock) -> None:
        """With a retry limit of 0 a lease returns no tasks, and they are exhausted."""
        queue = Emulator(QueueConfig(queues=(settings_of(leases=0),)), clock=clock).queue("q")
        queue.add(name="one")

        assert queue.lease_tasks(60, 1) == []
        assert [task.name for task in queue.exhausted] == ["one"]

    def test_what_is_exhausted_is_gone(self, queue: Queue, clock: ManualClock) -> None:
        """Its name is in use, it cannot be read, and it has no size."""
        queue.add(b"work", name="one")
        for _ in range(2):
            queue.lease_tasks(60, 1)
            clock.advance(60)

        assert queue.fetch_statistics().bytes_stored == 0
        with pytest.raises(TombstonedTaskError):
            queue.get_task("one")
        with pytest.raises(TombstonedTaskError):
            queue.add(name="one")

    def test_a_last_lease_that_is_extended(self, queue: Queue, clock: ManualClock) -> None:
        """A task is exhausted at the end of its last lease as it is after extending."""
        queue.add(name="one")
        queue.lease_tasks(0, 1)
        (task,) = queue.lease_tasks(60, 1)

        queue.modify_task_lease(task, 100)
        clock.advance(99)

        assert queue.exhausted == []
        clock.advance(1)
        assert [gone.name for gone in queue.exhausted] == ["one"]
        assert queue.history("one")[-1].time == clock.now()

    def test_a_release_is_recorded(self, queue: Queue) -> None:
        """Giving back is an event of its own, with no end."""
        queue.add(name="one")
        (task,) = queue.lease_tasks(60, 1)

        queue.modify_task_lease(task, 0)

        event = queue.history("one")[-1]
        assert (event.kind, event.until) == (EventKind.RELEASED, None)

    def test_why_a_task_is_not_leased_by_the_caller(self, queue: Queue, clock: ManualClock) -> None:
        """Three reasons, distinguished."""
        added = queue.add(name="one")
        with pytest.raises(TaskLeaseExpiredError, match="caller: it was never leased; lease it"):
            queue.modify_task_lease(added, 60)
        (first,) = queue.lease_tasks(60, 1)
        clock.advance(60)
        with pytest.raises(TaskLeaseExpiredError, match="caller: its lease has expired; lease it"):
            queue.modify_task_lease(first, 60)
        queue.lease_tasks(60, 1)
        with pytest.raises(
            TaskLeaseExpiredError,
            match="caller: its lease ends at another time than the one given; if you",
        ):
            queue.modify_task_lease(first, 60)

    def test_a_tag_that_is_none(self, queue: Queue) -> None:
        """A tag is checked before anything is leased by it."""
        with pytest.raises(InvalidTagError, match="has 501 characters"):
            queue.lease_tasks_by_tag(60, 1, "x" * 501)

    def test_a_tag_that_is_used_up(self, queue: Queue) -> None:
        """The orders of a tag follow its tasks, and end with them."""
        queue.add(name="one", tag="red")
        (task,) = queue.lease_tasks_by_tag(60, 1, "red")

        assert queue.lease_tasks_by_tag(60, 1, "red") == []
        queue.delete_tasks(task)
        assert queue.list_tasks(tag="red") == []

    def test_nothing_is_left_of_a_task(self, queue: Queue) -> None:
        """A task that was leased and deleted is in none of the indexes."""
        queue.add(name="one", tag="red")
        queue.delete_tasks(queue.lease_tasks(60, 1))

        index = queue._store._queues["q"].tasks  # type: ignore[attr-defined]
        assert (len(index), len(index._scheduled), index._by_tag) == (0, 0, {})

    def test_a_scheduled_task_that_is_deleted(self, queue: Queue, clock: ManualClock) -> None:
        """It is counted no more."""
        queue.add(name="later", eta=clock.now() + timedelta(seconds=60))
        assert queue.fetch_statistics().scheduled == 1

        queue.delete_tasks("later")

        assert queue.fetch_statistics().scheduled == 0
        assert queue.fetch_statistics().leased == 0

    def test_a_leased_task_that_is_deleted(self, queue: Queue) -> None:
        """It is counted no longer."""
        queue.add(name="one")
        queue.add(name="two")
        queue.lease_tasks(60, 2)
        queue.delete_tasks("one")

        assert queue.fetch_statistics().leased == 1

    def test_a_purge_drops_the_payloads_of_exhausted_tasks(
        self, queue: Queue, clock: ManualClock
    ) -> None:
        """They are still listed, and take no more memory than their names."""
        queue.add(b"work", name="one")
        for _ in range(2):
            queue.lease_tasks(60, 1)
            clock.advance(60)

        assert queue.purge() == 0

        assert [(task.name, task.payload) for task in queue.exhausted] == [("one", b"")]


class TestAdding:
    def test_names_that_are_free(self, queue: Queue) -> None:
        """Where every name is free, none is reported as refused."""
        assert queue.insert([NewTask(name="one"), NewTask()]).refused == {}

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

    def test_no_age_limit(self, queue: Queue) -> None:
        """Without one, no age is asked for."""
        assert queue.retention.age_usec == 0

    def test_one_name_is_guessed(self) -> None:
        """Of two names that are near, the nearer one is offered."""
        queues = (
            settings_of(),
            replace(settings_of(), name="qqq"),
            replace(settings_of(), name="qq"),
        )

        with pytest.raises(UnknownQueueError, match=r'did you mean "qqq"\?$'):
            Emulator(QueueConfig(queues=queues)).queue("qqqr")

    def test_a_queue_knows_its_clock(self, queue: Queue, clock: ManualClock) -> None:
        """It is the emulator's."""
        assert queue.clock is clock


class TestTheEndOfTime:
    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return a clock with an hour left."""
        return ManualClock(datetime.max.replace(tzinfo=UTC) - timedelta(hours=1))

    def test_a_lease_that_would_end_later(self, queue: Queue) -> None:
        """It is refused, and the task is as it was; a shorter one is granted."""
        added = queue.add(name="one")

        with pytest.raises(InvalidLeaseTimeError, match="after the year 9999"):
            queue.lease_tasks(3601, 1)
        assert queue.list_tasks() == [added]
        (task,) = queue.lease_tasks(3600, 1)
        with pytest.raises(InvalidLeaseTimeError, match="after the year 9999"):
            queue.modify_task_lease(task, 3601)
        assert queue.modify_task_lease(task, 3600).eta.year == 9999

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

    def test_nothing_else_stays(self, emulator: Emulator, queue: Queue) -> None:
        """What was there before is deleted, names and numbers included."""
        first = queue.add(name="old")
        queue.delete_tasks("old")
        empty = Emulator(emulator.config).export()

        emulator.restore(empty)

        assert queue.events() == []
        assert queue.add(name="old").sequence == first.sequence == 1

    def test_numbers_go_on(self, emulator: Emulator, queue: Queue) -> None:
        """New tasks come behind those restored."""
        queue.add_many([NewTask(), NewTask()])
        contents = emulator.export()

        emulator.restore(contents)

        assert queue.add().sequence == 3


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
        ]

    def test_the_latest_events_are_kept(self, clock: ManualClock) -> None:
        """The log has a maximum number of events, and drops the oldest."""
        config = QueueConfig(queues=(settings_of(),))
        queue = Emulator(config, clock=clock, limits=Limits(events_kept=3)).queue("q")
        for number in range(7):
            queue.add(name=f"t{number}")

        assert [event.task_name for event in queue.events()] == ["t4", "t5", "t6"]

    def test_events_of_several_tasks_are_in_order(self, queue: Queue, clock: ManualClock) -> None:
        """A lease that ran out is where it ended, among what happened to others."""
        queue.add(name="one")
        queue.lease_tasks(10, 1)
        clock.advance(20)
        queue.add(name="two")

        reported = [(event.kind, event.task_name) for event in queue.events()]
        assert reported[2:] == [(EventKind.LEASE_EXPIRED, "one"), (EventKind.ADDED, "two")]

    def test_a_counter_drops_old_leases(self) -> None:
        """Seconds older than an hour are dropped when others are counted."""
        counter = LeaseCounter()
        counter.add(0, 5)
        counter.add(SECOND // 2, 2)

        assert counter.seconds() == [(0, 7)]
        counter.add(3600 * SECOND, 1)
        assert counter.seconds() == [(3600, 1)]
        assert counter.count(3600 * SECOND, 3600) == 1

    def test_a_rate_says_no(self) -> None:
        """A call too many is refused, and is not counted itself."""
        rate = RateLimiter()

        assert [rate.permit(usec, 2) for usec in (0, 1, 2)] == [True, True, False]
        assert rate.permit(SECOND, 2) is True


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

    def test_below_what_a_free_task_has_had(self, emulator: Emulator, queue: Queue) -> None:
        """A task that waits for its next lease is exhausted with its limit."""
        queue.add(name="one")
        queue.lease_tasks(0, 1)

        emulator.reconfigure(QueueConfig(queues=(settings_of(1),)))

        assert [task.name for task in queue.exhausted] == ["one"]


def test_the_rate_is_logged(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A lease that is empty because of the rate is reported once, under the engine's name."""
    config = QueueConfig(queues=(settings_of(),))
    queue = Emulator(config, clock=clock, limits=Limits(leases_per_second=1)).queue("q")

    for _ in range(2):
        queue.lease_tasks(60, 1)

    (record,) = caplog.records
    assert record.name == "pullqueue.engine"
    assert record.getMessage() == (
        'queue "q": more than 1 lease calls in a second; the excess returns no tasks'
    )


def test_no_time_passes(clock: ManualClock) -> None:
    """A clock can be advanced by nothing."""
    assert clock.advance(0) == clock.now() == ManualClock.DEFAULT_START
