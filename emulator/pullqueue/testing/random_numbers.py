"""Random numbers that each run of a test repeats, whoever draws them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from pullqueue.testing.patching import DRAWING, Patches
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import current_actor


class RandomNumbers:
    """What the functions of `random` return in one run.

    Each actor has its own, as instances have: they do not depend on what others have drawn before.
    """

    def __init__(self, sequence: int) -> None:
        """`sequence` selects what is drawn."""
        self.sequence = sequence
        self._states: dict[str, Any] = {}
        """By actor: where it is in its numbers."""
        self._current = ""
        random.seed(str(sequence))

    def pass_to(self, actor: str) -> None:
        """Return the numbers of an actor from now on."""
        if actor == self._current:
            return
        self._states[self._current] = random.getstate()
        if actor in self._states:
            random.setstate(self._states[actor])
        else:
            random.seed(f"{self.sequence} {actor}")
        self._current = actor


def _noting(draw: Callable[..., object]) -> Callable[..., object]:
    @wraps(draw)
    def draw_noted(*args: object, **kwargs: object) -> object:
        actor = current_actor()
        if actor is not None and is_frame_of_app(sys._getframe(1)):  # noqa: SLF001 - documented
            actor.draws = True
        return draw(*args, **kwargs)

    return draw_noted


@Patches
def following_draws(patches: Patches) -> None:
    """Notes, in a block, whose code draws random numbers; libraries do not count."""
    drawing = [vars(random)[name] for name in DRAWING if name in vars(random)]
    patches.replace({draw: _noting(draw) for draw in drawing})
