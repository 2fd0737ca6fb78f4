"""What a task is, before it is added and after, and what the result of deleting it can be."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import NamedTuple

from pullqueue.clock import from_usec


class TaskState(Enum):
    """The state of a stored task at a given time."""

    SCHEDULED = "scheduled"
    """Never leased, and its eta is in the future."""
    AVAILABLE = "available"
    """Can be leased."""
    LEASED = "leased"
    """Leased until its eta."""


class DeleteResult(Enum):
    """The result for one name in a call of `Queue.delete_tasks`."""

    DELETED = "deleted"
    """The task existed and was deleted."""
    UNKNOWN = "unknown"
    """The queue never had a task of this name, or its tombstone has expired."""
    TOMBSTONED = "tombstoned"
    """The task was deleted, purged or exhausted before."""


class NewTask(NamedTuple):
    """A task to be added with `Queue.add_many`: `NewTask(payload=b"...", tag="red")`."""

    payload: bytes | str = b""
    """The work; text is stored as UTF-8."""
    name: str | None = None
    """Letters, digits, `_` and `-`, up to 500; generated when None."""
    tag: str | None = None
    """A group to lease by; `""` is a tag, None means untagged."""
    eta: datetime | None = None
    """The earliest time at which it can be leased, aware; None: at once."""


class Task(NamedTuple):
    """A task as it was at one time; later changes of the queue do not change it.

    A tuple that begins with (eta_usec, sequence): the order of a queue is the order of its tasks.
    """

    eta_usec: int
    """When it can be leased (next): while it is leased, the end of the lease."""
    sequence: int
    """Order of arrival in its emulator."""
    name: str
    """Unique in its queue."""
    queue_name: str
    """The queue that holds it."""
    payload: bytes
    """The work, as bytes."""
    tag: str | None
    """The group it can be leased by."""
    retry_count: int
    """How many times it has been leased; 1 during its first lease."""
    enqueued_usec: int
    """When it was added."""
    stored_bytes: int
    """What it counts against total_storage_limit: payload, name and tag in UTF-8."""

    @property
    def eta(self) -> datetime:
        """When it can be leased next, as an aware datetime (UTC)."""
        return from_usec(self.eta_usec)

    @property
    def enqueued(self) -> datetime:
        """When it was added, as an aware datetime (UTC)."""
        return from_usec(self.enqueued_usec)

    def state_at(self, now_usec: int) -> TaskState:
        """Return the state of the task at a time, if nothing changes it before."""
        if self.eta_usec <= now_usec:
            return TaskState.AVAILABLE
        return TaskState.LEASED if self.retry_count else TaskState.SCHEDULED

    def __repr__(self) -> str:
        payload = self.payload if len(self.payload) <= 40 else self.payload[:37] + b"..."
        return (
            f"Task(name={self.name!r}, queue_name={self.queue_name!r}, tag={self.tag!r}, "
            f"eta={self.eta.isoformat()}, retry_count={self.retry_count}, payload={payload!r})"
        )


def count_tasks(count: int) -> str:
    """Return a number of tasks in words: `1 task`, `2 tasks`."""
    return "1 task" if count == 1 else f"{count} tasks"


def why_in_use(*, existing: bool) -> str:
    """Return why the name of a task cannot be used: the task exists, or did until recently."""
    return "exists" if existing else "was deleted or exhausted recently"


def not_deleted(result: DeleteResult) -> str:
    """Return why a task could not be deleted."""
    if result is DeleteResult.TOMBSTONED:
        return "was deleted or exhausted before"
    return "does not exist"
