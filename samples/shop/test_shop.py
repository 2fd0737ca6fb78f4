"""The app, its handlers and its worker in one process, on a clock that the tests move."""

from __future__ import annotations

from datetime import timedelta

import invoices
import pytest
from orders import Order, orders, sold
from web import app

from pullqueue import Emulator
from pullqueue.testing import Faults, assert_added, assert_empty, drain, run_tasks

pytestmark = pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock")


@pytest.fixture(autouse=True)
def _no_orders() -> None:
    """Begin each test with an empty shop."""
    orders.clear()
    sold.clear()


def place_order(item: str) -> None:
    """Order through the web app."""
    assert app.test_client().post(f"/orders/{item}").status_code == 202


def test_an_order(pullqueue_emulator: Emulator) -> None:
    """The worker and the handlers do all that an order needs."""
    place_order("tea")
    assert_added(pullqueue_emulator.queue("mails"), url="/tasks/mail", params={"order": 1})

    drain(pullqueue_emulator, invoices.work, app=app)

    assert_empty(pullqueue_emulator)
    assert orders == {1: Order(item="tea", invoice="invoice 1: 1 tea", mails=1)}
    assert sold == {"tea": 1}


def test_a_mail_waits_for_its_invoice(pullqueue_emulator: Emulator) -> None:
    """A mail that comes too early is sent again a second later."""
    place_order("tea")
    [early] = run_tasks(pullqueue_emulator, app, queues=["mails"])
    invoices.work()

    [late] = run_tasks(pullqueue_emulator, app, queues=["mails"], until="empty")

    assert (early.status, late.status) == (503, 204)
    assert late.started - early.started == timedelta(seconds=1)


def test_an_order_that_is_never_invoiced(pullqueue_emulator: Emulator) -> None:
    """The mail is tried once and retried five times, and the customer gets nothing."""
    place_order("tea")

    attempts = run_tasks(pullqueue_emulator, app, queues=["mails"], until="empty")

    assert [attempt.outcome for attempt in attempts] == ["will retry"] * 5 + ["exhausted"]
    assert orders[1].mails == 0


def test_a_deferred_call_counts_twice(
    pullqueue_emulator: Emulator, pullqueue_faults: Faults
) -> None:
    """The call is not idempotent: where App Engine misses the response, a sale counts twice."""
    place_order("tea")
    pullqueue_faults.lose_response("attempt", times=1, queues=["default"])

    run_tasks(pullqueue_emulator, app, queues=["default"], until="empty")

    assert sold == {"tea": 2}


def test_only_app_engine_sends_mails() -> None:
    """A request from outside is refused."""
    assert app.test_client().post("/tasks/mail").status_code == 403
