"""What a test keeps of its races."""

from __future__ import annotations


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
