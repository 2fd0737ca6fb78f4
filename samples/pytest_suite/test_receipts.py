"""The app on App Engine's SDK: tests that move time, read the queue and make calls fail."""

from __future__ import annotations

from datetime import timedelta

import pytest
import receipts as app
from google.appengine.api import taskqueue

from pullqueue import Emulator, NewTask, Queue, TransientError
from pullqueue.sdk.stub import EmulatorStub
from pullqueue.testing import (
    Faults,
    JsonPayload,
    assert_added,
    assert_available,
    assert_empty,
    assert_exhausted,
    assert_leased,
    drain,
    exhaust,
)
from pytest_pullqueue import FixtureClock

pytestmark = pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock")


@pytest.fixture
def queue(pullqueue_emulator: Emulator) -> Queue:
    """Return the app's queue in the emulator."""
    app.receipts.clear()
    return pullqueue_emulator.queue(app.QUEUE)


def test_an_order_adds_a_task(queue: Queue) -> None:
    """Assertions find the app's tasks by payload and tag."""
    app.take_order(7, country="CH")

    assert_added(queue, tag="CH", count=1)
    assert_added(queue, payload=JsonPayload({"order": 7}, partial=True))


def test_a_lease_expires(queue: Queue, pullqueue_clock: FixtureClock) -> None:
    """A task whose worker did not finish is available after a minute, without waiting."""
    app.take_order(7, country="CH")
    [task] = taskqueue.Queue(app.QUEUE).lease_tasks(60, 10)
    assert_leased(queue, 1)

    pullqueue_clock.advance(59)
    assert_leased(queue, 1)
    pullqueue_clock.advance(timedelta(seconds=1))

    assert_available(queue, 1)
    [again] = taskqueue.Queue(app.QUEUE).lease_tasks(60, 10)
    assert (again.name, again.retry_count) == (task.name, 2)


def test_leases_of_any_length_expire(queue: Queue, pullqueue_clock: FixtureClock) -> None:
    """The clock moves to the end of the leases, or to the next event."""
    app.take_order(7, country="CH")
    taskqueue.Queue(app.QUEUE).lease_tasks(3600, 10)

    pullqueue_clock.expire_leases()

    assert_available(queue, 1)
    assert pullqueue_clock.advance_to_next_event() is None


def test_a_task_is_exhausted(queue: Queue) -> None:
    """After three leases a task is exhausted, and the test can read its history."""
    app.take_order(7, country="CH")
    [task] = queue.list_tasks()

    exhaust(queue, task)

    assert_exhausted(queue, task)
    assert_empty(queue)
    assert [event.kind.value for event in queue.history(task)].count("lease expired") == 3


def test_a_worker_that_never_ends(queue: Queue, pullqueue_emulator: Emulator) -> None:
    """A worker that loops forever is stopped when the queue is empty; its sleeps move the clock."""
    for number in range(5):
        app.take_order(number, country="CH")

    drain(pullqueue_emulator, app.run_forever)

    assert_empty(queue)
    assert sorted(app.receipts) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("queue")
def test_the_service_is_down(pullqueue_emulator: Emulator, pullqueue_faults: Faults) -> None:
    """The worker retries as long as calls fail."""
    app.take_order(7, country="CH")
    fault = pullqueue_faults.fail("lease_tasks", TransientError, times=3)

    drain(pullqueue_emulator, app.run_forever)

    assert fault.hits == 3
    assert list(app.receipts) == [7]


def test_a_task_is_delivered_twice(queue: Queue, pullqueue_faults: Faults) -> None:
    """If a worker is so slow that another gets its task, nothing is lost or done twice."""
    app.take_order(7, country="CH")
    pullqueue_faults.expire_leases(other_worker=app.careful_worker)

    app.careful_worker()

    assert app.receipts == {7: "order 7 to CH"}
    assert_empty(queue)


def test_suites_that_look_into_the_stub(pullqueue_sdk: EmulatorStub) -> None:
    """Methods of Google's stub are available, too."""
    app.take_order(7, country="CH")

    assert len(pullqueue_sdk.get_filtered_tasks(queue_names=[app.QUEUE])) == 1


@pytest.mark.pullqueue(queues=["receipts"], lease_rate_limit=True)
def test_a_queue_of_its_own(queue: Queue) -> None:
    """A marker sets the queues of one test, without a file, and production's lease rate."""
    queue.add_many([NewTask(b"receipt") for _ in range(11)])

    leases = [queue.lease_tasks(60, max_tasks=1) for _ in range(11)]

    assert [len(tasks) for tasks in leases] == [1] * 10 + [0]
