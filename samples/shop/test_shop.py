"""The app, its handlers and its worker in one process, on a clock that the tests move."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import invoices
import pytest
from google.appengine.ext import testbed
from orders import Order, Sales
from web import app

from pullqueue import Emulator
from pullqueue.testing import Faults, assert_added, assert_empty, drain, run_tasks

pytestmark = pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock")


@pytest.fixture(autouse=True)
def _datastore() -> Iterator[None]:
    """Begin each test with an empty shop."""
    bed = testbed.Testbed()
    bed.activate()
    bed.init_datastore_v3_stub()
    bed.init_memcache_stub()
    yield
    bed.deactivate()


def place_order(item: str) -> None:
    """Order through the web app."""
    assert app.test_client().post(f"/orders/{item}").status_code == 202


def test_an_order(pullqueue_emulator: Emulator) -> None:
    """The worker and the handlers do all that an order needs."""
    place_order("tea")
    order = Order.query().get()
    assert_added(
        pullqueue_emulator.queue("mails"), url="/tasks/mail", params={"order": order.key.id()}
    )

    drain(pullqueue_emulator, invoices.work, app=app)

    assert_empty(pullqueue_emulator)
    order = order.key.get(use_cache=False)
    assert (order.item, order.invoice, order.mails) == ("tea", "invoice: 1 tea", 1)
    assert Sales.get_by_id("tea").count == 1


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
    assert Order.query().get().mails == 0


def test_a_deferred_call_counts_twice(
    pullqueue_emulator: Emulator, pullqueue_faults: Faults
) -> None:
    """The call is not idempotent: where App Engine misses the response, a sale counts twice."""
    place_order("tea")
    pullqueue_faults.lose_response("attempt", times=1, queues=["default"])

    run_tasks(pullqueue_emulator, app, queues=["default"], until="empty")

    assert Sales.get_by_id("tea").count == 2


def test_an_order_that_is_not_stored_has_no_tasks(
    pullqueue_emulator: Emulator, pullqueue_faults: Faults
) -> None:
    """Order and tasks are one transaction: where the last task fails, nothing is left."""
    pullqueue_faults.fail("add", queues=["invoices"])

    assert app.test_client().post("/orders/tea").status_code == 500

    assert Order.query().count() == 0
    assert_empty(pullqueue_emulator)


def test_only_app_engine_sends_mails() -> None:
    """A request from outside is refused."""
    assert app.test_client().post("/tasks/mail").status_code == 403
