"""The life of an attempt to send a push task: it starts, is renewed, and ends."""

from __future__ import annotations

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND
from pullqueue.engine.queue_base import QueueBase
from pullqueue.errors import is_expected_error
from pullqueue.limits import DAY_SECONDS
from pullqueue.tasks import AttemptRecord, Task

__tracebackhide__ = is_expected_error


def start_attempt(
    queue: QueueBase, task: Task, *, lease_seconds: float, attempts: AttemptRecord, counted: int = 0
) -> Task:
    """Start an attempt to send a push task, due or not, and return the task as it is then.

    Nobody else can start an attempt within `lease_seconds`; `attempts` replaces the record of
    attempts. With `counted` it is the last of that many that are not made, but counted by the
    store's `count_failed`. Interceptors are not called for this function and the two after it.

    Raises:
        TaskLeaseExpiredError: the task has changed since.
        UnknownTaskError: the queue has no such task.
        TombstonedTaskError: the task was deleted, or exhausted.
        InvalidTaskError: it is a pull task.
    """
    queue.check_usable()
    task.require_request()
    lease_usec = _pause_usec(queue, lease_seconds)
    return queue.store.start_attempt(
        task, lease_usec=lease_usec, attempts=attempts, counted=counted
    )


def renew_attempt(queue: QueueBase, task: Task, *, lease_seconds: float) -> Task:
    """Move the end of an attempt to `lease_seconds` from now; raise like `start_attempt`."""
    queue.check_exists()
    return queue.store.renew_attempt(task, lease_usec=_pause_usec(queue, lease_seconds))


def finish_attempt(
    queue: QueueBase,
    task: Task,
    *,
    attempts: AttemptRecord,
    backoff_seconds: float | None,
    counted: int = 0,
) -> Task:
    """End an attempt, also after its lease; raise like `start_attempt`.

    `task` is what `start_attempt` or `renew_attempt` returned, `attempts` its new record. A task
    whose attempt has succeeded is deleted, and any other sent again after `backoff_seconds`; None:
    it is kept among the exhausted tasks. `counted` is that of its start.
    """
    queue.check_exists()
    return queue.store.finish_attempt(
        task,
        attempts=attempts,
        backoff_usec=None if backoff_seconds is None else _pause_usec(queue, backoff_seconds),
        counted=counted,
    )


def _pause_usec(queue: QueueBase, seconds: float) -> int:
    """Return a duration from now on in microseconds; it ends before the year 10000."""
    # A day less than there is: the store reads the clock again, which has moved on.
    longest_usec = LAST_USEC - DAY_SECONDS * USEC_PER_SECOND - queue.clock.now_usec()
    return int(max(0, min(seconds * USEC_PER_SECOND, longest_usec)))
