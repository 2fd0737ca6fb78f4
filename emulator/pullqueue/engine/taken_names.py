"""What the names of a queue stand for: tasks, and for a while those that are gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from pullqueue.engine.fields import NAME, Fields
from pullqueue.limits import MIB

_MOST_RECENT = 2_000
"""Two leases of as many tasks as one can have."""
_MOST_GONE_BYTES = MIB
"""How much the tasks may weigh that are gone and still held beside their tombstones."""


class _Names(dict[str, Fields | int]):
    """Names with what they stand for.

    A class of its own: the interpreter's garbage collector lets go of a plain dict of such tuples,
    takes it up again with the next task that is added, and then goes through all of it.
    """


class TakenNames:
    """Every name that is taken, with its task, or with the moment (microseconds) it is free again.

    Tasks and moments are together, since every name that is added or made up is looked for among
    both. What has changed of late is kept apart: a worker most often deletes what it has just
    leased, and by then the place of a name in a dict of a million is out of the processor's cache.
    """

    def __init__(self, lifetime_usec: int) -> None:
        """Keep the name of a task that is gone taken for `lifetime_usec`."""
        self._lifetime_usec = lifetime_usec
        self._settled = _Names()
        self._recent: dict[str, Fields | int] = {}
        self._gone_bytes = 0
        # A heap: what a snapshot brings back may be free later than what is deleted after it.
        self._due: list[tuple[int, tuple[str, ...]]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    def held(self, names: Sequence[str]) -> dict[str, Fields | int | None]:
        """Give names with their tasks, or the moments they are free again, or None if they are."""
        found = dict(zip(names, map(self._recent.get, names), strict=True))
        if None in found.values():
            return dict(zip(names, map(self._all().get, names), strict=True))
        return found

    def taken(self, names: Sequence[str | None]) -> dict[str, Fields | int]:
        """Give those of some names that are taken, with what they stand for."""
        known = self._all()
        if known.keys().isdisjoint(names):
            return {}
        return {name: known[name] for name in names if name is not None and name in known}

    def put(self, tasks: Iterable[Fields]) -> None:
        """Let names stand for new tasks."""
        self._all().update({task[NAME]: task for task in tasks})

    def replace(self, tasks: Iterable[Fields]) -> None:
        """Let names stand for their tasks as they are now."""
        self._change({task[NAME]: task for task in tasks})

    def bury(self, names: tuple[str, ...], gone_usec: int, weight: int) -> None:
        """Let names stand for tasks that are gone since a moment and weighed so many bytes."""
        expiry = gone_usec + self._lifetime_usec
        self._gone_bytes += weight
        self._change(dict.fromkeys(names, expiry))
        heapq.heappush(self._due, (expiry, names))

    def tombstones(self) -> dict[str, int]:
        """Give the names of tasks that are gone, and when each is free again."""
        return {name: held for name, held in self._all().items() if isinstance(held, int)}

    def free(self, names: Iterable[str] | None) -> None:
        """Free names of tasks that are gone before their time; all of them where None is given."""
        known = self._all()
        if names is None:
            names = [name for _, buried in self._due for name in buried]
        for name in names:
            if isinstance(known.get(name), int):
                del known[name]

    def expire(self, now_usec: int) -> None:
        """Free the names whose time has passed."""
        while self._due and self._due[0][0] <= now_usec:
            expiry, names = heapq.heappop(self._due)
            known = self._all()
            for name in names:
                if known.get(name) == expiry:
                    del known[name]

    def restore(self, expiries: Mapping[str, int]) -> None:
        """Take names of tasks that are gone, each to be free again at a moment of its own."""
        self._all().update(expiries)
        self._due = [(expiry, (name,)) for name, expiry in expiries.items()]
        heapq.heapify(self._due)

    def _change(self, held: Mapping[str, Fields | int]) -> None:
        self._recent.update(held)
        if len(self._recent) > _MOST_RECENT or self._gone_bytes > _MOST_GONE_BYTES:
            self._all()

    def _all(self) -> _Names:
        """Give all names in one dict, what has changed of late included."""
        if self._recent:
            self._settled.update(self._recent)
            self._recent = {}
            self._gone_bytes = 0
        return self._settled
