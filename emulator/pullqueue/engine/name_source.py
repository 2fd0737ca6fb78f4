"""Names for tasks that were added without one."""

from __future__ import annotations

import random
from collections.abc import Callable

NameSource = Callable[[], str]
"""Returns another name at each call. A name that is in use is skipped."""


def random_names(seed: int | None = None) -> NameSource:
    """Return a source of names like production's: 16 lower-case hex digits.

    With a `seed` the names are the same at each run.
    """
    bits = random.Random(seed).getrandbits  # noqa: S311 - names are not secret
    return lambda: f"{bits(64):016x}"
