"""Workers and handlers that feed each other: `drain` with push tasks."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta

import pytest
from functions import Work, handling

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.push.request import PushRequest
from pullqueue.tasks import HttpRequest, NameInUseError
from pullqueue.testing import assert_empty, drain


def work_once(queue: Queue, pushed: Queue) -> int:
    tasks = queue.lease_tasks(60, 10)
    for task in tasks:
        with suppress(NameInUseError):  # it was added before a crash
            pushed.add(task.payload, name=f"mail-{task.name}", request=HttpRequest("/mail"))
        queue.delete_tasks(task)
    return len(tasks)


class Handler:
    """An app that adds a pull task for each request at `/start`, and keeps what else it gets."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.mails: list[bytes] = []

    def __call__(self, request: PushRequest) -> int:
        if request.url == "/start":
            self.queue.add(request.body)
        else:
            self.mails.append(request.body)
        return 200


@pytest.fixture
def handler(queue: Queue) -> Handler:
    return Handler(queue)


def forever(queue: Queue, pushed: Queue, pause: float) -> Work:
    def work() -> None:
        while True:
            if not work_once(queue, pushed) and pause:
                time.sleep(pause)  # noqa: TID251 - moves the clock

    return work


@pytest.mark.parametrize("pause", [None, 0, 5])
def test_handlers_and_worker_feed_each_other_until_all_is_empty(
    emulator: Emulator, queue: Queue, pushed: Queue, handler: Handler, pause: float | None
) -> None:
    later = emulator.clock.now() + timedelta(hours=1)
    pushed.add(b"one", request=HttpRequest("/start"))
    pushed.add(b"two", request=HttpRequest("/start"), eta=later)
    queue.add(b"three", eta=later)
    worker = forever(queue, pushed, pause) if pause is not None else None

    drain(emulator, worker or (lambda: work_once(queue, pushed)), send=handler)

    assert_empty(emulator)
    assert sorted(handler.mails) == [b"one", b"three", b"two"]


def test_handlers_go_before_time(
    emulator: Emulator, queue: Queue, pushed: Queue, clock: ManualClock
) -> None:
    start = clock.now()
    queue.add(b"now")
    queue.add(b"later", eta=start + timedelta(hours=1))
    times: list[timedelta] = []

    send = handling(lambda: times.append(clock.now() - start))
    drain(emulator, forever(queue, pushed, 0), send=send)

    assert times == [timedelta(), timedelta(hours=1)]


def test_push_tasks_are_sent_where_there_is_an_app(
    emulator: Emulator, work: Work, queue: Queue, pushed: Queue, handler: Handler
) -> None:
    """Without one they stay, however many are due; a queue that cannot send is an error."""
    pushed.add(b"one", request=HttpRequest("/mail"))
    queue.add()

    drain(emulator, work)
    assert pushed.fetch_statistics().available == 1
    queue.add()
    assert drain(emulator, lambda: None, queues=["pushed"], send=handler) == 0
    assert handler.mails == [b"one"]
    queue.purge()
    pushed.add()
    pushed.pause()
    with pytest.raises(AssertionError, match=r'^queue "pushed" is paused, with 1 task'):
        drain(emulator, lambda: None, send=handler)


def test_handlers_that_never_end_reach_max_calls(emulator: Emulator, pushed: Queue) -> None:
    pushed.add()

    with pytest.raises(AssertionError, match=r"3 attempts were made .* pass a higher max_calls"):
        drain(emulator, lambda: None, send=handling(pushed.add), max_calls=3)
