"""What actors of a `race_test` are known to read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from pullqueue.testing.exploration.steps import TIME_KEY, Choice, Pending
from pullqueue.testing.points.footprint import EVERYTHING, NOTHING, READ, TIME_MOVES, Footprint

_K = TypeVar("_K")


class Knowledge:
    """What is known from the schedules until now."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with what is known."""
        self._footprints: dict[str, Footprint] = {TIME_KEY: TIME_MOVES}
        """By the key of an actor: all that it has done."""
        self._effects: dict[tuple[str, object], Footprint] = {}
        """By key and place: what follows a call there, beside the call itself."""

    def learn(self, choices: Iterable[Choice]) -> None:
        """Learn from a run."""
        for choice in choices:
            key = choice.options[choice.chosen]
            self._add(self._footprints, key, choice.footprint)
            if choice.effects is not NOTHING:
                self._add(self._effects, choice.turn, choice.effects)

    def _add(self, known: dict[_K, Footprint], key: _K, footprint: Footprint) -> None:
        before = known.get(key, NOTHING)
        after = before | footprint
        if after != before:
            known[key] = after
            self.version += 1

    def of(self, keys: Iterable[str]) -> Iterator[Footprint]:
        """Yield what some actors do."""
        return (self._footprints.get(key, NOTHING) for key in keys)

    def absent(self, keys: frozenset[str]) -> Iterator[str]:
        """Yield the keys of tasks that there are in other schedules."""
        return (key for key in self._footprints if key not in keys and key != TIME_KEY)

    def of_call(self, pending: Pending | None) -> Footprint:
        """Return what a call can read and write, with what follows it."""
        if pending is None:
            return EVERYTHING
        return READ | pending.footprint | self._effects.get((pending.key, pending.place), NOTHING)
