"""The record of events of one queue in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pullqueue.engine.events import Event, EventKind, Operation, events_of
from pullqueue.tasks import Task


class EventLog:
    """The latest events of one queue; each operation is one entry."""

    def __init__(self, kept: int) -> None:
        """Keep the latest `kept` events; the latest operation is always kept whole."""
        self._kept = kept
        self._operations: deque[Operation] = deque()
        self._count = 0

    def record(
        self, kind: EventKind, usec: int, tasks: Sequence[Task], until_usec: int | None = None
    ) -> None:
        """Record that one operation did `kind` to `tasks`."""
        # Names only, so that payloads are not kept alive.
        names = tuple(task.name for task in tasks)
        retry_counts = tuple(task.retry_count for task in tasks)
        self._operations.append(Operation(usec, kind, names, retry_counts, until_usec))
        self._count += len(names)
        while self._count > self._kept and len(self._operations) > 1:
            self._count -= len(self._operations.popleft().names)

    def read(self, now_usec: int, task_name: str | None = None) -> list[Event]:
        """Return the events until now, of all tasks or of one, oldest first."""
        return events_of(self._operations, now_usec, task_name)
