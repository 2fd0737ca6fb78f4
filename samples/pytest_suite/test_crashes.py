"""Workers that are killed at each of their calls."""

from __future__ import annotations

import pytest
import receipts as app

from pullqueue import Emulator
from pullqueue.testing import CrashTestError, crash_test

pytestmark = [
    pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock"),
    # In a real app they are in a database, and not in memory, which ends with an instance.
    pytest.mark.filterwarnings("ignore:crash_test. the app changes .*receipts"),
]


def two_orders() -> None:
    """Add two orders; there are no receipts."""
    app.receipts.clear()
    app.take_order(1, country="CH")
    app.take_order(2, country="FR")


def check() -> None:
    """Check that each order has a receipt."""
    assert sorted(app.receipts) == [1, 2]


def test_the_careful_worker_survives(pullqueue_emulator: Emulator) -> None:
    """After each crash the next worker writes the missing receipts."""
    crash_test(pullqueue_emulator, app.careful_worker, setup=two_orders, check=check)


def test_the_hasty_worker_does_not(pullqueue_emulator: Emulator) -> None:
    """If the worker is killed after it deletes tasks, their receipts are lost."""
    with pytest.raises(CrashTestError, match="killed after call 2, delete_tasks"):
        crash_test(pullqueue_emulator, app.hasty_worker, setup=two_orders, check=check)
