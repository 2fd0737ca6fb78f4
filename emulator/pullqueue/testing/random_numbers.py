"""Random numbers that each run of a test repeats, whoever draws them."""

from __future__ import annotations

import random


class RandomNumbers:
    """What the functions of `random` return in one run.

    Each actor has its own, as instances have: they do not depend on what others have drawn before.
    """

    def __init__(self, sequence: int) -> None:
        """`sequence` selects what is drawn."""
        self.sequence = sequence
        self._states: dict[str, object] = {}
        """By actor: where it is in its numbers."""
        self._current = ""
        self._are_drawn = False
        random.seed(str(sequence))

    def pass_to(self, actor: str) -> None:
        """Return the numbers of an actor from now on."""
        if actor == self._current:
            return
        self._keep()
        if actor in self._states:
            random.setstate(self._states[actor])  # type: ignore[arg-type] # opaque
        else:
            random.seed(f"{self.sequence} {actor}")
            self._states[actor] = random.getstate()
        self._current = actor

    def are_drawn(self) -> bool:
        """Return whether an actor has drawn any."""
        self._keep()
        return self._are_drawn

    def _keep(self) -> None:
        if self._current:
            state = random.getstate()
            self._are_drawn |= state != self._states[self._current]
            self._states[self._current] = state
