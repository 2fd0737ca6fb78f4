"""What all benchmarks share: a figure, and ways to take one fairly on a busy machine.

A figure is a median over rounds. What is compared is measured in turns within each round, so that a
slow moment of the machine hits both sides; what counts is the ratio.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a run was asked for."""

    depths: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    """How many tasks the queue holds."""
    rounds: int = 5
    """How often each thing is measured."""
    seconds: float = 1.0
    """How long one round of a rate is measured, at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One measured number, beside its peer's where it has one."""

    suite: str
    """Which benchmark took it."""
    what: str
    """What was done."""
    value: float
    """The median."""
    unit: str
    """Of `value`, such as `us/task`."""
    depth: int | None = None
    """How many tasks the queue held."""
    peer: str | None = None
    """What it is compared with."""
    peer_value: float | None = None
    """The peer's median, in the same unit."""
    limit: float | None = None
    """What `ratio`, or `value` where there is no peer, is to stay under."""

    @property
    def ratio(self) -> float | None:
        """How often the peer's value fits into ours: less is better."""
        return self.value / self.peer_value if self.peer_value else None

    @property
    def met(self) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.limit is None:
            return None
        return (self.value if self.ratio is None else self.ratio) <= self.limit


def seconds_of(work: Callable[[], object]) -> float:
    """Give how long a piece of work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def medians(
    sides: Mapping[str, Callable[[], float]], *, rounds: int, collect: bool = True
) -> dict[str, float]:
    """Measure each side once in every round, in turns, and give the median of each.

    A side is a function that gives one measured number. Rubbish is collected before each, so that
    none pays for another's.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        for name in order:
            if collect:
                gc.collect()
            taken[name].append(sides[name]())
    return {name: statistics.median(values) for name, values in taken.items()}
