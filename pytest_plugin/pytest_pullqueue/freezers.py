"""Finding out that a test freezes time by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

_FIXTURES = ("freezer", "time_machine")
"""Of pytest-freezer (or pytest-freezegun) and time-machine; their markers ask for them, too."""


@dataclass(frozen=True, slots=True)
class OwnFreezer:
    """What a test freezes time with."""

    start: datetime | None
    """Where a decorator of freezegun will set the time; None for every other freezer."""


def own_freezer(request: pytest.FixtureRequest) -> OwnFreezer | None:
    """Give the freezer that a test brings, if any; a fixture that freezes has done so then."""
    for name in _FIXTURES:
        if name in request.fixturenames:
            request.getfixturevalue(name)
            return OwnFreezer(None)
    for held in _held_by_decorators(getattr(request.node, "obj", None)):
        kind = type(held)
        if kind.__module__ == "freezegun.api" and kind.__name__ == "_freeze_time":
            return OwnFreezer(held.time_to_freeze.replace(tzinfo=UTC))  # type: ignore[attr-defined]
        if kind.__module__ == "time_machine" and kind.__name__ == "travel":
            return OwnFreezer(None)
    return None


def _held_by_decorators(function: object) -> Iterator[object]:
    """Give what the wrappers around a test function hold on to."""
    while function is not None:
        for cell in getattr(function, "__closure__", None) or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
        function = getattr(function, "__wrapped__", None)
