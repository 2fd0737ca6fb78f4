"""Faults in the calls to an emulator."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from pullqueue import (
    ClockError,
    DeadlineExceededError,
    DeleteResult,
    Emulator,
    InternalError,
    ManualClock,
    OverQuotaError,
    PullQueueError,
    Queue,
    TaskLeaseExpiredError,
    TransientError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.testing import Faults, assert_available, assert_empty, assert_leased, describe


def outcomes(queue: Queue, calls: int) -> str:
    """Lease so often, and write x for each lease that failed."""
    marks = []
    for _ in range(calls):
        try:
            queue.lease_tasks(60, 1)
        except TransientError:
            marks.append("x")
        else:
            marks.append(".")
    return "".join(marks)


@pytest.fixture
def faults(emulator: Emulator) -> Faults:
    """Faults of the emulator."""
    return Faults(emulator)


def test_fail_some_times(faults: Faults, queue: Queue) -> None:
    """A fault strikes as often as told, and counts."""
    fault = faults.fail("lease_tasks", TransientError, times=3)

    assert outcomes(queue, 5) == "xxx.."
    assert (fault.calls, fault.hits) == (5, 3)
    assert repr(fault) == "<fault in lease_tasks: struck 3 of 5 calls>"


@pytest.mark.parametrize(
    ("when", "marks"),
    [
        ({}, "xxxxxx"),
        ({"after": 2}, "..xxxx"),
        ({"every": 3}, "..x..x"),
        ({"after": 1, "every": 2, "times": 2}, "..x.x."),
        ({"queue": "limited"}, "......"),
        ({"queue": "work", "times": 1}, "x....."),
    ],
)
def test_which_calls_fail(
    faults: Faults, queue: Queue, when: dict[str, object], marks: str
) -> None:
    """after, every, times and queue narrow a fault."""
    faults.fail("lease_tasks", TransientError, **when)  # type: ignore[arg-type]

    assert outcomes(queue, 6) == marks


def test_probability_is_repeatable(emulator: Emulator, queue: Queue) -> None:
    """The same seed strikes the same calls, another one strikes others."""
    runs = []
    for seed in (1, 1, 2):
        with Faults(emulator) as faults:
            faults.fail("lease_tasks", TransientError, probability=0.5, seed=seed)
            runs.append(outcomes(queue, 40))

    assert runs[0] == runs[1] != runs[2]
    assert 5 < runs[0].count("x") < 35
    assert outcomes(queue, 1) == "."


def test_a_failed_call_does_nothing(faults: Faults, queue: Queue) -> None:
    """The error comes instead of the call."""
    faults.fail("add", TransientError)

    with pytest.raises(TransientError, match=re.escape("try it again (injected by the test)")):
        queue.add()

    assert_empty(queue)


def test_a_lost_answer(faults: Faults, queue: Queue) -> None:
    """The call is done, but raises; by default that its deadline is exceeded."""
    faults.lose_answer("add", times=1)
    with pytest.raises(DeadlineExceededError):
        queue.add()

    assert_available(queue, 1)


@pytest.mark.parametrize("error", [OverQuotaError, UnknownTaskError, UnknownQueueError])
def test_errors_that_need_facts(faults: Faults, queue: Queue, error: type[PullQueueError]) -> None:
    """Classes whose errors carry facts can be named like the others."""
    faults.fail("purge", error)

    with pytest.raises(error):
        queue.purge()


def test_an_error_of_ones_own(faults: Faults, queue: Queue) -> None:
    """An error that is made already is raised as it is."""
    error = InternalError("the disk is full")
    faults.fail("delete_tasks", error)

    with pytest.raises(InternalError, match=r"^the disk is full$"):
        queue.delete_tasks("one")


def test_an_error_of_the_same_name(faults: Faults) -> None:
    """Another package's error is refused with the name of pullqueue's own."""
    other = type("TransientError", (Exception,), {"__module__": "google.appengine.api.taskqueue"})

    for error, name in (
        (other, "TransientError"),
        (other("x"), "TransientError"),
        (KeyError, "TransientError"),
        (type("InternalError", (Exception,), {}), "InternalError"),
    ):
        with pytest.raises(TypeError, match=rf"no error of pullqueue: .* pullqueue\.{name}$"):
            faults.fail("add", error)


def test_faults_are_described(emulator: Emulator, queue: Queue, faults: Faults) -> None:
    """The state of an emulator tells which faults are set, in their order, and their hits."""
    faults.fail("delete_tasks", TransientError, queue="work")
    faults.empty_leases()
    faults.fail("lease_tasks_by_tag", TransientError)

    with pytest.raises(TransientError):
        queue.lease_tasks_by_tag(60, 1)
    queue.lease_tasks(60, 1)

    assert describe(emulator).splitlines()[-3:] == [
        "fault in delete_tasks on queue 'work': struck 0 of 0 calls",
        "fault in lease_tasks, lease_tasks_by_tag: struck 1 of 1 calls",
        "fault in lease_tasks_by_tag: struck 1 of 1 calls",
    ]
    faults.clear()
    assert "fault" not in describe(emulator)


def test_latency(faults: Faults, queue: Queue, clock: ManualClock) -> None:
    """The answer arrives later by the clock, when part of the lease has passed."""
    queue.add()
    faults.latency("lease_tasks_by_tag", timedelta(seconds=40))
    start = clock.now()

    [task] = queue.lease_tasks_by_tag(60, 1)

    assert clock.now() == start + timedelta(seconds=40)
    assert task.eta - clock.now() == timedelta(seconds=20)


@pytest.mark.parametrize("by", [-1, timedelta(seconds=-1), float("inf"), 1e300])
def test_a_latency_that_is_none(faults: Faults, by: float | timedelta) -> None:
    """What no clock can move by is refused where the fault is set, not in the app's call."""
    with pytest.raises(ClockError, match=r"give 0 or more|pass a finite number of seconds"):
        faults.latency("add", by)


def test_empty_leases(faults: Faults, queue: Queue) -> None:
    """Leases of either kind find nothing, and say that they were asked for too often."""
    queue.add()
    faults.empty_leases(times=2)

    assert queue.lease(60, 1).rate_limited
    assert queue.lease_tasks_by_tag(60, 1) == []
    assert len(queue.lease_tasks(60, 1)) == 1


def test_lapsed_lease(faults: Faults, queue: Queue, clock: ManualClock) -> None:
    """A lease runs out before its holder's next call, which then comes too late."""
    queue.add()
    faults.lapse_leases(times=1)

    [task] = queue.lease_tasks(60, 1)
    assert_leased(queue, 1)
    with pytest.raises(TaskLeaseExpiredError):
        queue.modify_task_lease(task, 60)

    assert clock.now() == task.eta
    assert [again.name for again in queue.lease_tasks(60, 1)] == [task.name]
    assert queue.delete_tasks(task) == [DeleteResult.DELETED]


def test_lapsed_lease_with_a_rival(faults: Faults, queue: Queue) -> None:
    """Another worker gets the same tasks, before the first is done with them."""
    queue.add("a")
    done: list[bytes] = []

    def work() -> None:
        tasks = queue.lease_tasks(60, 1)
        done.extend(task.payload for task in tasks)
        queue.delete_tasks(tasks)

    faults.lapse_leases(rival=work)
    work()

    assert done == [b"a", b"a"]
    assert_empty(queue)


def test_a_lease_that_moved_on_lapses_all_the_same(
    faults: Faults, queue: Queue, clock: ManualClock
) -> None:
    """Where the test's clock has passed the end of the lease already, it stays where it is."""
    queue.add()
    faults.lapse_leases()
    queue.lease_tasks(60, 1)
    now = clock.advance(100)

    queue.purge()

    assert clock.now() == now


def test_clear(faults: Faults, queue: Queue) -> None:
    """After clear nothing fails."""
    faults.fail("lease_tasks", TransientError)
    faults.clear()

    assert outcomes(queue, 1) == "."
    assert not queue.interceptors


@pytest.mark.parametrize(
    ("verb", "when", "message"),
    [
        ("lease", {}, "there is no call 'lease': use one of add, lease_tasks, "),
        ("add", {"times": 0}, "times=0: a fault strikes once at least"),
        ("add", {"after": -1}, "after=-1: give how many calls succeed first, 0 or more"),
        ("add", {"every": 0}, "every=0: give 1 for each call, 2 for every second..."),
        ("add", {"probability": 0}, "probability=0: give more than 0, at most 1"),
    ],
)
def test_senseless_faults(faults: Faults, verb: str, when: dict[str, object], message: str) -> None:
    """What could never strike is refused."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        faults.fail(verb, TransientError, **when)  # type: ignore[arg-type]


def test_errors_of_others(faults: Faults) -> None:
    """An error that no door could translate is refused."""
    with pytest.raises(TypeError, match=r"^<class 'OSError'> is no error of pullqueue: give one"):
        faults.fail("add", OSError)  # type: ignore[arg-type]
