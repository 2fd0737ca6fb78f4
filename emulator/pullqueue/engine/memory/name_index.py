"""The names in use in one queue: those of its tasks, and for some time those of deleted tasks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from pullqueue.tasks import Task

_GENERATED_KEPT = 10_000
"""How many generated names of deleted tasks are known. Nobody adds them again, so that they are not
reserved for the time that a client can choose a name again.
"""
_Tombstones: TypeAlias = list[tuple[int, tuple[str, ...]]]
"""A heap of names, by the time (microseconds) at which their tombstones expire: one from a snapshot
may expire later than one that is made after it.
"""


class NameIndex:
    """Every name in use, with its task, or with the time (microseconds) its tombstone expires."""

    def __init__(self, tombstone_usec: int) -> None:
        """Reserve the name of a deleted task for `tombstone_usec`."""
        self.tombstone_usec = tombstone_usec
        self._entries: dict[str, Task | int] = {}
        self._given: set[str] = set()
        """The names in use that were not generated."""
        self._given_expiries: _Tombstones = []
        self._generated_expiries: _Tombstones = []
        self._generated = 0
        """How many names the latter has."""

    def get(self, name: str) -> Task | int | None:
        """Return the task of a name, the expiry of its tombstone, or None if the name is free."""
        return self._entries.get(name)

    def put(self, tasks: Iterable[Task], given: Iterable[str] = ()) -> None:
        """Set the tasks of names, new tasks or changed ones; `given` are those not generated."""
        self._entries.update({task.name: task for task in tasks})
        self._given.update(given)

    def tombstone(self, names: Sequence[str], deleted_usec: int) -> None:
        """Replace tasks that were deleted at a time by tombstones."""
        expiry = deleted_usec + self.tombstone_usec
        self._entries.update(dict.fromkeys(names, expiry))
        given = tuple(name for name in names if name in self._given)
        if given:
            heapq.heappush(self._given_expiries, (expiry, given))
            names = [name for name in names if name not in self._given]
        if names:
            heapq.heappush(self._generated_expiries, (expiry, tuple(names)))
            self._generated += len(names)
            while self._generated > _GENERATED_KEPT:
                self._remove_first(self._generated_expiries)

    def tombstones(self) -> dict[str, int]:
        """Return the names of deleted tasks, and when their tombstones expire."""
        return {name: entry for name, entry in self._entries.items() if isinstance(entry, int)}

    def free(self, names: Iterable[str] | None) -> None:
        """Remove the tombstones of some names before they expire; None: all tombstones."""
        for name in self.tombstones() if names is None else names:
            if isinstance(self._entries.get(name), int):
                del self._entries[name]
                self._given.discard(name)

    def expire(self, now_usec: int) -> None:
        """Remove the tombstones that have expired."""
        for expiries in (self._given_expiries, self._generated_expiries):
            while expiries and expiries[0][0] <= now_usec:
                self._remove_first(expiries)

    def _remove_first(self, expiries: _Tombstones) -> None:
        expiry, names = heapq.heappop(expiries)
        if expiries is self._generated_expiries:
            self._generated -= len(names)
        for name in names:
            if self._entries.get(name) == expiry:
                del self._entries[name]
                self._given.discard(name)

    def restore(self, tombstones: Mapping[str, int]) -> None:
        """Add tombstones, each with its own expiry."""
        self._entries.update(tombstones)
        self._given.update(tombstones)
        self._given_expiries = [(expiry, (name,)) for name, expiry in tombstones.items()]
        heapq.heapify(self._given_expiries)
