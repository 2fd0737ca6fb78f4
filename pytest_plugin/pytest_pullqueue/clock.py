"""The fixture `pullqueue_clock`: one time for the process, the test and its emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from importlib.util import find_spec

import pytest

from pullqueue.clock import ManualClock
from pullqueue.testing.freezing import freeze, is_frozen

_FREEZERS = ("freezer", "time_machine")
"""Fixtures of pytest-freezer (or pytest-freezegun) and time-machine; their markers use them."""


def frozen(request: pytest.FixtureRequest, start: datetime | None) -> AbstractContextManager[None]:
    """Freeze time for a test at `start`, unless the test freezes it itself."""
    fixtures = {
        name: request.getfixturevalue(name) for name in _FREEZERS if name in request.fixturenames
    }
    kind, decorated_start = _decorator(request.node)
    if start is not None and (is_frozen() or kind is not None):
        pytest.fail(
            "the start of pullqueue_clock is set, but the test freezes time itself: remove one of "
            "the two, or mark the test with @pytest.mark.pullqueue(start=None)",
            pytrace=False,
        )
    if is_frozen() or kind == "time_machine":
        return nullcontext()
    if decorated_start is not None:
        # So that the fixtures of the test see the time that the decorator is about to set.
        return freeze(decorated_start)
    if "time_machine" in fixtures:
        # It does not freeze before it is moved, and could not start once freezegun has.
        fixtures["time_machine"].move_to(start or ManualClock.DEFAULT_START, tick=False)
        return nullcontext()
    if find_spec("freezegun") is None:
        pytest.fail("pullqueue_clock needs freezegun: pip install freezegun", pytrace=False)
    return freeze(start or ManualClock.DEFAULT_START)


def _decorator(item: pytest.Item) -> tuple[str | None, datetime | None]:
    """Return which library decorates a test, and the time that a decorator of freezegun will set.

    A decorator freezes time when the test is called, which is after its fixtures were set up.
    Neither library marks what it decorates, so its object is looked for in the wrappers' closures.
    """
    for value in _closure_values(getattr(item, "obj", None)):
        kind = type(value)
        if kind.__module__ == "freezegun.api" and hasattr(value, "time_to_freeze"):
            return "freezegun", value.time_to_freeze.replace(tzinfo=UTC)
        if kind.__module__ == "time_machine":
            return "time_machine", None
    return None, None


def _closure_values(function: object) -> Iterator[object]:
    while function is not None:
        for cell in getattr(function, "__closure__", None) or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
        function = getattr(function, "__wrapped__", None)
