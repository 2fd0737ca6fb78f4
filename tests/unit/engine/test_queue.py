"""pullqueue.engine.queue, over the store in memory: what the contract suite does not show."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from tables import each_row

from pullqueue import (
    AttemptRecord,
    Clock,
    DeleteResult,
    Emulator,
    HttpRequest,
    InvalidQueueModeError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    Limits,
    ManualClock,
    NewTask,
    Queue,
    SystemClock,
    TaskLeaseExpiredError,
    TaskState,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.clock import to_usec
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine import verbs
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.engine.queue import walk

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
    retry = RetryParameters(task_retry_limit=leases, task_age_limit_seconds=age_seconds)
    return QueueSettings(name=name, mode=QueueMode.PULL, retry_parameters=retry)


def emulator_of(
    *queues: QueueSettings, limits: Limits | None = None, clock: Clock | None = None
) -> Emulator:
    return Emulator(QueueConfig(queues=queues), clock=clock or ManualClock(), limits=limits)


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    """Return a pull queue without limits."""
    return emulator_of(pull("pull"), clock=clock).queue("pull")


class TestAddMany:
    def test_an_add_that_stores_nothing_is_not_an_event(self, clock: ManualClock) -> None:
        queue = emulator_of(pull("pull"), limits=Limits(events_kept=1)).queue("pull")
        queue.add_many([NewTask(name="one"), NewTask(name="two")])

        assert verbs.insert(queue, [NewTask(name="one")]).added == []

        assert [event.task_name for event in queue.events()] == ["one", "two"]

    def test_a_check_refuses_like_an_add_and_adds_nothing(self, queue: Queue) -> None:
        with pytest.raises(InvalidTaskNameError):
            queue.check([NewTask(name="no name")])
        queue.check([NewTask(name="a-name")])

        assert queue.list_tasks() == []


def test_a_list_has_100_tasks_unless_more_are_asked_for(queue: Queue) -> None:
    for _ in range(2):
        queue.add_many([NewTask()] * 60)

    assert len(queue.list_tasks()) == 100


class TestLease:
    def test_a_tag_requires_a_group(self, queue: Queue) -> None:
        with pytest.raises(InvalidTagError, match='tag "red" requires group_by_tag'):
            verbs.lease(queue, 60, 1, tag="red")

    def test_leases_beyond_the_rate_are_logged_once_a_minute(
        self, caplog: pytest.LogCaptureFixture, clock: ManualClock
    ) -> None:
        queue = emulator_of(pull("a"), limits=Limits(leases_per_second=2), clock=clock).queue("a")
        message = 'queue "a": more than 2 lease calls in a second; the excess returns no tasks'

        for calls, logged in ((2, 0), (50, 1)):
            for _ in range(calls):
                verbs.lease(queue, 0, 1)
            assert caplog.messages == [message] * logged
        clock.advance(60)
        for _ in range(3):
            verbs.lease(queue, 0, 1)

        assert caplog.record_tuples == [("pullqueue.engine", logging.WARNING, message)] * 2


class TestModify:
    def test_a_name_does_not_identify_a_lease(self, queue: Queue) -> None:
        with pytest.raises(InvalidTaskError, match='"one" is not a task: pass one that was leased'):
            queue.modify_task_lease("one", 60)  # type: ignore[arg-type]

    @pytest.mark.parametrize("eta", [START, START + timedelta(hours=1)])
    def test_a_task_that_was_never_leased_cannot_be_extended(
        self, queue: Queue, eta: datetime
    ) -> None:
        with pytest.raises(TaskLeaseExpiredError, match="caller: it was never leased; lease it"):
            queue.modify_task_lease(queue.add(eta=eta), 60)

    def test_a_lease_that_is_over_is_refused_and_the_message_says_why(
        self, queue: Queue, clock: ManualClock
    ) -> None:
        queue.add()
        (expired,) = queue.lease_tasks(60, 1)
        clock.advance(60)
        with pytest.raises(TaskLeaseExpiredError, match="caller: its lease has expired; lease it"):
            queue.modify_task_lease(expired, 60)
        (held,) = queue.lease_tasks(60, 1)
        with pytest.raises(
            TaskLeaseExpiredError,
            match=(
                "caller: its lease ends at another time than the one given; if you extended it, "
                "pass the task that was returned then, and if another worker has leased it since, "
                r"leave it to that worker$"
            ),
        ) as raised:
            queue.modify_task_lease(expired, 60)
        assert (raised.value.queue_name, raised.value.task_name) == ("pull", expired.name)
        released = queue.modify_task_lease(held, 0)
        with pytest.raises(TaskLeaseExpiredError, match="its lease has expired"):
            queue.modify_task_lease(released, 60)

    def test_a_deleted_task_and_an_unknown_one_are_distinguished(self, queue: Queue) -> None:
        queue.add(name="gone")
        queue.delete_tasks("gone")

        with pytest.raises(TombstonedTaskError, match='"gone" of queue "pull" was done') as raised:
            verbs.modify_lease(queue, "gone", 60)
        assert (raised.value.queue_name, raised.value.task_name) == ("pull", "gone")
        with pytest.raises(UnknownTaskError, match='queue "pull" has no task "unknown"') as unknown:
            verbs.modify_lease(queue, "unknown", 60)
        assert (unknown.value.queue_name, unknown.value.task_name) == ("pull", "unknown")


def test_an_age_limit_alone_exhausts_nothing_and_a_retry_limit_does(clock: ManualClock) -> None:
    """As in Google's stub."""
    limited = emulator_of(pull("a", leases=1), clock=clock).queue("a")
    limited.add()
    assert len(limited.lease_tasks(0, 1)) == 1
    assert limited.list_tasks() == []

    queue = emulator_of(pull("a", age_seconds=1), clock=clock).queue("a")
    queue.add()
    queue.lease_tasks(1, 1)
    clock.advance(10)

    assert queue.fetch_statistics().available == 1


@each_row(("more_seconds", "left"), [(0, 0), (1, 1)])
def test_a_lifetime_can_end_in_all_years_and_never_ends_beyond(
    more_seconds: int, left: int
) -> None:
    clock = ManualClock(datetime.min.replace(tzinfo=UTC))
    all_years = (datetime.max.replace(tzinfo=UTC) - clock.now()) // timedelta(seconds=1)
    lifetime = all_years + more_seconds
    settings = QueueSettings(name="a", mode=QueueMode.PULL, task_lifetime_seconds=lifetime)
    queue = emulator_of(settings, clock=clock).queue("a")
    queue.add()
    clock.advance(timedelta(seconds=all_years))

    assert len(queue.list_tasks()) == left


class TestDelete:
    def test_delete_tasks_takes_any_iterable(self, queue: Queue) -> None:
        tasks = [queue.add() for _ in range(3)]

        assert queue.delete_tasks(task for task in tasks) == [DeleteResult.DELETED] * 3
        assert queue.delete_tasks([]) == []

    def test_a_task_of_another_kind_is_known_by_its_name(self, queue: Queue) -> None:
        """What has a payload and a name is a task, as the SDK's is, and is known by its name."""
        queue.add(name="here")

        assert queue.delete_tasks([OtherTask(b"", "here")]) == [DeleteResult.DELETED]
        assert queue.delete_tasks(OtherTask(b"", "here")) == [DeleteResult.TOMBSTONED]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (OtherTask(b"", None), "^OtherTask.* has no name: add it first, or set its name$"),
            (WithoutPayload("here"), "is neither a task nor a task name"),
            (5, "5 is neither a task nor a task name"),
        ],
    )
    def test_something_other_than_a_task_deletes_nothing(
        self, queue: Queue, given: Any, message: str
    ) -> None:
        queue.add(name="here")

        for tasks in (["here", given], given):
            with pytest.raises(InvalidTaskNameError, match=message):
                queue.delete_tasks(tasks)

        assert len(queue.list_tasks()) == 1


def test_pages_of_tasks_follow_each_other(queue: Queue) -> None:
    added = [queue.add(tag="ab"[number % 2]) for number in range(5)]

    for page in (1, 2, 5, 6):
        assert list(islice(walk(queue, page=page), 6)) == added
        assert list(islice(walk(queue, page=page, tag="a"), 6)) == added[::2]
        assert list(walk(queue, page=page, state=TaskState.LEASED)) == []


def test_a_push_queue_refuses_leases() -> None:
    """Each verb of a lease says that the queue is a push queue, and so does a tag."""
    queue = emulator_of(QueueSettings(name="push")).queue("push")
    lease = "only queues with `mode: pull` in queue.yaml can be used this way"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: queue.add(tag="red"), "its tasks cannot have a tag"),
        (lambda: queue.lease_tasks(60, 1), lease),
        (lambda: queue.lease_tasks_by_tag(60, 1), lease),
        (lambda: verbs.modify_lease(queue, "one", 1), lease),
        (lambda: verbs.acknowledge(queue, "one", expected_eta_usec=1), lease),
    ]

    for call, rule in calls:
        with pytest.raises(InvalidQueueModeError) as excinfo:
            call()
        assert str(excinfo.value) == f'queue "push" is a push queue: {rule}'
        assert excinfo.value.queue_name == "push"
    assert queue.mode is QueueMode.PUSH
    assert queue.list_tasks() == []


def test_a_pull_queue_refuses_requests_and_attempts(queue: Queue) -> None:
    with pytest.raises(InvalidQueueModeError) as excinfo:
        queue.add(request=HttpRequest("/work"))
    with pytest.raises(InvalidTaskError, match='task "one" of queue "pull" is a pull task'):
        start_attempt(queue, queue.add(name="one"), lease_seconds=1, attempts=AttemptRecord())

    assert str(excinfo.value) == 'queue "pull" is a pull queue: its tasks cannot have a request'


def test_an_attempt_of_a_task_that_has_changed_names_queue_and_task() -> None:
    queue = emulator_of(QueueSettings(name="push")).queue("push")
    task = queue.add(name="one")
    queue.free_names()

    with pytest.raises(TaskLeaseExpiredError) as excinfo:
        start_attempt(queue, task._replace(eta_usec=1), lease_seconds=1, attempts=AttemptRecord())

    assert (excinfo.value.queue_name, excinfo.value.task_name) == ("push", "one")


def test_a_task_may_be_due_at_the_last_time_of_a_datetime() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    clock = ManualClock(last - timedelta(days=1))
    queue = emulator_of(pull("pull"), clock=clock).queue("pull")
    queue.add(eta=last)

    assert queue.next_change_usec() == to_usec(last)


def test_the_pause_after_an_attempt_ends_before_the_year_10000(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the clock that the store reads later, too."""
    seconds = itertools.count(1_800_000_000)
    monkeypatch.setattr("time.time", lambda: next(seconds))
    queue = emulator_of(QueueSettings(name="push"), clock=SystemClock()).queue("push")
    started = start_attempt(queue, queue.add(), lease_seconds=1e15, attempts=AttemptRecord())
    failed = AttemptRecord(finished=1, status=500)
    ended = finish_attempt(queue, started, attempts=failed, backoff_seconds=1e15)

    assert [started.eta.year, ended.eta.year] == [9999, 9999]


def test_tags_are_counted_up_to_100_unless_more_are_asked_for(queue: Queue) -> None:
    for number in range(101):
        queue.add(tag=f"t{number}")

    assert (len(queue.count_tags()), len(queue.count_tags(101))) == (100, 101)


@each_row(
    "changed",
    [{}, {"payload": b"new"}, {"request": HttpRequest("https://other.example.com/")}],
)
def test_an_exhausted_task_is_added_again_whatever_the_limit_is_now(
    changed: dict[str, Any],
) -> None:
    retry = RetryParameters(task_retry_limit=0)
    settings = QueueSettings(name="push", retry_parameters=retry)
    queue = emulator_of(settings, limits=Limits(push_task_bytes=40)).queue("push")
    new = NewTask(b"x" * 50, "a", request=HttpRequest("https://api.example.com/"))
    (task,) = verbs.insert(queue, [new], absolute_urls=True, push_task_bytes=100).added
    failed = start_attempt(queue, task, lease_seconds=1, attempts=AttemptRecord())
    finish_attempt(queue, failed, attempts=AttemptRecord(finished=1), backoff_seconds=None)

    [again] = queue.requeue(["a"], **changed).added
    expected = {"payload": new.payload, "request": new.request} | changed
    assert {"payload": again.payload, "request": again.request} == expected
    assert queue.remove_exhausted(["a"]) == 0
