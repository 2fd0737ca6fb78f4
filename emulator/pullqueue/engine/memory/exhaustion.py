"""When tasks that have used up their leases, or are too old, are deleted; what is kept of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator

from pullqueue.engine.memory.index import OrderedIndex
from pullqueue.engine.retention import Retention
from pullqueue.limits import Limits
from pullqueue.tasks import Task

_End = tuple[int, int, str]
"""The time (microseconds), the task's sequence, its name."""


class ExhaustionSchedule:
    """The ends of the last permitted leases, and of tasks' lifetimes, of one queue, in order."""

    def __init__(self) -> None:
        self._ends: OrderedIndex[_End] = OrderedIndex()
        self._end_of: dict[str, _End] = {}

    def schedule(self, tasks: Iterable[Task], retention: Retention) -> None:
        """Schedule the exhaustion of those tasks that end if they are not leased again."""
        if retention.leases is None and retention.lifetime_usec is None:
            return
        ends = [
            (end_usec, task.sequence, task.name)
            for task in tasks
            if (end_usec := retention.end_usec(task)) is not None
        ]
        self.cancel(name for _, _, name in ends)
        self._end_of.update((end[2], end) for end in ends)
        self._ends.add(sorted(ends))

    def cancel(self, names: Iterable[str]) -> None:
        """Cancel the exhaustion of tasks, whether or not it was scheduled."""
        if self._end_of:
            self._ends.remove(sorted(self._end_of.pop(n) for n in names if n in self._end_of))

    def next_usec(self) -> int | None:
        """Return the next time at which tasks are exhausted, or None."""
        first = self._ends.first()
        return None if first is None else first[0]

    def due(self, now_usec: int) -> list[str]:
        """Return the names of the tasks that are exhausted by now."""
        return [name for _, _, name in self._ends.due(now_usec, len(self._ends))]


class ExhaustedTasks:
    """The tasks that were exhausted last, bounded in number and in bytes of payload."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tasks: deque[Task] = deque()
        self._payload_bytes = 0

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def extend(self, tasks: Iterable[Task]) -> None:
        """Add tasks, and drop the oldest ones that are too many or too large."""
        for task in tasks:
            self._tasks.append(task)
            self._payload_bytes += len(task.payload)
        while (
            len(self._tasks) > self._limits.exhausted_kept
            or self._payload_bytes > self._limits.exhausted_payload_bytes
        ):
            self._payload_bytes -= len(self._tasks.popleft().payload)

    def remove(self, names: Collection[str]) -> int:
        """Remove tasks by name; return how many there were."""
        before = self._tasks
        self._tasks = deque(task for task in before if task.name not in names)
        self._payload_bytes = sum(len(task.payload) for task in self._tasks)
        return len(before) - len(self._tasks)

    def drop_payloads(self) -> None:
        """Keep the tasks without their payloads."""
        self._tasks = deque(task._replace(payload=b"") for task in self._tasks)
        self._payload_bytes = 0
