"""The errors with which every store refuses, so that all say the same."""

from __future__ import annotations

from pullqueue.errors import (
    OverQuotaError,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.tasks import Task, TaskState


def unknown_task(queue_name: str, task_name: str) -> UnknownTaskError:
    """Say that a queue has no task of a name."""
    return UnknownTaskError(
        f"queue {queue_name!r} has no task {task_name!r}",
        queue_name=queue_name,
        task_name=task_name,
    )


def deleted_task(queue_name: str, task_name: str) -> TombstonedTaskError:
    """Say that the task of a name is gone: a tombstone does not tell how it went."""
    return TombstonedTaskError(
        f"task {task_name!r} of queue {queue_name!r} was deleted, or given up after its last lease",
        queue_name=queue_name,
        task_name=task_name,
    )


def not_held(task: Task, now_usec: int) -> TaskLeaseExpiredError:
    """Say why a task is not held by who wants to change its lease."""
    if task.state_at(now_usec) is TaskState.LEASED:
        state = (
            "its lease ends at another moment than the one given; if you extended it, give the "
            "task as that answer had it, and if another has leased it since, leave it to them"
        )
    else:
        expired = "its lease has expired" if task.retry_count else "it was never leased"
        state = f"{expired}; lease it again"
    return TaskLeaseExpiredError(
        f"task {task.name!r} of queue {task.queue_name!r} is not held by the caller: {state}",
        queue_name=task.queue_name,
        task_name=task.name,
    )


def over_quota(tasks: int, needed_bytes: int, limit_bytes: int) -> OverQuotaError:
    """Say that some tasks would pass the storage limit."""
    return OverQuotaError(
        f"adding {tasks} task(s) would make {needed_bytes} bytes stored, over the "
        f"total_storage_limit of {limit_bytes}: delete tasks first, or raise the limit",
        limit_bytes=limit_bytes,
        needed_bytes=needed_bytes,
    )
