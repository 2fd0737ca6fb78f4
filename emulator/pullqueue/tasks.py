"""What a task is, before it is added and after, and what can become of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import repeat
from typing import NamedTuple

from pullqueue.clock import from_usec


class TaskState(Enum):
    """Where a stored task stands at a given moment."""

    SCHEDULED = "scheduled"
    """Never leased, and its eta lies ahead."""
    AVAILABLE = "available"
    """Free to be leased."""
    LEASED = "leased"
    """Held until its eta."""


class DeleteResult(Enum):
    """What became of one name in a call of `Queue.delete_tasks`."""

    DELETED = "deleted"
    """The task was there and is gone."""
    UNKNOWN = "unknown"
    """The queue never had a task of this name, or has forgotten it."""
    TOMBSTONED = "tombstoned"
    """The task was deleted, purged or exhausted before."""


class NewTask(NamedTuple):
    """A task to be added with `Queue.add_many`: `NewTask(payload=b"...", tag="red")`."""

    payload: bytes | str = b""
    """The work; text is stored as UTF-8."""
    name: str | None = None
    """Letters, digits, `_` and `-`, up to 500; made up when None."""
    tag: str | None = None
    """A group to lease by; `""` is a tag, None is none."""
    eta: datetime | None = None
    """The first moment it may be leased, aware; None: at once."""


class Task(NamedTuple):
    """A task as a queue holds it at one moment; later changes do not show in it.

    A tuple that begins with (eta_usec, sequence): the order of a queue is the order of its tasks.
    That makes it smaller and several times cheaper to make than a dataclass, in the place where an
    emulator spends its time and memory.
    """

    eta_usec: int
    """When it may be leased (next): while it is leased, the end of the lease."""
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
    """How often it has been leased; 1 during its first lease."""
    enqueued_usec: int
    """When it was added."""
    stored_bytes: int
    """What it counts against total_storage_limit: payload, name and tag in UTF-8."""

    @property
    def eta(self) -> datetime:
        """When it may be leased (next), as an aware datetime (UTC)."""
        return from_usec(self.eta_usec)

    @property
    def enqueued(self) -> datetime:
        """When it was added, as an aware datetime (UTC)."""
        return from_usec(self.enqueued_usec)

    def state_at(self, now_usec: int) -> TaskState:
        """Tell where the task stands at an instant, if nothing changes it before."""
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
    """Give a number of tasks in words: `1 task`, `2 tasks`."""
    return "1 task" if count == 1 else f"{count} tasks"


def taken_by(*, existing: bool) -> str:
    """Say of a task why its name is taken: it is there, or was until not long ago."""
    return "exists" if existing else "was deleted or given up not long ago"


def not_deleted(result: DeleteResult) -> str:
    """Say of a task why it could not be deleted."""
    if result is DeleteResult.TOMBSTONED:
        return "was deleted or given up before"
    return "is not there"


make_task = partial(tuple.__new__, Task)
"""Makes a task of a tuple of all its fields: what calling `Task` does, in half the time."""


def make_tasks(all_fields: Iterable[tuple[object, ...]]) -> list[Task]:
    """Make tasks of tuples of all their fields."""
    return list(map(tuple.__new__, repeat(Task), all_fields))
