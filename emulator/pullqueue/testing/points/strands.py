"""Parallel threads of one actor, whose calls come in an order that nobody decides.

Who waits for the end of another by `join`, `result` or `shutdown` is known. Other ways of waiting,
such as for an event, are not, so that these threads count as parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from pullqueue.testing.points.footprint import NOTHING, Footprint


@dataclass(eq=False, slots=True, weakref_slot=True)
class Strand:
    """What an actor does in one thread, or in one call of a pool of threads."""

    starters: frozenset[Strand] = frozenset()
    """Those that have led to it, one starting the next."""
    earlier: frozenset[Strand] = frozenset()
    """Those that somebody had waited for when it began."""
    calls: Footprint = NOTHING
    above: Footprint = NOTHING
    """What its starters have called since it began."""
    is_awaited: bool = False
    """True once somebody has waited for its end."""

    def races_with(self, other: Strand, call: Footprint) -> bool:
        """Return whether a call of this one can be made before or after those of another."""
        if other in self.starters:
            return call.conflicts_with(self.above)
        if self in other.starters:
            return not other.is_awaited and call.conflicts_with(other.calls)
        return other not in self.earlier and call.conflicts_with(other.calls)


_of_thread = threading.local()
"""`strand` is that of what a thread does now."""
_strands: WeakKeyDictionary[object, Strand] = WeakKeyDictionary()
"""Those of threads, and of calls of pools."""
_of_pools: WeakKeyDictionary[ThreadPoolExecutor, WeakSet[Strand]] = WeakKeyDictionary()
"""Those of the calls of each pool, also where nobody keeps what `submit` has returned."""


class Strands:
    """The strands of one actor."""

    def __init__(self) -> None:
        self.unordered: set[str] = set()
        """Where threads make calls whose order with those of others can matter."""
        self._first = Strand()
        self._all = [self._first]
        self._lock = threading.Lock()

    @property
    def _here(self) -> Strand:
        return current_strand() or self._first

    def begin(self) -> Strand:
        """Return a new one, which this thread starts."""
        starters = self._here.starters | {self._here}
        with self._lock:
            going_on = [each for each in self._all if not each.is_awaited]
            earlier = frozenset(self._all).difference(going_on)
            if starters.issuperset(going_on):  # the others are over for all that follow
                self._all, earlier = going_on, frozenset()
            strand = Strand(starters, earlier)
            self._all.append(strand)
        return strand

    def note(self, call: Footprint, place: str) -> None:
        """Note a call of this thread, and where, if its order with those of others can matter."""
        if len(self._all) == 1:
            return
        here = self._here
        with self._lock:
            others = [each for each in self._all if each is not here]
            if any(here.races_with(other, call) for other in others):
                self.unordered.add(place)
            here.calls |= call
            for other in others:
                if here in other.starters and not other.is_awaited:
                    other.above |= call


@contextmanager
def acting_as(strand: Strand | None) -> Iterator[None]:
    """Make the calls in the block those of a strand."""
    before, _of_thread.strand = current_strand(), strand
    try:
        yield
    finally:
        _of_thread.strand = before


def current_strand() -> Strand | None:
    """Return that of this thread; None: the first of its actor."""
    return getattr(_of_thread, "strand", None)


def name_strand(
    strand: Strand,
    thread_or_future: threading.Thread | Future[Any],
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Say which thread, or call of a pool, has to be waited for."""
    _strands[thread_or_future] = strand
    if pool is not None:
        _of_pools.setdefault(pool, WeakSet()).add(strand)


def note_end(thread_or_future: threading.Thread | Future[Any]) -> None:
    """Note that somebody has waited for the end of a thread, or of a call of a pool."""
    if (strand := _strands.get(thread_or_future)) is not None:
        strand.is_awaited = True


def note_shutdown(pool: ThreadPoolExecutor) -> None:
    """Note that somebody has waited for all calls of a pool."""
    for strand in _of_pools.pop(pool, ()):
        strand.is_awaited = True


def without_orders(places: Iterable[str]) -> str:
    """Return what a result says of threads whose order can matter; of two places where they are."""
    where = " and ".join(sorted({*places})[:2])
    return f"without other orders of the threads of one actor ({where})"
