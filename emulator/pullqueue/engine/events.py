"""What happened to tasks: a bounded record, read by tests, assertions and the console."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from pullqueue.clock import from_usec
from pullqueue.engine.fields import RETRY_COUNT, Fields, names_of

_retry_count = itemgetter(RETRY_COUNT)


class EventKind(Enum):
    """A step in a task's life."""

    ADDED = "added"
    LEASED = "leased"
    EXTENDED = "extended"
    """Its lease was given another end."""
    RELEASED = "released"
    """Its holder gave it back."""
    LEASE_EXPIRED = "lease expired"
    DELETED = "deleted"
    PURGED = "purged"
    EXHAUSTED = "exhausted"
    """Its last permitted lease ended."""


class Event(NamedTuple):
    """One step in the life of one task."""

    usec: int
    """When, in microseconds since the epoch."""
    kind: EventKind
    task_name: str
    retry_count: int
    """How often the task had been leased by then, this step included."""
    until_usec: int | None = None
    """Of a lease: when it is to end. Of a new task: its eta."""

    @property
    def moment(self) -> datetime:
        """When, as an aware datetime (UTC)."""
        return from_usec(self.usec)

    @property
    def until(self) -> datetime | None:
        """`until_usec` as an aware datetime (UTC)."""
        return None if self.until_usec is None else from_usec(self.until_usec)


class Entry(NamedTuple):
    """One operation on some tasks; names only, so that payloads are not kept alive.

    In tuples, which the garbage collector lets go of.
    """

    usec: int
    kind: EventKind
    names: tuple[str, ...]
    retry_counts: tuple[int, ...]
    until_usec: int | None


class EventLog:
    """The latest events of one queue.

    An operation is one entry however many tasks it touched, and a lease that runs out is no entry
    at all: it is told from the lease's end when the log is read.
    """

    def __init__(self, kept: int) -> None:
        """Remember the latest `kept` events, to the operation."""
        self._kept = kept
        self._entries: deque[Entry] = deque()
        self._count = 0

    def record(
        self, kind: EventKind, usec: int, tasks: Sequence[Fields], until_usec: int | None = None
    ) -> None:
        """Remember that one operation did `kind` to `tasks`."""
        names = names_of(tasks)
        counts = tuple(map(_retry_count, tasks))
        self._entries.append(Entry(usec, kind, names, counts, until_usec))
        self._count += len(names)
        while self._count > self._kept and len(self._entries) > 1:
            self._count -= len(self._entries.popleft().names)

    def read(self, now_usec: int, task_name: str | None = None) -> list[Event]:
        """Give the events until now, of all tasks or of one, oldest first."""
        return told(self._entries, now_usec, task_name)


def told(entries: Iterable[Entry], now_usec: int, task_name: str | None = None) -> list[Event]:
    """Give the events of a record until now, of all tasks or of one, oldest first."""
    events: list[Event] = []
    leases: dict[str, Event] = {}
    for event in _recorded(entries, task_name):
        lease = leases.pop(event.task_name, None)
        if lease is not None:
            events += _expiry(lease, event.usec)
        events.append(event)
        if event.kind in (EventKind.LEASED, EventKind.EXTENDED):
            leases[event.task_name] = event
    for lease in leases.values():
        events += _expiry(lease, now_usec)
    events.sort(key=lambda event: event.usec)
    return events


def _recorded(entries: Iterable[Entry], task_name: str | None) -> Iterator[Event]:
    for usec, kind, names, retry_counts, until_usec in entries:
        for name, retry_count in zip(names, retry_counts, strict=True):
            if task_name is None or name == task_name:
                yield Event(
                    usec=usec,
                    kind=kind,
                    task_name=name,
                    retry_count=retry_count,
                    until_usec=until_usec,
                )


def _expiry(lease: Event, by_usec: int) -> list[Event]:
    if lease.until_usec is None or lease.until_usec > by_usec:
        return []
    return [
        Event(
            usec=lease.until_usec,
            kind=EventKind.LEASE_EXPIRED,
            task_name=lease.task_name,
            retry_count=lease.retry_count,
        )
    ]
