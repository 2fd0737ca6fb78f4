"""What the SDK's client adds to leasing, modifying and deleting tasks: see also the contract."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from typing import Any

import pytest
from freezegun import freeze_time
from sdk_calls import call, pull

from pullqueue import Emulator, EventKind, InvalidTaskNameError, ManualClock, SystemClock
from pullqueue.clock import from_usec, to_usec
from pullqueue.engine.interceptors import QueueCall
from pullqueue.faults.fault import CallNext
from pullqueue.sdk.imports import apiproxy_errors, taskqueue
from pullqueue.testing import assert_exhausted, exhaust

pytestmark = pytest.mark.usefixtures("stub")

YEAR_2045 = dt.datetime(2045, 6, 7, 8, 9, 10, 123457, tzinfo=dt.UTC)


def add(*payloads: Any, queue: str = "pull", **options: Any) -> list[Any]:
    added: list[Any] = taskqueue.Queue(queue).add([pull(each, **options) for each in payloads])
    return added


def payloads(tasks: list[Any]) -> list[bytes]:
    return [task.payload for task in tasks]


class TestTime:
    def test_a_naive_eta_is_in_the_time_zone_of_the_machine(self, clock: ManualClock) -> None:
        eta = clock.now().astimezone().replace(tzinfo=None) + dt.timedelta(seconds=10)
        add(b"later", eta=eta)
        queue = taskqueue.Queue("pull")

        clock.advance(9.999999)
        assert queue.lease_tasks(60, 10) == []
        clock.advance(0.000001)
        assert payloads(queue.lease_tasks(60, 10)) == [b"later"]

    @pytest.mark.parametrize(
        "clock", [ManualClock(YEAR_2045 + dt.timedelta(microseconds=n)) for n in (0, 3, 6)]
    )
    def test_leases_are_exact_in_2045(self, clock: ManualClock) -> None:
        """Leases are held and extended where a float of seconds misses microseconds."""
        queue = taskqueue.Queue("pull")
        add(b"work")
        (task,) = queue.lease_tasks(60, 1)
        for _ in range(3):
            clock.advance(7.654321)
            queue.modify_task_lease(task, 33.333333)

        assert queue.lease_tasks(1, 1) == []
        clock.advance(33.333333)
        queue.lease_tasks(60, 1)
        with pytest.raises(taskqueue.TaskLeaseExpiredError):
            queue.modify_task_lease(task, 1)

    @pytest.mark.parametrize("time", ["2026-11-20 10:00:00.123457", "2045-01-02 03:04:05.999999"])
    @pytest.mark.parametrize("clock", [SystemClock()])
    def test_client_and_system_clock_agree_under_freezegun(self, time: str) -> None:
        with freeze_time(time) as frozen:
            queue = taskqueue.Queue("pull")
            task = add(b"work")[0]
            (leased,) = queue.lease_tasks(10, 1)
            frozen.tick(dt.timedelta(seconds=9.999999))
            early = queue.lease_tasks(10, 1)
            queue.modify_task_lease(leased, 1)
            frozen.tick(dt.timedelta(seconds=1))
            (again,) = queue.lease_tasks(10, 1)

        assert early == []
        assert again.retry_count == 2
        assert task._eta_usec == to_usec(dt.datetime.fromisoformat(f"{time}+00:00"))


class TestModify:
    @pytest.mark.parametrize("clock", [ManualClock(YEAR_2045)])
    def test_a_wrong_eta_is_refused_at_any_time(self, clock: ManualClock) -> None:
        """In 2045, where an eta may be off by a microsecond, one off by two is refused."""
        add(b"work")
        (task,) = taskqueue.Queue("pull").lease_tasks(60, 1)
        fields = {"task_name": task.name.encode(), "eta_usec": clock.now_usec() + 60_000_002}

        with pytest.raises(Exception, match="if another worker has leased it since"):
            call("ModifyTaskLease", queue_name=b"pull", lease_seconds=1, **fields)

    @pytest.mark.parametrize(("eta_usec", "is_held"), [(2**51, False), (2**51 + 1, True)])
    def test_an_eta_may_be_off_where_a_float_of_seconds_misses_microseconds(
        self, clock: ManualClock, eta_usec: int, *, is_held: bool
    ) -> None:
        """From 2**51 on, as the client has it."""
        clock.move_to_usec(eta_usec - 60_000_000)
        add(b"work", name="task")
        taskqueue.Queue("pull").lease_tasks(60, 1)
        fields = {"queue_name": b"pull", "task_name": b"task", "eta_usec": eta_usec - 1}

        with nullcontext() if is_held else pytest.raises(apiproxy_errors.ApplicationError):
            call("ModifyTaskLease", lease_seconds=1, **fields)

    @pytest.mark.parametrize("clock", [ManualClock(YEAR_2045)])
    def test_a_lease_that_another_worker_gets_meanwhile_is_refused(
        self, clock: ManualClock, emulator: Emulator
    ) -> None:
        """While it is looked up, where an eta may be off."""
        queue = taskqueue.Queue("pull")
        add(b"work")
        (task,) = queue.lease_tasks(60, 1)

        def lease_between(made: QueueCall, call_next: CallNext) -> object:
            found = call_next()
            if made.verb == "get_task":
                clock.advance(60)
                emulator.queue("pull").lease_tasks(60, 1)
            return found

        with (
            emulator.interceptors.installed(lease_between),
            pytest.raises(taskqueue.TaskLeaseExpiredError),
        ):
            queue.modify_task_lease(task, 1)

    def test_deleted_and_unknown_tasks_are_distinguished(self) -> None:
        queue = taskqueue.Queue("pull")
        (task,) = add(b"work")
        (leased,) = queue.lease_tasks(60, 1)
        queue.delete_tasks_by_name(task.name)
        stranger = pull(name="stranger")

        with pytest.raises(taskqueue.TombstonedTaskError, match="was done, deleted"):
            queue.modify_task_lease(leased, 60)
        with pytest.raises(taskqueue.Error, match='queue "pull" has no task "stranger"'):
            queue.modify_task_lease(stranger, 60)

    def test_a_paused_queue_refuses_to_modify_leases(self, emulator: Emulator) -> None:
        """As the SDK documents its QueuePausedError; a task that is done can be deleted."""
        queue = taskqueue.Queue("pull")
        add(b"work")
        (task,) = queue.lease_tasks(60, 1)
        emulator.queue("pull").pause()

        message = '^queue "pull" is paused: resume it to modify its leases$'
        for seconds in (0, 60):
            with pytest.raises(taskqueue.QueuePausedError, match=message):
                queue.modify_task_lease(task, seconds)
        queue.delete_tasks(task)

        assert task.was_deleted


def test_a_delete_may_have_many_names() -> None:
    queue = taskqueue.Queue("pull")
    add(b"", name="here")
    queue.delete_tasks(add(b"", name="gone"))

    deleted = queue.delete_tasks_by_name(["here", "gone", *(f"n{n}" for n in range(3000))])

    assert [task.name for task in deleted if task.was_deleted] == ["here"]
    assert queue.fetch_statistics().tasks == 0


class TestTag:
    def test_an_empty_tag_is_that_of_the_oldest_available_task(self) -> None:
        add(b"b1", tag="blue")
        add(b"r1", tag="red")
        add(b"b2", tag="blue")

        assert payloads(taskqueue.Queue("pull").lease_tasks_by_tag(60, 10, "")) == [b"b1", b"b2"]

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"tag": b"red"}, "requires group_by_tag"),
            ({"tag": b"\xff", "group_by_tag": True}, r'tag is "\\xff": use text in UTF-8'),
        ],
    )
    def test_an_invalid_tag_is_refused(self, fields: dict[str, Any], text: str) -> None:
        with pytest.raises(apiproxy_errors.ApplicationError, match=text) as refused:
            call("QueryAndOwnTasks", queue_name=b"pull", lease_seconds=1, max_tasks=1, **fields)

        assert refused.value.application_error == 27


@pytest.mark.parametrize(("seconds", "count"), [(float("nan"), 1), (1, 0)])
def test_a_lease_out_of_bounds_is_refused(seconds: float, count: int) -> None:
    with pytest.raises(apiproxy_errors.ApplicationError) as refused:
        call("QueryAndOwnTasks", queue_name=b"pull", lease_seconds=seconds, max_tasks=count)

    assert refused.value.application_error == 13


def test_statistics_are_those_of_the_queue(clock: ManualClock) -> None:
    add(b"a", b"b", b"c")
    add(b"later", countdown=600)
    queue = taskqueue.Queue("pull")
    clock.advance(1)
    queue.lease_tasks(60, 2)

    numbers = queue.fetch_statistics()

    assert numbers.tasks == 4
    assert from_usec(numbers.oldest_eta_usec) == ManualClock.DEFAULT_START
    assert (numbers.executed_last_minute, numbers.in_flight) == (2, 2)
    assert numbers.enforced_rate == 0  # Java's client fails where it is not set
    assert taskqueue.Queue("other").fetch_statistics().oldest_eta_usec is None
    [stats] = call("FetchQueueStats", queue_name=[b"other"]).queuestats
    assert stats.oldest_eta_usec == -1
    assert stats.scanner_info.sampling_duration_seconds == 60


def test_the_cron_queue_has_no_tasks() -> None:
    (stats,) = call("FetchQueueStats", queue_name=[b"__cron"]).queuestats

    assert (stats.num_tasks, stats.oldest_eta_usec) == (0, -1)


def test_calls_on_an_unknown_queue_are_refused() -> None:
    add(b"work")
    (task,) = taskqueue.Queue("pull").lease_tasks(60, 1)
    queue = taskqueue.Queue("nowhere")

    for made in (lambda: queue.modify_task_lease(task, 60), queue.fetch_statistics, queue.purge):
        with pytest.raises(taskqueue.UnknownQueueError):
            made()


def test_helpers_for_tests_take_tasks_of_the_client(emulator: Emulator) -> None:
    queue = emulator.queue("twice")
    (task,) = add(b"work", queue="twice")

    with pytest.raises(AssertionError, match=r"which permits 2 leases, is not exhausted"):
        assert_exhausted(queue, task)
    assert exhaust(queue, task).payload == b"work"
    assert_exhausted(queue, task, count=1)
    assert queue.history(task)[-1].kind is EventKind.EXHAUSTED
    with pytest.raises(InvalidTaskNameError, match="has no name: add it first"):
        queue.history(pull())
