"""Failures of the service as an app meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sdk_calls import pull

from pullqueue import (
    DeadlineExceededError,
    Emulator,
    InternalError,
    ManualClock,
    OverQuotaError,
    PullQueueError,
    QueueDisabledError,
    RateLimitExceededError,
    TransientError,
)
from pullqueue.sdk.imports import apiproxy_errors, taskqueue
from pullqueue.testing import Faults


@pytest.fixture
def faults(stub: Any, emulator: Emulator) -> Iterator[Faults]:
    with Faults(emulator) as faults:
        yield faults


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransientError("again"), taskqueue.TransientError),
        (InternalError("broken"), taskqueue.InternalError),
        (RateLimitExceededError("slower"), taskqueue.TransientError),
        (DeadlineExceededError("late"), apiproxy_errors.DeadlineExceededError),
        (OverQuotaError("full", limit_bytes=1, needed_bytes=2), apiproxy_errors.OverQuotaError),
        (QueueDisabledError("off", queue_name="pull"), taskqueue.QueuePausedError),
        (PullQueueError("strange"), taskqueue.InternalError),
    ],
)
def test_each_error_is_raised_as_that_of_the_sdk(
    faults: Faults, error: PullQueueError, expected: type[Exception]
) -> None:
    faults.fail("lease_tasks", error)

    with pytest.raises(expected, match=str(error)):
        taskqueue.Queue("pull").lease_tasks(60, 1)


CALLS: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "BulkAdd": ("add", lambda queue, task: queue.add(taskqueue.Task(b"", method="PULL"))),
    "QueryAndOwnTasks": ("lease_tasks", lambda queue, task: queue.lease_tasks(60, 1)),
    "ModifyTaskLease": ("modify_task_lease", lambda queue, task: queue.modify_task_lease(task, 60)),
    "Delete": ("delete_tasks", lambda queue, task: queue.delete_tasks_by_name("a")),
    "PurgeQueue": ("purge", lambda queue, task: queue.purge()),
    "FetchQueueStats": ("fetch_statistics", lambda queue, task: queue.fetch_statistics()),
}
"""The calls of the client: what each is to an emulator, and how an app makes it."""


@pytest.mark.parametrize(("verb", "make"), CALLS.values(), ids=CALLS)
def test_a_fault_of_a_verb_is_raised_by_its_call(
    faults: Faults, verb: str, make: Callable[[Any, Any], object]
) -> None:
    queue = taskqueue.Queue("pull")
    queue.add(pull(name="a"))
    (task,) = queue.lease_tasks(60, 1)
    fault = faults.fail(verb, TransientError, times=1)

    with pytest.raises(taskqueue.TransientError):
        make(queue, task)
    make(queue, task)

    assert fault.hits == 1


def test_a_fault_refuses_a_batch_of_valid_tasks(faults: Faults) -> None:
    faults.fail("add", taskqueue.InvalidEtaError)

    with pytest.raises(taskqueue.InvalidEtaError, match="injected by a fault"):
        taskqueue.Queue("pull").add([pull(), pull()])


def test_a_look_at_the_queue_does_not_fail(faults: Faults, stub: Any) -> None:
    """Faults are for the app: what a test asks of the stub itself is answered."""
    for verb in ("fetch_statistics", "list_tasks", "purge"):
        faults.fail(verb, InternalError)

    assert len(stub.GetQueues()) == 5
    assert stub.get_filtered_tasks() == []
    stub.FlushQueue("pull")


@pytest.mark.parametrize(("options", "deadline"), [({}, 10), ({"deadline": 0.5}, 0.5)])
def test_a_call_slower_than_its_deadline_fails_and_is_carried_out(
    faults: Faults, clock: ManualClock, options: dict[str, float], deadline: float
) -> None:
    """No worker knows of the lease; without a deadline a call has a minute, as on App Engine."""
    faults.latency("lease_tasks", 10.5, times=1)
    queue = taskqueue.Queue("pull")
    queue.add(pull())
    before = clock.now()

    with pytest.raises(apiproxy_errors.DeadlineExceededError, match=f"deadline is {deadline:g} s"):
        queue.lease_tasks(60, 1, **options)

    assert (clock.now() - before).total_seconds() == deadline
    assert queue.lease_tasks(60, 1) == []
    clock.advance(60)
    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [2]

    faults.latency("add", 60, times=1)
    queue.add(pull())
    faults.latency("add", 61)
    with pytest.raises(apiproxy_errors.DeadlineExceededError):
        queue.add(pull())


@pytest.mark.parametrize("method", [None, *CALLS])
def test_set_error_lets_one_method_or_all_fail(stub: Any, method: str | None) -> None:
    queue = taskqueue.Queue("pull")
    queue.add(pull(name="a"))
    (task,) = queue.lease_tasks(60, 1)
    stub.SetError(apiproxy_errors.ApplicationError(2, "again"), method=method)

    for name, (_, make) in CALLS.items():
        if method in (None, name):
            with pytest.raises(taskqueue.TransientError, match="again"):
                make(queue, task)
    stub.SetError(None, method=method)
    CALLS[method or "BulkAdd"][1](queue, task)
