"""The fixture `pullqueue_clock`: one time for the process, the test and its emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import pytest

from pullqueue.clock import ManualClock
from pullqueue.testing.freezing import (
    FreezerChoice,
    freeze,
    is_frozen,
    local_time_is_utc,
    real_time_for_grpc,
)
from pytest_pullqueue.reports import FROZEN

_FREEZERS = ("freezer", "time_machine")
"""Fixtures of pytest-freezer (or pytest-freezegun) and time-machine; their markers use them."""


def frozen(
    request: pytest.FixtureRequest, start: datetime | None, freezer: FreezerChoice
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
        return real_time_for_grpc()
    if "time_machine" in fixtures:
        # It does not freeze before it is moved, and could not start once freezegun has.
        # A number: for a datetime it sets TZ, and fails to delete it where an app has replaced the
        # environment, as `wrap_wsgi_app` does.
        fixtures["time_machine"].move_to(
            (start or ManualClock.DEFAULT_START).timestamp(), tick=False
        )
        return _as_ours()
    request.node.stash[FROZEN] = True
    try:
        return freeze(start or ManualClock.DEFAULT_START, freezer=freezer)
    except ImportError as error:
        raise pytest.fail.Exception(f"pullqueue_clock: {error}", pytrace=False) from None


@contextmanager
def _as_ours() -> Iterator[None]:
    """Complete what time-machine's fixture has frozen."""
    with local_time_is_utc(), real_time_for_grpc():
        yield
