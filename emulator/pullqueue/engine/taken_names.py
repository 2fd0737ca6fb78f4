"""What the names of a queue stand for: tasks, and for a while those that are gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from pullqueue.engine.fields import NAME, Fields


class TakenNames(dict[str, Fields | int]):
    """Every name that is taken, with its task, or with the moment (microseconds) it is free again.

    One dict for both, since every name that is added or made up is looked for in all of them. And a
    class of its own: the interpreter's garbage collector lets go of a plain dict of such tuples,
    takes it up again with the next task that is added, and then goes through all of it.
    """

    def __init__(self, lifetime_usec: int) -> None:
        """Keep the name of a task that is gone taken for `lifetime_usec`."""
        super().__init__()
        self._lifetime_usec = lifetime_usec
        # A heap: what a snapshot brings back may be free later than what is deleted after it.
        self._due: list[tuple[int, tuple[str, ...]]] = []

    def put(self, tasks: Iterable[Fields]) -> None:
        """Let names stand for tasks as they are now."""
        self.update({task[NAME]: task for task in tasks})

    def task(self, name: str) -> Fields | None:
        """Give the task of a name, or None where it has none, or none any more."""
        held = self.get(name)
        return held if isinstance(held, tuple) else None

    def bury(self, names: tuple[str, ...], gone_usec: int) -> None:
        """Let names stand for tasks that are gone since a moment."""
        expiry = gone_usec + self._lifetime_usec
        self.update(dict.fromkeys(names, expiry))
        heapq.heappush(self._due, (expiry, names))

    def tombstones(self) -> dict[str, int]:
        """Give the names of tasks that are gone, and when each is free again."""
        return {name: held for name, held in self.items() if isinstance(held, int)}

    def free(self, names: Iterable[str] | None) -> None:
        """Free names of tasks that are gone before their time; all of them where None is given."""
        if names is None:
            names = [name for _, buried in self._due for name in buried]
        for name in names:
            if isinstance(self.get(name), int):
                del self[name]

    def expire(self, now_usec: int) -> None:
        """Free the names whose time has passed."""
        while self._due and self._due[0][0] <= now_usec:
            expiry, names = heapq.heappop(self._due)
            for name in names:
                if self.get(name) == expiry:
                    del self[name]

    def restore(self, expiries: Mapping[str, int]) -> None:
        """Take names of tasks that are gone, each to be free again at a moment of its own."""
        self.update(expiries)
        self._due = [(expiry, (name,)) for name, expiry in expiries.items()]
        heapq.heapify(self._due)
