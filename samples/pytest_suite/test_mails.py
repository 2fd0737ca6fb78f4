"""Push tasks: run by the app, with the retries of App Engine."""

from __future__ import annotations

from datetime import timedelta

import mails
import pytest
import receipts

from pullqueue import Emulator
from pullqueue.testing import Faults, assert_added, assert_empty, drain, run_tasks

pytestmark = pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock")


@pytest.fixture
def emulator(pullqueue_emulator: Emulator) -> Emulator:
    """Return the emulator; no receipt is written, and no mail sent."""
    receipts.receipts.clear()
    mails.sent.clear()
    return pullqueue_emulator


def test_a_mail_waits_for_its_receipt(emulator: Emulator) -> None:
    """The first attempt comes too early, the second finds the receipt."""
    mails.mail_receipt(7)
    assert_added(emulator.queue("mails"), url="/tasks/mail", params={"order": 7})
    [early] = run_tasks(emulator, mails.app)
    receipts.receipts[7] = "order 7"

    [late] = run_tasks(emulator, mails.app, until="empty")

    assert (early.status, late.status) == (503, 204)
    assert late.started - early.started == timedelta(seconds=30)
    assert list(mails.sent.values()) == ["order 7"]


def test_a_lost_response(emulator: Emulator, pullqueue_faults: Faults) -> None:
    """The handler runs twice, and mails once."""
    receipts.receipts[7] = "order 7"
    mails.mail_receipt(7)
    pullqueue_faults.lose_response("attempt", times=1)

    attempts = run_tasks(emulator, mails.app, until="empty")

    assert [attempt.status for attempt in attempts] == [None, 204]
    assert list(mails.sent.values()) == ["order 7"]


def test_workers_and_handlers(emulator: Emulator) -> None:
    """Orders become receipts by a worker, and mails by the app, until all queues are empty."""
    for number in (1, 2, 3):
        receipts.take_order(number, country="CH")
        mails.mail_receipt(number)

    drain(emulator, receipts.careful_worker, app=mails.app)

    assert sorted(mails.sent.values()) == ["order 1 to CH", "order 2 to CH", "order 3 to CH"]
    assert_empty(emulator)
