"""Compare the speed of two sides in one run.

The machine may be busy, and its speed may change. So both sides do the same work in turns, each
figure is a median over all rounds, and what counts is the ratio.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

Turn = Callable[[], Mapping[str, float]]
"""Does all the work of one side once, and returns what each part of it cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of a run."""

    rounds: int = 5
    """How many turns each side takes."""
    depth: int = 1_000_000
    """Number of tasks in deep queues; other queues of the suite `push` have no more, either."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A cost, next to its peer's where it has one."""

    what: str
    """The work."""
    value: float
    """The median cost."""
    unit: str
    """Unit of `value` and `peer_value`."""
    peer: str = ""
    """What it is compared with."""
    peer_value: float | None = None
    """The peer's median cost."""
    at_most: float | None = None
    """Target: the highest permitted ratio, or value where there is no peer."""
    at_least: float | None = None
    """Target: the lowest permitted ratio; the ratio is then that of speeds."""

    @property
    def ratio(self) -> float | None:
        """Cost divided by the peer's; where the target is a minimum, the peer's by ours."""
        if self.peer_value is None:
            return None
        return self.peer_value / self.value if self.at_least else self.value / self.peer_value

    @property
    def missed(self) -> bool:
        """Whether there is a target, and it is missed."""
        reached = self.value if self.ratio is None else self.ratio
        if self.at_least is not None:
            return reached < self.at_least
        return self.at_most is not None and reached > self.at_most


def compare(ours: Turn, peer: Turn, *, rounds: int) -> dict[str, tuple[float, float]]:
    """Measure two sides in turns, after one turn each that is not counted.

    Return the medians of both sides for each part of the work that both did.
    """
    sides = (ours, peer)
    costs: list[dict[str, list[float]]] = [{what: [] for what in side()} for side in sides]
    gc.collect()
    for number in range(rounds):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            for what, cost in sides[index]().items():
                costs[index][what].append(cost)
    return {what: (median(costs[0][what]), median(costs[1][what])) for what in costs[0]}


def timed(
    works: Mapping[str, tuple[int, Callable[[], object]]],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Do each work some times in a row, and return the seconds that each took once."""
    costs = {}
    for what, (times, work) in works.items():
        started = clock()
        for _ in range(times):
            work()
        costs[what] = (clock() - started) / times
    return costs
