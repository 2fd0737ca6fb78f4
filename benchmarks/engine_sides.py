"""What the engine's benchmark drives: a queue, and the bare structures, in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from benchmarks.bare import BareIndexes, Given, HeapAndDict
from pullqueue import Emulator, NewTask
from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings

BATCH = 100
TAGS = [f"tag{number:02d}" for number in range(100)]
PAYLOAD = b"x" * 100
LEASE_SECONDS = 3600
CONFIG = QueueConfig(queues=(QueueSettings(name="q", mode=QueueMode.PULL),))


class Side(Protocol):
    """Something that holds tasks."""

    def prepared(self, start: int, end: int) -> list[Callable[[], object]]:
        """Give calls that add the tasks of these numbers, a batch each."""

    def lease(self, count: int) -> Sequence[object]:
        """Lease tasks and keep their names."""

    def delete(self) -> None:
        """Delete what was leased last."""


class SteppingClock(Clock):
    """A number, as the bare structures have it, so that its own cost is on neither side."""

    def __init__(self) -> None:
        self.usec = 0

    def now_usec(self) -> int:
        """Give the number."""
        return self.usec


class EngineSide:
    """A queue as its users drive it."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.queue = Emulator(CONFIG, clock=self.clock).queue("q")
        self._held: list[list[str]] = []

    def prepared(self, start: int, end: int) -> list[Callable[[], object]]:
        """Give calls that add batches, each a moment after the one before."""
        batches = [new_tasks(first, min(first + BATCH, end)) for first in range(start, end, BATCH)]
        return [lambda batch=batch: self._add(batch) for batch in batches]  # type: ignore[misc]

    def _add(self, batch: list[NewTask]) -> None:
        self.clock.usec += 1000
        self.queue.add_many(batch)

    def lease(self, count: int) -> Sequence[object]:
        """Lease tasks and keep their names."""
        self._held.append([task.name for task in self.queue.lease_tasks(LEASE_SECONDS, count)])
        return self._held[-1]

    def delete(self) -> None:
        """Delete what was leased last."""
        self.queue.delete_tasks(self._held.pop())


class BareSide:
    """The same with one of the bare structures."""

    def __init__(self, structure: BareIndexes | HeapAndDict) -> None:
        self._structure = structure
        self._now_usec = 0
        self._held: list[list[str]] = []

    def prepared(self, start: int, end: int) -> list[Callable[[], object]]:
        """Give calls that add batches, each a moment after the one before."""
        batches = [given(first, min(first + BATCH, end)) for first in range(start, end, BATCH)]
        return [lambda batch=batch: self._add(batch) for batch in batches]  # type: ignore[misc]

    def _add(self, batch: list[Given]) -> None:
        self._now_usec += 1000
        self._structure.add(batch, self._now_usec)

    def lease(self, count: int) -> Sequence[object]:
        """Lease tasks and keep their names."""
        until_usec = self._now_usec + LEASE_SECONDS * USEC_PER_SECOND
        leased = self._structure.lease(self._now_usec, until_usec, count)
        self._held.append([task if isinstance(task, str) else task.name for task in leased])
        return self._held[-1]

    def delete(self) -> None:
        """Delete what was leased last."""
        self._structure.delete(self._held.pop())


def new_tasks(start: int, end: int) -> list[NewTask]:
    """Give tasks to add, with names and tags."""
    return [NewTask(payload, name, tag) for name, payload, tag in given(start, end)]


def given(start: int, end: int) -> list[Given]:
    """Give the same in the bare structures' form."""
    return [(f"n{number:08d}", PAYLOAD, TAGS[number % len(TAGS)]) for number in range(start, end)]


def fill(side: Side, depth: int) -> None:
    """Bring a side to a depth, a tenth of it leased."""
    for add in side.prepared(0, depth // 10):
        add()
    while side.lease(1000):
        pass
    for add in side.prepared(depth // 10, depth):
        add()
