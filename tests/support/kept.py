"""Programs whose orders a test explores, and the states that these lead to."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import ref

from pullqueue import Emulator, ManualClock
from pullqueue.testing import RaceResult, race_test


class Kept:
    """What actors have seen in one run, and the states that all runs have led to.

    Actors are given a weak reference to it: `race_test` runs more orders where a turn changes what
    an actor refers to, and does not look into weak references.
    """

    def __init__(self) -> None:
        self.seen: dict[object, list[object]] = {}
        self.states: set[object] = set()

    def note(self, *state: object) -> None:
        """Note the state at the end of a run, which is also what actors have seen."""
        seen = tuple(sorted((str(who), tuple(what)) for who, what in self.seen.items()))
        self.states.add((*state, seen))


class Program(ABC):
    """Actors of a race, each of which is given as what it does."""

    yaml = "queue: []"
    options: ClassVar[dict[str, Any]] = {}
    """Those of `race_test`, for all programs of a class."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self.emulator = Emulator.from_text(self.yaml, clock=ManualClock())
        self.actors = actors
        self._find_kept: Any = None

    @abstractmethod
    def setup(self) -> None:
        """Begin a run."""

    @abstractmethod
    def act(self, number: int, who: str) -> None:
        """Do what an actor does, and add what it sees to `seen`, as it could act on that."""

    @abstractmethod
    def state(self) -> tuple[object, ...]:
        """Return the state at the end of a run."""

    def seen(self, who: str) -> list[object]:
        """Return what an actor has seen; it is not compared after each turn."""
        found: list[object] = self._find_kept().seen.setdefault(who, [])
        return found

    def race(self, **options: Any) -> tuple[RaceResult, set[object]]:
        """Return the result of all orders, of handlers if there is `send`, and their states."""
        kept = Kept()
        self._find_kept = ref(kept)

        def setup() -> None:
            self._find_kept().seen = {}
            self.setup()

        def check() -> None:
            self._find_kept().note(*self.state())

        def actor(number: int) -> Callable[[], None]:
            def function() -> None:
                self.act(number, str(number))

            function.__name__ = f"actor{number}"
            return function

        functions = [] if "send" in options else map(actor, range(len(self.actors)))
        options |= {"setup": setup, "check": check, "schedules": 100_000, "seconds": math.inf}
        return race_test(self.emulator, *functions, **self.options, **options), kept.states


def check_reduction(make: Callable[[], Program], **options: Any) -> None:
    """Check that the orders that are run lead to all states to which all orders lead."""
    all_orders, expected = make().race(reduce=False, **options)
    result, states = make().race(**options)
    assert all_orders.is_complete
    assert result.is_complete
    assert states == expected
    assert result <= all_orders
