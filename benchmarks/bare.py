"""The peers of the engine: nothing but the structures that hold and order tasks.

No validation, no records, no generated names, no limits, no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from pullqueue.engine.memory.index import TaskIndex
from pullqueue.tasks import Task

Given = tuple[str, bytes, str | None]
"""A task to add: its name, payload and tag."""


class BareIndexes:
    """The engine's own index of tasks and a dict by name."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.index = TaskIndex()
        self._sequence = 0

    def add(self, given: Sequence[Given], now_usec: int) -> None:
        """Make tasks and store them."""
        tasks: list[Task] = [
            Task(now_usec, sequence, name, "q", payload, tag, 0, now_usec, 0)
            for sequence, (name, payload, tag) in enumerate(given, self._sequence)
        ]
        self._sequence += len(tasks)
        self.index.add(tasks)
        self.tasks.update({task.name: task for task in tasks})

    def lease(self, now_usec: int, until_usec: int, count: int) -> list[Task]:
        """Move the first due tasks behind `until_usec`."""
        due = self.index.due(now_usec, count)
        leased: list[Task] = [
            Task(until_usec, seq, name, queue, payload, tag, retries + 1, added, size)
            for _, seq, name, queue, payload, tag, retries, added, size in due
        ]
        self.index.move(due, leased)
        self.tasks.update({task.name: task for task in leased})
        return leased

    def delete(self, names: Sequence[str]) -> None:
        """Take tasks out."""
        self.index.remove([self.tasks.pop(name) for name in names])


class HeapAndDict:
    """What one would write in an hour: a heap of (eta, sequence, name) and a dict by name."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[object]] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._sequence = 0

    def add(self, given: Sequence[Given], now_usec: int) -> None:
        """Store tasks."""
        for name, payload, tag in given:
            self._sequence += 1
            self.tasks[name] = [now_usec, payload, tag, 0]
            heappush(self._heap, (now_usec, self._sequence, name))

    def lease(self, now_usec: int, until_usec: int, count: int) -> list[str]:
        """Give the first due names and push them behind `until_usec`."""
        leased: list[str] = []
        again: list[tuple[int, int, str]] = []
        while self._heap and len(leased) < count and self._heap[0][0] <= now_usec:
            eta, sequence, name = heappop(self._heap)
            task = self.tasks.get(name)
            if task is None or task[0] != eta:
                continue
            task[0] = until_usec
            leased.append(name)
            again.append((until_usec, sequence, name))
        for entry in again:
            heappush(self._heap, entry)
        return leased

    def delete(self, names: Sequence[str]) -> None:
        """Forget tasks; their entries in the heap are passed over later."""
        for name in names:
            del self.tasks[name]
        if len(self._heap) > 64 + 3 * len(self.tasks):
            self._heap = [entry for entry in self._heap if entry[2] in self.tasks]
            heapify(self._heap)
