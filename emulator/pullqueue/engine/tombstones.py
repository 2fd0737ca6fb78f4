"""Names that stay taken for a while after their task is gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence


class Tombstones(dict[str, int]):
    """The names of deleted tasks, each with the moment it is free again (microseconds).

    A dict, since every name that is added or made up is looked for here.
    """

    def __init__(self, lifetime_usec: int) -> None:
        """Keep each name taken for `lifetime_usec` after its deletion."""
        super().__init__()
        self._lifetime_usec = lifetime_usec
        # A heap: what a snapshot brings back may be free later than what is deleted after it.
        self._due: list[tuple[int, Sequence[str]]] = []

    def add(self, names: Sequence[str], deleted_usec: int) -> None:
        """Take the names of tasks that were deleted at one moment."""
        expiry = deleted_usec + self._lifetime_usec
        self.update(dict.fromkeys(names, expiry))
        heapq.heappush(self._due, (expiry, names))

    def free(self, names: Iterable[str] | None) -> None:
        """Free names before their time; all of them where None is given."""
        for name in list(self) if names is None else names:
            self.pop(name, None)

    def expire(self, now_usec: int) -> None:
        """Free the names whose time has passed."""
        while self._due and self._due[0][0] <= now_usec:
            expiry, names = heapq.heappop(self._due)
            for name in names:
                if self.get(name) == expiry:
                    del self[name]

    def restore(self, expiries: Mapping[str, int]) -> None:
        """Take names that are to be free again at moments of their own."""
        self.update(expiries)
        self._due = [(expiry, [name]) for name, expiry in expiries.items()]
        heapq.heapify(self._due)
