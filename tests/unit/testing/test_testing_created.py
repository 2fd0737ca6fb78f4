"""The helpers with queues that a program creates while they run."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from functions import Run

from pullqueue import Emulator, Queue
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.errors import QueueNameInUseError
from pullqueue.push.request import PushRequest
from pullqueue.tasks import HttpRequest
from pullqueue.testing import drain, run_tasks

MAILS = QueueSettings(name="mails", mode=QueueMode.PUSH)


class Shop:
    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.mailed: list[bytes] = []

    def create_and_mail(self, order: bytes) -> None:
        with suppress(QueueNameInUseError):
            self.emulator.create_queue(MAILS)
        self.emulator.queue("mails").add(order, request=HttpRequest("/mail"))

    def handle(self, request: PushRequest) -> int:
        if request.url == "/order":
            self.create_and_mail(request.body)
        else:
            self.mailed.append(request.body)
        return 200

    def order(self) -> None:
        self.mailed.clear()
        self.emulator.queue("pushed").add("1", request=HttpRequest("/order"))

    def order_with_queue(self) -> None:
        self.mailed.clear()
        self.create_and_mail(b"1")

    def check(self) -> None:
        assert set(self.mailed) == {b"1"}


@pytest.fixture
def shop(emulator: Emulator) -> Shop:
    return Shop(emulator)


def test_run_tasks_sends_the_tasks_of_a_queue_that_a_handler_creates(
    emulator: Emulator, shop: Shop
) -> None:
    shop.order()
    attempts = run_tasks(emulator, send=shop.handle, until="empty")
    assert [attempt.task.queue_name for attempt in attempts] == ["pushed", "mails"]


def test_drain_empties_a_queue_that_the_worker_creates(emulator: Emulator, queue: Queue) -> None:
    done: list[bytes] = []

    def work() -> None:
        for task in queue.lease_tasks(60, 10):
            made = emulator.create_queue(QueueSettings(name="made", mode=QueueMode.PULL))
            made.add(task.payload)
            queue.delete_tasks(task)
            return
        made = emulator.queue("made")
        for task in made.lease_tasks(60, 10):
            done.append(task.payload)
            made.delete_tasks(task)

    queue.add("1")
    drain(emulator, work)
    assert done == [b"1"]


def test_crash_test_runs_the_tasks_of_created_queues(crash: Run, shop: Shop) -> None:
    run = partial(crash, send=shop.handle, check=shop.check)
    assert run(setup=shop.order_with_queue) == 1, "the response of the handler is lost"
    assert run(setup=shop.order) == 5, "three at the add, and the responses of both handlers"


def test_race_test_runs_the_tasks_of_a_queue_that_setup_creates(
    race: Run, shop: Shop, pushed: Queue
) -> None:
    race(pushed.fetch_statistics, send=shop.handle, setup=shop.order_with_queue, check=shop.check)


def test_time_does_not_pass_until_a_task_is_too_old_where_one_could_go_on(
    race: Run, shop: Shop
) -> None:
    """Tasks of a created queue are deleted after 31 days."""
    customer = partial(shop.create_and_mail, b"1")
    race(customer, send=shop.handle, setup=shop.mailed.clear, check=shop.check, copies=2)
