"""Failures of the service as an app meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from pullqueue import (
    DeadlineExceededError,
    Emulator,
    InternalError,
    OverQuotaError,
    PullQueueError,
    QueueDisabledError,
    RateLimitExceededError,
    TransientError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine.memory import MemoryStore
from pullqueue.engine.store import (
    Draft,
    Insertion,
    Lease,
    LeaseRequest,
    QueueCounts,
    RetryLimit,
)
from pullqueue.sdk import install
from pullqueue.sdk.imports import apiproxy_errors, taskqueue
from pullqueue.tasks import DeleteResult, Task

CONFIG = QueueConfig(queues=(QueueSettings(name="pull", mode=QueueMode.PULL),))

CALLS: dict[str, Callable[[Any, Any], object]] = {
    "BulkAdd": lambda queue, task: queue.add(taskqueue.Task(b"", method="PULL")),
    "QueryAndOwnTasks": lambda queue, task: queue.lease_tasks(60, 1),
    "ModifyTaskLease": lambda queue, task: queue.modify_task_lease(task, 60),
    "Delete": lambda queue, task: queue.delete_tasks_by_name("a"),
    "PurgeQueue": lambda queue, task: queue.purge(),
    "FetchQueueStats": lambda queue, task: queue.fetch_statistics(),
}


class FailingStore(MemoryStore):
    """Raises an error at every operation, once it is given one."""

    error: PullQueueError | None = None

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    def insert(
        self, queue_name: str, drafts: Sequence[Draft], *, storage_limit_bytes: int | None
    ) -> Insertion:
        self._fail()
        return super().insert(queue_name, drafts, storage_limit_bytes=storage_limit_bytes)

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        self._fail()
        return super().lease(queue_name, request)

    def modify_lease(
        self,
        queue_name: str,
        task_name: str,
        *,
        held_eta_usec: int | None,
        lease_usec: int,
        retry_limit: RetryLimit,
    ) -> Task:
        self._fail()
        raise AssertionError

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        self._fail()
        raise AssertionError

    def purge(self, queue_name: str) -> int:
        self._fail()
        raise AssertionError

    def counts(self, queue_name: str) -> QueueCounts:
        self._fail()
        raise AssertionError


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransientError("again"), taskqueue.TransientError),
        (InternalError("broken"), taskqueue.InternalError),
        (RateLimitExceededError("slower"), taskqueue.TransientError),
        (DeadlineExceededError("late"), apiproxy_errors.DeadlineExceededError),
        (
            OverQuotaError("full", limit_bytes=1, needed_bytes=2),
            apiproxy_errors.OverQuotaError,
        ),
        (QueueDisabledError("off", queue_name="pull"), taskqueue.QueuePausedError),
        (PullQueueError("strange"), taskqueue.InternalError),
    ],
)
def test_errors_of_the_engine(call: str, error: PullQueueError, expected: type[Exception]) -> None:
    """Whatever a queue raises, the client raises as the SDK's error for it, with its sentence."""
    emulator = Emulator(CONFIG, store=FailingStore)
    with install(emulator):
        queue = taskqueue.Queue("pull")
        queue.add(taskqueue.Task(b"", method="PULL"))
        (task,) = queue.lease_tasks(60, 1)
        store = emulator._store
        assert isinstance(store, FailingStore)
        store.error = error

        with pytest.raises(expected, match=str(error)):
            CALLS[call](queue, task)


def test_a_failed_add_is_added_by_the_retry() -> None:
    """The pattern of Google's guide: catch TransientError, try again."""
    emulator = Emulator(CONFIG, store=FailingStore)
    with install(emulator):
        store = emulator._store
        assert isinstance(store, FailingStore)
        store.error = TransientError("again")
        task = taskqueue.Task(b"work", method="PULL")
        with pytest.raises(taskqueue.TransientError):
            taskqueue.Queue("pull").add(task)
        store.error = None

        assert taskqueue.Queue("pull").add(task).was_enqueued


@pytest.mark.parametrize("call", CALLS)
def test_set_error_for_a_method(stub: Any, call: str) -> None:
    """`SetError` lets one method fail, and None ends it."""
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(b"", method="PULL", name="a"))
    (task,) = queue.lease_tasks(60, 1)
    stub.SetError(apiproxy_errors.ApplicationError(2, "again"), method=call)

    with pytest.raises(taskqueue.TransientError, match="again"):
        CALLS[call](queue, task)
    stub.SetError(None, method=call)
    CALLS[call](queue, task)


def test_set_error_for_all_methods(stub: Any) -> None:
    """Without a method every call fails, until None ends it."""
    stub.SetError(apiproxy_errors.DeadlineExceededError())
    queue = taskqueue.Queue("pull")

    with pytest.raises(apiproxy_errors.DeadlineExceededError):
        queue.lease_tasks(60, 1)
    stub.SetError(None)
    assert queue.lease_tasks(60, 1) == []


def test_a_request_that_is_too_large(stub: Any) -> None:
    """Over 32 MiB in one call is App Engine's error for it."""
    batch = [taskqueue.Task(b"x" * (2**20 - 100), method="PULL") for _ in range(33)]

    with pytest.raises(apiproxy_errors.RequestTooLargeError):
        taskqueue.Queue("pull").add(batch)
    assert taskqueue.Queue("pull").fetch_statistics().tasks == 0


def test_a_queue_taken_out_of_the_configuration(stub: Any, emulator: Emulator) -> None:
    """A disabled queue says that it is, and has its tasks again when it comes back."""
    config = emulator.config
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(b"work", method="PULL"))
    emulator.reconfigure(QueueConfig())

    with pytest.raises(taskqueue.QueuePausedError, match="it is no longer in"):
        queue.lease_tasks(60, 1)
    emulator.reconfigure(config)
    assert [task.payload for task in queue.lease_tasks(60, 1)] == [b"work"]
