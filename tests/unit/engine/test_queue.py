"""pullqueue.engine.queue, over the store in memory: what the contract suite does not show."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from pullqueue import (
    Attempts,
    DeleteResult,
    Emulator,
    EventKind,
    HttpRequest,
    InvalidQueueModeError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    Limits,
    ManualClock,
    NewTask,
    Queue,
    QueueState,
    TaskAlreadyExistsError,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine.store import Lease

START = ManualClock.DEFAULT_START


@dataclass(frozen=True)
class OtherTask:
    """A task as another library might have it."""

    payload: bytes
    name: str | None


@dataclass(frozen=True)
class WithoutPayload:
    """Something that has a name, but is not a task."""

    name: str


def pull(name: str, *, leases: int | None = None, age_seconds: int | None = None) -> QueueSettings:
    """Return a pull queue's settings."""
    retry = RetryParameters(task_retry_limit=leases, task_age_limit_seconds=age_seconds)
    return QueueSettings(name=name, mode=QueueMode.PULL, retry_parameters=retry)


def emulator_of(
    *queues: QueueSettings,
    limits: Limits | None = None,
    storage: int | None = None,
    clock: ManualClock | None = None,
) -> Emulator:
    """Return an emulator of some queues."""
    config = QueueConfig(queues=queues, total_storage_limit_bytes=storage)
    names = map("task{}".format, count(1)).__next__
    return Emulator(config, clock=clock or ManualClock(), limits=limits, names=names)


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    """Return a pull queue without limits."""
    return emulator_of(pull("pull"), clock=clock).queue("pull")


class TestAddMany:
    def test_tasks_come_back_in_order(self, queue: Queue) -> None:
        """The tasks as stored, one for each that was given."""
        late = NewTask(name="late", eta=START + timedelta(hours=1))

        added = queue.add_many([late, NewTask(payload="text"), NewTask(tag="")])

        assert [task.name for task in added] == ["late", "task1", "task2"]
        assert [task.payload for task in added] == [b"", b"text", b""]
        assert [task.tag for task in added] == [None, None, ""]
        assert queue.list_tasks() == [added[1], added[2], added[0]]

    def test_nothing_is_added_when_one_is_invalid(self, queue: Queue) -> None:
        """One bad task refuses the whole batch."""
        with pytest.raises(InvalidTagError):
            queue.add_many([NewTask(), NewTask(tag="x" * 501)])

        assert queue.list_tasks() == []

    def test_an_empty_batch(self, queue: Queue) -> None:
        """Nothing to add is not an error."""
        assert queue.add_many([]) == []

    def test_the_past_is_a_valid_eta(self, queue: Queue) -> None:
        """An eta that has passed is kept, and puts the task before others."""
        queue.add(name="now")
        past = queue.add(name="past", eta=datetime(2000, 1, 1, tzinfo=UTC))

        assert past.eta == datetime(2000, 1, 1, tzinfo=UTC)
        assert [task.name for task in queue.list_tasks()] == ["past", "now"]


class TestStorageLimit:
    def test_payload_name_and_tag_count(self) -> None:
        """Each in bytes of UTF-8, generated names, too."""
        emulator = emulator_of(pull("a"), pull("b"), storage=20)

        emulator.queue("a").add("ü", name="n", tag="ü")
        emulator.queue("b").add(b"x" * 10)

        assert emulator.bytes_stored == 5 + 15
        assert emulator.queue("a").fetch_statistics().bytes_stored == 5

    def test_exhaustion_in_another_queue_makes_room(self) -> None:
        """A task past its last lease does not count, even if its queue was not read since."""
        clock = ManualClock()
        emulator = emulator_of(pull("a", leases=1), pull("b"), storage=20, clock=clock)
        emulator.queue("a").add(b"x" * 15, name="a")
        emulator.queue("a").lease_tasks(60, 1)

        clock.advance(60)
        emulator.queue("b").add(b"x" * 15, name="b")

        assert emulator.bytes_stored == 16

    def test_names_in_use_do_not_count(self) -> None:
        """What is refused for its name does not count against the limit."""
        queue = emulator_of(pull("a"), storage=20).queue("a")
        queue.add(b"x" * 14, name="a")

        with pytest.raises(TaskAlreadyExistsError) as excinfo:
            queue.add_many([NewTask(payload=b"x" * 15, name="a"), NewTask(name="b")])

        assert [task.name for task in excinfo.value.added] == ["b"]


class TestLease:
    def test_by_tag_without_asking_for_a_group(self, queue: Queue) -> None:
        """A tag requires group_by_tag is refused, as in the API."""
        with pytest.raises(InvalidTagError, match='tag "red" requires group_by_tag'):
            queue.lease(60, 1, tag="red")

    def test_a_task_larger_than_a_lease_still_fits(self) -> None:
        """The first task is given whatever it weighs."""
        queue = emulator_of(pull("a"), limits=Limits(lease_payload_bytes=5)).queue("a")
        queue.add(b"x" * 6, name="large")
        queue.add(b"x", name="small")

        assert [task.name for task in queue.lease_tasks(60, 10)] == ["large"]

    def test_payload_bytes_replaces_the_limit(self, queue: Queue) -> None:
        """A caller such as REST has a limit of its own."""
        for _ in range(3):
            queue.add(b"x" * 10)

        assert len(queue.lease(60, 10, payload_bytes=20).tasks) == 2

    def test_the_lease_rate(self, caplog: pytest.LogCaptureFixture) -> None:
        """From the eleventh call within a second on they return nothing; the log says so once."""
        clock = ManualClock()
        queue = emulator_of(pull("a"), limits=Limits(leases_per_second=10), clock=clock).queue("a")
        queue.add(name="one")

        for _ in range(10):
            assert not queue.lease(0, 1).rate_limited
        assert caplog.messages == []
        limited = [queue.lease(0, 1) for _ in range(50)]
        clock.advance(1)

        assert limited == [Lease([], rate_limited=True)] * 50
        message = 'queue "a": more than 10 lease calls in a second; the excess returns no tasks'
        assert caplog.record_tuples == [("pullqueue.engine", logging.WARNING, message)]
        assert len(queue.lease_tasks(0, 1)) == 1

        clock.advance(59)
        for _ in range(11):
            queue.lease(0, 1)
        assert len(caplog.messages) == 2


class TestModify:
    def test_something_else_than_a_task(self, queue: Queue) -> None:
        """A name does not identify a lease."""
        with pytest.raises(InvalidTaskError, match='"one" is not a task: pass one that was leased'):
            queue.modify_task_lease("one", 60)  # type: ignore[arg-type]

    @pytest.mark.parametrize("eta", [START, START + timedelta(hours=1)])
    def test_a_task_that_was_never_leased(self, queue: Queue, eta: datetime) -> None:
        """It is refused whether its eta lies ahead or not."""
        with pytest.raises(TaskLeaseExpiredError, match="caller: it was never leased; lease it"):
            queue.modify_task_lease(queue.add(eta=eta), 60)

    def test_a_lease_that_is_over(self, queue: Queue, clock: ManualClock) -> None:
        """Expired, released and someone else's leases are refused, and the message says which."""
        queue.add()
        (expired,) = queue.lease_tasks(60, 1)
        clock.advance(60)
        with pytest.raises(TaskLeaseExpiredError, match="caller: its lease has expired; lease it"):
            queue.modify_task_lease(expired, 60)
        (held,) = queue.lease_tasks(60, 1)
        with pytest.raises(
            TaskLeaseExpiredError,
            match="caller: its lease ends at another time than the one given; if you",
        ):
            queue.modify_task_lease(expired, 60)
        released = queue.modify_task_lease(held, 0)
        with pytest.raises(TaskLeaseExpiredError, match="its lease has expired"):
            queue.modify_task_lease(released, 60)

    def test_a_task_that_is_gone(self, queue: Queue) -> None:
        """A deleted task and an unknown one are distinguished."""
        queue.add(name="gone")
        queue.delete_tasks("gone")

        with pytest.raises(TombstonedTaskError, match='task "gone" of queue "pull" was deleted'):
            queue.modify_lease("gone", 60)
        with pytest.raises(UnknownTaskError, match='queue "pull" has no task "unknown"'):
            queue.modify_lease("unknown", 60)


class TestRetryLimit:
    def test_tasks_leave_in_the_order_of_their_ends(self) -> None:
        """Each at its own microsecond, even if the queue was not read in between."""
        clock = ManualClock()
        queue = emulator_of(pull("a", leases=1), clock=clock).queue("a")
        queue.add(name="long")
        queue.lease_tasks(30, 1)
        queue.add(name="short")
        queue.lease_tasks(20, 1)

        clock.advance(60)

        assert [task.name for task in queue.exhausted] == ["short", "long"]
        ends = [event for event in queue.events() if event.kind is EventKind.EXHAUSTED]
        assert [event.time for event in ends] == [
            START + timedelta(seconds=20),
            START + timedelta(seconds=30),
        ]

    def test_with_an_age_limit_both_must_pass(self) -> None:
        """After the last counted lease a task stays until it is old enough, and can be leased."""
        clock = ManualClock()
        queue = emulator_of(pull("a", leases=1, age_seconds=100), clock=clock).queue("a")
        queue.add(name="one")
        queue.lease_tasks(10, 1)
        clock.advance(50)

        (again,) = queue.lease_tasks(10, 1)
        clock.advance(49.999999)
        before = queue.fetch_statistics().tasks
        clock.advance(0.000001)

        assert again.retry_count == 2
        assert (before, queue.fetch_statistics().tasks) == (1, 0)

    def test_a_lease_outlasts_the_age_limit(self) -> None:
        """A task that is old enough while it is leased is exhausted when the lease ends."""
        clock = ManualClock()
        queue = emulator_of(pull("a", leases=1, age_seconds=10), clock=clock).queue("a")
        queue.add()
        (task,) = queue.lease_tasks(60, 1)
        clock.advance(59)

        assert queue.modify_task_lease(task, 2).retry_count == 1
        clock.advance(2)
        assert queue.fetch_statistics().tasks == 0

    def test_an_age_limit_alone_exhausts_nothing(self) -> None:
        """As in Google's stub."""
        clock = ManualClock()
        queue = emulator_of(pull("a", age_seconds=1), clock=clock).queue("a")
        queue.add()
        queue.lease_tasks(1, 1)
        clock.advance(10)

        assert queue.fetch_statistics().available == 1


class TestDelete:
    def test_one_result_for_each(self, queue: Queue) -> None:
        """Tasks and names, in order; repeated and missing ones are not errors."""
        here = queue.add(name="here")

        results = queue.delete_tasks([here, "here", "unknown"])

        assert results == [DeleteResult.DELETED, DeleteResult.TOMBSTONED, DeleteResult.UNKNOWN]
        assert queue.delete_tasks("here") == [DeleteResult.TOMBSTONED]

    def test_any_iterable(self, queue: Queue) -> None:
        """A generator will do, and nothing at all too."""
        tasks = [queue.add() for _ in range(3)]

        assert queue.delete_tasks(task for task in tasks) == [DeleteResult.DELETED] * 3
        assert queue.delete_tasks([]) == []

    def test_a_task_of_another_kind(self, queue: Queue) -> None:
        """What has a payload and a name is a task, as the SDK's is, and is known by its name."""
        queue.add(name="here")

        assert queue.delete_tasks([OtherTask(b"", "here")]) == [DeleteResult.DELETED]
        assert queue.delete_tasks(OtherTask(b"", "here")) == [DeleteResult.TOMBSTONED]
        with pytest.raises(
            InvalidTaskNameError, match="has no name: add it first, or set its name"
        ):
            queue.delete_tasks([OtherTask(b"", None)])
        with pytest.raises(InvalidTaskNameError, match="is neither a task nor a task name"):
            queue.delete_tasks([WithoutPayload("here")])  # type: ignore[list-item]

    def test_something_other_than_a_task(self, queue: Queue) -> None:
        """Nothing is deleted when one of the things given cannot be a task."""
        queue.add(name="here")

        with pytest.raises(InvalidTaskNameError, match="5 is neither a task nor a task name"):
            queue.delete_tasks(["here", 5])  # type: ignore[list-item]
        with pytest.raises(InvalidTaskNameError, match="5 is neither a task nor a task name"):
            queue.delete_tasks(5)  # type: ignore[arg-type]

        assert len(queue.list_tasks()) == 1


def test_purge(queue: Queue) -> None:
    """Every task is deleted, leased or not, and its name stays reserved."""
    queue.add(name="leased")
    queue.lease_tasks(60, 1)
    queue.add(name="free", tag="red", eta=START + timedelta(seconds=5))

    assert queue.purge() == 2
    assert queue.purge() == 0
    assert queue.list_tasks() == []
    assert queue.fetch_statistics().bytes_stored == 0
    assert queue.delete_tasks(["leased", "free"]) == [DeleteResult.TOMBSTONED] * 2
    assert queue.history("free")[-1].kind is EventKind.PURGED


class TestQuestions:
    def test_statistics_of_an_empty_queue(self, queue: Queue) -> None:
        """There is no oldest task."""
        assert queue.fetch_statistics().oldest_eta is None

    def test_get_task(self, queue: Queue) -> None:
        """A task can be looked at without being leased."""
        added = queue.add(b"work", name="one")

        assert queue.get_task("one") == added
        with pytest.raises(UnknownTaskError):
            queue.get_task("two")
        queue.delete_tasks("one")
        with pytest.raises(TombstonedTaskError):
            queue.get_task("one")

    def test_an_exhaustion_ahead(self) -> None:
        """The time at which a task reaches its age limit is a change."""
        queue = emulator_of(pull("a", leases=1, age_seconds=100)).queue("a")
        queue.add()
        (task,) = queue.lease_tasks(10, 1)
        queue.modify_task_lease(task, 0)

        assert queue.next_change() == START + timedelta(seconds=100)


def test_a_push_queue_refuses_leases() -> None:
    """Each verb of a lease says that the queue is a push queue, and so does a tag."""
    queue = emulator_of(QueueSettings(name="push")).queue("push")
    verbs: list[Callable[[], object]] = [
        lambda: queue.add(tag="red"),
        lambda: queue.lease_tasks(60, 1),
        lambda: queue.lease_tasks_by_tag(60, 1),
        lambda: queue.modify_lease("one", 1),
        lambda: queue.acknowledge("one", expected_eta_usec=1),
    ]

    for verb in verbs:
        with pytest.raises(InvalidQueueModeError, match='queue "push" is a push queue') as excinfo:
            verb()
        assert excinfo.value.queue_name == "push"
    assert queue.mode is QueueMode.PUSH
    assert queue.list_tasks() == []


def test_a_pull_queue_refuses_requests(queue: Queue) -> None:
    """A task with a request can only be added to a push queue, a pull task not be sent."""
    with pytest.raises(InvalidQueueModeError) as excinfo:
        queue.add(request=HttpRequest("/work"))
    with pytest.raises(InvalidTaskError, match='task "one" of queue "pull" has no request'):
        queue.start_attempt(queue.add(name="one"), lease_seconds=1, attempts=Attempts())

    assert str(excinfo.value) == 'queue "pull" is a pull queue: its tasks cannot have a request'


def test_the_last_purge(queue: Queue, clock: ManualClock) -> None:
    """Its time is known at once; before it there is none."""
    before = queue.purged
    clock.advance(1)
    queue.purge()

    assert (before, queue.purged) == (None, clock.now())
    assert queue.now_usec() == clock.now_usec()


def test_the_names_of_states() -> None:
    """They are what the routes and commands return."""
    assert [state.value for state in QueueState] == ["running", "paused", "disabled"]


def test_a_queue_shows_its_name(queue: Queue) -> None:
    """Its repr can be read in a failure."""
    assert repr(queue) == "Queue('pull')"
