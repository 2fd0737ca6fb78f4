"""The app on App Engine's SDK: time is moved, the queue is looked into, calls fail."""

from __future__ import annotations

from datetime import timedelta

import pytest
import receipts as app
from google.appengine.api import taskqueue

from pullqueue import Emulator, Queue, TransientError
from pullqueue.sdk.stub import PullQueueStub
from pullqueue.testing import (
    Faults,
    assert_added,
    assert_available,
    assert_empty,
    assert_exhausted,
    assert_leased,
    drain,
    exhaust,
    json_payload,
)
from pytest_pullqueue import FixtureClock

pytestmark = pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock")


@pytest.fixture
def queue(pullqueue_emulator: Emulator) -> Queue:
    """The app's queue as the emulator sees it, with what no client can see."""
    app.receipts.clear()
    return pullqueue_emulator.queue(app.QUEUE)


def test_an_order_adds_a_task(queue: Queue) -> None:
    """The tasks that the app adds are found by payload and tag."""
    app.take_order(7, country="CH")

    assert_added(queue, tag="CH", count=1)
    assert_added(queue, payload=json_payload({"order": 7}, partial=True))


def test_a_lease_runs_out(queue: Queue, pullqueue_clock: FixtureClock) -> None:
    """A task that its worker never finished is there again after a minute; nobody waits for it."""
    app.take_order(7, country="CH")
    [task] = taskqueue.Queue(app.QUEUE).lease_tasks(60, 10)
    assert_leased(queue, 1)

    pullqueue_clock.advance(59)
    assert_leased(queue, 1)
    pullqueue_clock.advance(timedelta(seconds=1))

    assert_available(queue, 1)
    [again] = taskqueue.Queue(app.QUEUE).lease_tasks(60, 10)
    assert (again.name, again.retry_count) == (task.name, 2)


def test_leases_run_out_whatever_their_length(queue: Queue, pullqueue_clock: FixtureClock) -> None:
    """The clock goes to the end of the leases, or to whatever happens next."""
    app.take_order(7, country="CH")
    taskqueue.Queue(app.QUEUE).lease_tasks(3600, 10)

    pullqueue_clock.expire_leases()

    assert_available(queue, 1)
    assert pullqueue_clock.next_event() is None


def test_a_task_is_given_up(queue: Queue) -> None:
    """After three leases a task is gone, and the test sees where it went."""
    app.take_order(7, country="CH")
    [task] = queue.list_tasks()

    exhaust(queue, task)

    assert_exhausted(queue, task)
    assert_empty(queue)
    assert [event.kind.value for event in queue.history(task)].count("lease expired") == 3


def test_the_endless_worker(queue: Queue, pullqueue_emulator: Emulator) -> None:
    """`while True` is left when there is nothing more to do; its sleeps move the clock."""
    for number in range(5):
        app.take_order(number, country="CH")

    drain(pullqueue_emulator, app.run_for_ever)

    assert_empty(queue)
    assert sorted(app.receipts) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("queue")
def test_the_service_is_down(pullqueue_emulator: Emulator, pullqueue_faults: Faults) -> None:
    """The worker tries again as long as it must."""
    app.take_order(7, country="CH")
    fault = pullqueue_faults.fail("lease_tasks", TransientError, times=3)

    drain(pullqueue_emulator, app.run_for_ever)

    assert fault.hits == 3
    assert list(app.receipts) == [7]


def test_a_task_is_delivered_twice(queue: Queue, pullqueue_faults: Faults) -> None:
    """A worker that is so slow that another gets its task does no harm."""
    app.take_order(7, country="CH")
    pullqueue_faults.lapse_leases(rival=app.careful_worker)

    app.careful_worker()

    assert app.receipts == {7: "order 7 to CH"}
    assert_empty(queue)


def test_suites_that_look_into_the_stub(pullqueue_sdk: PullQueueStub) -> None:
    """What suites know of Google's stub is there as well."""
    app.take_order(7, country="CH")

    assert len(pullqueue_sdk.get_filtered_tasks(queue_names=[app.QUEUE])) == 1


@pytest.mark.pullqueue(queues=["receipts"], lease_rate_limit=True)
def test_a_queue_of_its_own(queue: Queue) -> None:
    """A marker gives one test other queues, without a file, and production's lease rate."""
    leases = [queue.lease(60, 1) for _ in range(11)]

    assert [lease.rate_limited for lease in leases] == [False] * 10 + [True]
