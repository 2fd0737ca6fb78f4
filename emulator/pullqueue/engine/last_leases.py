"""When the tasks that have used up their leases are to go."""

from __future__ import annotations

from collections.abc import Iterable

from pullqueue.engine.fields import Fields
from pullqueue.engine.index import OrderedIndex
from pullqueue.engine.store import RetryLimit

_End = tuple[int, int, str]
"""The moment (microseconds), the task's sequence, its name."""


class LastLeases:
    """The ends of the last permitted leases of one queue, in order."""

    def __init__(self) -> None:
        self._ends: OrderedIndex[_End] = OrderedIndex()
        self._end_of: dict[str, _End] = {}

    def limit(self, tasks: Iterable[Fields], retry_limit: RetryLimit) -> None:
        """Note when those of the tasks that were leased for the last time are to go."""
        if retry_limit.leases is None:
            return
        ends = [
            (max(eta_usec, enqueued_usec + retry_limit.age_usec), sequence, name)
            for eta_usec, sequence, name, _, _, _, retry_count, enqueued_usec, _ in tasks
            if retry_count >= retry_limit.leases
        ]
        self.lift(name for _, _, name in ends)
        self._end_of.update((end[2], end) for end in ends)
        self._ends.add(sorted(ends))

    def lift(self, names: Iterable[str]) -> None:
        """Forget tasks, whether or not they were noted."""
        if self._end_of:
            self._ends.remove(sorted(self._end_of.pop(n) for n in names if n in self._end_of))

    def clear(self) -> None:
        """Forget all tasks."""
        self._ends = OrderedIndex()
        self._end_of.clear()

    def first_usec(self) -> int | None:
        """Give the next moment at which tasks are to go, or None."""
        first = self._ends.first()
        return None if first is None else first[0]

    def names_at(self, moment_usec: int) -> list[str]:
        """Give the names of the tasks that are to go by a moment."""
        return [name for _, _, name in self._ends.due(moment_usec, len(self._ends))]
