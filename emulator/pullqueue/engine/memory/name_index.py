"""The names in use in one queue: those of its tasks, and for some time those of deleted tasks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from pullqueue.tasks import Task


class NameIndex:
    """Every name in use, with its task, or with the time (microseconds) its tombstone expires."""

    def __init__(self, tombstone_usec: int) -> None:
        """Reserve the name of a deleted task for `tombstone_usec`."""
        self.tombstone_usec = tombstone_usec
        self._entries: dict[str, Task | int] = {}
        # A heap: a tombstone from a snapshot may expire later than one that is made after it.
        self._expiries: list[tuple[int, Sequence[str]]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def get(self, name: str) -> Task | int | None:
        """Return the task of a name, the expiry of its tombstone, or None if the name is free."""
        return self._entries.get(name)

    def put(self, tasks: Iterable[Task]) -> None:
        """Set the tasks of names, new tasks or changed ones."""
        self._entries.update({task.name: task for task in tasks})

    def tombstone(self, names: Sequence[str], deleted_usec: int) -> None:
        """Replace tasks that were deleted at a time by tombstones."""
        expiry = deleted_usec + self.tombstone_usec
        self._entries.update(dict.fromkeys(names, expiry))
        heapq.heappush(self._expiries, (expiry, names))

    def tombstones(self) -> dict[str, int]:
        """Return the names of deleted tasks, and when their tombstones expire."""
        return {name: entry for name, entry in self._entries.items() if isinstance(entry, int)}

    def free(self, names: Iterable[str] | None) -> None:
        """Remove the tombstones of some names before they expire; None: all tombstones."""
        for name in self.tombstones() if names is None else names:
            if isinstance(self._entries.get(name), int):
                del self._entries[name]

    def expire(self, now_usec: int) -> None:
        """Remove the tombstones that have expired."""
        while self._expiries and self._expiries[0][0] <= now_usec:
            expiry, names = heapq.heappop(self._expiries)
            for name in names:
                if self._entries.get(name) == expiry:
                    del self._entries[name]

    def restore(self, tombstones: Mapping[str, int]) -> None:
        """Add tombstones, each with its own expiry."""
        self._entries.update(tombstones)
        self._expiries = [(expiry, (name,)) for name, expiry in tombstones.items()]
        heapq.heapify(self._expiries)
