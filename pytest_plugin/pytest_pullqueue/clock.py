"""The fixture `pullqueue_clock`: one time for the process, the test and its emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from pullqueue.clock import ManualClock
from pullqueue.testing.freezing import freeze
from pullqueue.testing.moving import expire_leases, next_event
from pullqueue.testing.process_time import ProcessClock, is_frozen
from pytest_pullqueue.freezers import OwnFreezer, own_freezer
from pytest_pullqueue.settings import ConfigSource, SettingsError, settings_of
from pytest_pullqueue.stores import load_store

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.engine.queue import Queue


class FixtureClock(ProcessClock):
    """The process's time, and the moments at which the test's queues change."""

    def __init__(self, emulator: Callable[[], Emulator]) -> None:
        super().__init__()
        self._emulator = emulator

    def expire_leases(self, queue: Queue | str | None = None) -> datetime | None:
        """Move to the end of the last of the leases now held, of all queues or of one.

        Gives that moment; None, and no move, where nothing is leased.
        """
        return expire_leases(self._emulator(), queue)

    def next_event(self) -> datetime | None:
        """Move to the next end of a lease, eta or exhaustion, and give that moment.

        None, and no move, where nothing is left that time alone would change.
        """
        return next_event(self._emulator())

    def __repr__(self) -> str:
        return f"FixtureClock({self.now().isoformat()})"


@contextmanager
def clock_of_test(
    request: pytest.FixtureRequest, overridden: ConfigSource | None
) -> Iterator[FixtureClock]:
    """Freeze time for a test, unless the test does so itself, and give its clock."""
    try:
        settings = settings_of(request.node, overridden)
    except SettingsError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    start = settings.start
    load_store(settings.store)
    clock = FixtureClock(lambda: request.getfixturevalue("pullqueue_emulator"))
    own = own_freezer(request)
    if own is None and not is_frozen():
        _check_freezegun()
        with freeze(start or ManualClock.DEFAULT_START):
            yield clock
        return
    if start is not None:
        pytest.fail(
            "the start of pullqueue_clock is set, but the test freezes time itself: "
            "remove one of the two",
            pytrace=False,
        )
    if own is not None and own.start is not None and not is_frozen():
        # So that the fixtures of the test see the time that the decorator is about to set.
        with freeze(own.start):
            yield clock
        return
    yield clock


def _check_freezegun() -> None:
    if find_spec("freezegun") is None:
        message = "pullqueue_clock needs freezegun: pip install 'pullqueue[pytest]'"
        raise pytest.fail.Exception(message, pytrace=False)


__all__ = ["FixtureClock", "OwnFreezer", "clock_of_test"]
