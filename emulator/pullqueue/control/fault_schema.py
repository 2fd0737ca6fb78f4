"""The kinds of faults and their fields; imported by the commands, so it imports nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "fail": ("call", "error"),
    "lose_response": ("call", "error"),
    "latency": ("call", "seconds"),
    "empty_leases": (),
}
"""What can happen to a call, by the methods of `pullqueue.testing.Faults`, and its arguments."""

KINDS: Final = tuple(FIELDS)

WHEN: Final = ("queue", "times", "after", "every", "probability", "seed")
"""Fields of every kind: the calls on which the fault triggers."""
