"""The errors that every store raises, so that all have the same messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullqueue import errors
from pullqueue.clock import from_usec
from pullqueue.tasks import NameInUseError, Task, TombstonedTaskError, count_tasks, why_in_use
from pullqueue.text import quoted


def deleted_queue(queue_name: str) -> errors.UnknownQueueError:
    """Return the error where the queue was deleted."""
    return errors.UnknownQueueError(f'queue "{queue_name}" was deleted', queue_name=queue_name)


def unknown_task(queue_name: str, task_name: str) -> errors.UnknownTaskError:
    """Return the error for a task that the queue does not have."""
    return errors.UnknownTaskError(
        f"queue {quoted(queue_name)} has no task {quoted(task_name)}",
        queue_name=queue_name,
        task_name=task_name,
    )


def tombstoned_task(queue_name: str, task_name: str) -> TombstonedTaskError:
    """Return the error for a task that is gone; a tombstone does not record why."""
    return TombstonedTaskError(
        f"task {quoted(task_name)} of queue {quoted(queue_name)} was done, deleted or exhausted",
        queue_name=queue_name,
        task_name=task_name,
    )


def names_in_use(
    queue_name: str, added: Sequence[Task], refused: Mapping[str, type[NameInUseError]]
) -> NameInUseError:
    """Return the error for a batch of which some names were refused: that of the first one."""
    name, error = next(iter(refused.items()))
    state = why_in_use(existing=error is not TombstonedTaskError)
    return error(
        f'task "{name}" of queue "{queue_name}" {state}: choose another name, or omit it',
        queue_name=queue_name,
        task_name=name,
        added=added,
        refused=refused,
    )


def lease_lost(task: Task, now_usec: int) -> errors.TaskLeaseExpiredError:
    """Return the error for a caller that does not hold the lease it wants to change."""
    if not task.retry_count:
        reason = "it was never leased; lease it first"
    elif task.eta_usec <= now_usec:
        reason = "its lease has expired; lease it again"
    else:
        reason = (
            "its lease ends at another time than the one given; if you extended it, pass the "
            "task that was returned then, and if another worker has leased it since, leave it to "
            "that worker"
        )
    return errors.TaskLeaseExpiredError(
        f'task "{task.name}" of queue "{task.queue_name}" is not leased by the caller: {reason}',
        queue_name=task.queue_name,
        task_name=task.name,
    )


def attempt_lost(task: Task, expected_eta_usec: int) -> errors.TaskLeaseExpiredError:
    """Return the error for a caller whose attempt to send a push task is not the current one."""
    return errors.TaskLeaseExpiredError(
        f'task "{task.name}" of queue "{task.queue_name}" has the eta {task.eta.isoformat()}, not '
        f"{from_usec(expected_eta_usec).isoformat()}: it was changed since; get it again",
        queue_name=task.queue_name,
        task_name=task.name,
    )


def over_quota(tasks: int, needed_bytes: int, limit_bytes: int) -> errors.OverQuotaError:
    """Return the error for tasks that would exceed the storage limit."""
    return errors.OverQuotaError(
        f"adding {count_tasks(tasks)} would make {needed_bytes} bytes stored, over the "
        f"total_storage_limit of {limit_bytes}: delete tasks first, or raise the limit",
        limit_bytes=limit_bytes,
        needed_bytes=needed_bytes,
    )
