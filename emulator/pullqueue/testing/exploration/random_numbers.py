"""The random numbers of `race_test`: each order has the same, whoever draws before.

Each actor has its own generator, as instances have. What libraries draw for it, such as the time
until they try again, is not the app's.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import wraps

from pullqueue.testing.exploration.steps import RacingActor
from pullqueue.testing.patching import DRAWING, Patches
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import current_actor


def _own(name: str, draw: Callable[..., object]) -> Callable[..., object]:
    @wraps(draw)
    def draw_own(*args: object, **kwargs: object) -> object:
        actor, chosen = current_actor(), draw
        of_app = is_frame_of_app(sys._getframe(1))  # noqa: SLF001 - documented, of CPython
        if isinstance(actor, RacingActor) and of_app:
            chosen = getattr(actor.random, name)
        return chosen(*args, **kwargs)

    return draw_own


@Patches
def own_random_numbers(patches: Patches) -> None:
    """Have the functions of `random` draw, in a block, from the generator of who calls them."""
    patches.replace({(draw := vars(random)[name]): _own(name, draw) for name in DRAWING})
