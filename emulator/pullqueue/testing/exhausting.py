"""Using up a task's leases."""

from __future__ import annotations

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.faults import movable_clock
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_view import AnyTask, name_of
from pullqueue.errors import TombstonedTaskError, UnknownTaskError
from pullqueue.tasks import Task, TaskState

_LEASE_SECONDS = 60


@bypass_interceptors()
def exhaust(queue: Queue, task: AnyTask | str) -> Task:
    """Lease a task and let the lease run out, until the queue's retry limit deletes it.

    `task` may be one of App Engine's SDK. Gives the task as it was at its end. Moves the clock. As
    a worker would, it leases every task that stands before this one as well, and lets those leases
    run out, too.

    Raises:
        ValueError: the queue has no `task_retry_limit`, so that its tasks are never given up.
        UnknownTaskError: the queue has no such task.
        TombstonedTaskError: the task was deleted, or given up.
        ClockError: the clock cannot be moved.
    """
    name = name_of(task)
    limit = queue.retry_limit
    if limit.leases is None:
        raise ValueError(
            f"tasks of queue {queue.name!r} are never exhausted: give it a task_retry_limit "
            "in retry_parameters"
        )
    clock = movable_clock(queue)
    lease_seconds = max(_LEASE_SECONDS, min(limit.age_usec // USEC_PER_SECOND, 7 * 86_400))
    current: Task | None = queue.get_task(name)
    while current is not None:
        clock.move_to(max(current.eta, clock.now()))
        current = _stored(queue, name)
        while current is not None and current.state_at(clock.now_usec()) is TaskState.AVAILABLE:
            if not queue.lease(lease_seconds, 1000).tasks:
                clock.advance(1)  # where the lease rate is limited, another second admits more
            current = _stored(queue, name)
    return next(end for end in reversed(queue.exhausted) if end.name == name)


def _stored(queue: Queue, name: str) -> Task | None:
    try:
        return queue.get_task(name)
    except (UnknownTaskError, TombstonedTaskError):
        return None
