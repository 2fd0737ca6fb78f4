"""The words in which faults are set: their kinds, and what can be said of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "fail": ("call", "error"),
    "lose_answer": ("call", "error"),
    "latency": ("call", "seconds"),
    "empty_leases": (),
}
"""What can happen to a call, as `pullqueue.testing.Faults` has it, and what else is to be said."""

KINDS: Final = tuple(FIELDS)

WHEN: Final = ("queue", "times", "after", "every", "probability", "seed")
"""Which of the calls a fault of any kind strikes."""
