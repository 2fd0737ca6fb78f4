"""The fixture `pullqueue_clock`: one time for the process, the test and its emulator."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from importlib.util import find_spec

import pytest

from pullqueue.clock import ManualClock
from pullqueue.testing.freezing import Freezer, freeze, is_frozen

_FREEZERS = ("freezer", "time_machine")
"""Fixtures of pytest-freezer (or pytest-freezegun) and time-machine; their markers use them."""


def frozen(
    request: pytest.FixtureRequest, start: datetime | None, freezer: Freezer
) -> AbstractContextManager[None]:
    """Freeze time for a test at `start`, unless its fixtures or markers have frozen it.

    A decorator freezes time later, when the test is called: freezegun's is then in charge.
    """
    fixtures = {
        name: request.getfixturevalue(name) for name in _FREEZERS if name in request.fixturenames
    }
    if start is not None and is_frozen():
        pytest.fail(
            "the start of pullqueue_clock is set, but the test freezes time itself: remove one of "
            "the two, or mark the test with @pytest.mark.pullqueue(start=None)",
            pytrace=False,
        )
    if is_frozen():
        return nullcontext()
    if "time_machine" in fixtures:
        # It does not freeze before it is moved, and could not start once freezegun has.
        fixtures["time_machine"].move_to(start or ManualClock.DEFAULT_START, tick=False)
        return nullcontext()
    if find_spec(freezer.replace("-", "_")) is None:
        pytest.fail(f"pullqueue_clock needs {freezer}: pip install {freezer}", pytrace=False)
    return freeze(start or ManualClock.DEFAULT_START, freezer=freezer)
