"""A task as a queue in memory holds it: the fields of a `Task`, in their order, as a plain tuple.

The interpreter's garbage collector lets go of a plain tuple of numbers and text when it first sees
it, but goes through every `Task`, whose class is a subclass of tuple, again and again as long as it
lives: with a million of them that costs more than adding them. So a `Task` is made only of what is
handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

_T = TypeVar("_T", bound=Sequence[Any])

Fields = tuple[int, int, str, str, bytes, str | None, int, int, int]
"""Begins with (eta_usec, sequence), by which a queue is in order; `task[:]` makes one of a task."""

ETA_USEC: Final = 0
NAME: Final = 2
PAYLOAD: Final = 4
TAG: Final = 5
RETRY_COUNT: Final = 6
STORED_BYTES: Final = 8

_name = itemgetter(NAME)
_stored_bytes = itemgetter(STORED_BYTES)


def names_of(tasks: Iterable[Fields]) -> tuple[str, ...]:
    """Give the names of tasks, in their order."""
    return tuple(map(_name, tasks))


def weight_of(tasks: Iterable[Fields]) -> int:
    """Give what tasks count against total_storage_limit together, in bytes."""
    return sum(map(_stored_bytes, tasks))


def fitting(tasks: Iterable[_T], payload_bytes: int) -> list[_T]:
    """Give the tasks from the first to the last that still fits; one always does."""
    weight = 0
    found: list[_T] = []
    for task in tasks:
        weight += len(task[PAYLOAD])
        if weight > payload_bytes and found:
            break
        found.append(task)
    return found
