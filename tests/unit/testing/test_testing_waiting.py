"""A worker whose first thread waits for threads that poll, as most wait for a signal."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue as Items
from queue import SimpleQueue
from time import monotonic

import pytest
from functions import Work, in_turn

from pullqueue import Emulator, Queue
from pullqueue.testing import crash_test, drain, waiting

Waits = Callable[[], object]


def wait_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_for_a_thread() -> None:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    thread.join()


WAITS: dict[str, Waits] = {
    "an event": lambda: threading.Event().wait(),
    "an event, for some time": lambda: threading.Event().wait(1000),
    "a queue": lambda: Items[None]().get(),
    "a simple queue": lambda: SimpleQueue[None]().get(),
    "a condition": lambda: threading.Barrier(2).wait(),
    "a lock": wait_for_a_lock,
    "a thread": wait_for_a_thread,
    "a signal": signal.pause,
    "a loop of asyncio": lambda: asyncio.run(asyncio.Event().wait()),
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.1)


def polling(queue: Queue, *, then: Waits) -> Work:
    """Return a worker that starts two threads which poll, does something, and joins them."""

    def poll() -> None:
        while True:
            queue.delete_tasks(queue.lease_tasks(60, 1))

    def work() -> None:
        threads = [threading.Thread(target=poll, daemon=True) for _ in range(2)]
        in_turn(*(each.start for each in threads), then, *(each.join for each in threads))()

    return work


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_worker_that_waits_for_ended_threads_fails_and_names_the_line(
    emulator: Emulator, queue: Queue, wait: Waits
) -> None:
    before = signal.getsignal(signal.SIGURG)
    in_turn(queue.add, queue.add)()

    expected = (
        r"^drain: the worker called no queue for 0.1 seconds \(tests/.*py:\d+ in \S+\) after "
    )
    with pytest.raises(AssertionError, match=expected):
        drain(emulator, polling(queue, then=wait))

    assert queue.fetch_statistics().tasks == 0
    assert signal.getsignal(signal.SIGURG) is before


def test_a_worker_that_waits_again_and_again_fails_and_names_what_catches_its_end(
    emulator: Emulator, queue: Queue
) -> None:
    event = threading.Event()

    def wait() -> None:
        while True:
            try:
                event.wait()
            except BaseException:  # noqa: BLE001 - what workers do
                event.clear()

    queue.add()
    with pytest.raises(AssertionError, match=r"py:\d+ in wait catches BaseException"):
        drain(emulator, polling(queue, then=wait))


def test_a_worker_whose_threads_end_while_it_works_is_not_ended(
    emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that takes long, as long as it calls queues."""
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.5)
    done = []

    def work() -> None:
        end = monotonic() + 1.2
        while monotonic() < end:
            queue.fetch_statistics()
        done.append(True)

    queue.add()
    assert drain(emulator, polling(queue, then=work)) == 1
    assert done == [True]


def test_a_worker_that_ends_is_not_interrupted_later(emulator: Emulator, queue: Queue) -> None:
    """Nor are the next one, and what the test does."""
    for _ in range(2):
        queue.add()
        assert drain(emulator, polling(queue, then=lambda: None)) == 1
    assert not threading.Event().wait(0.3)


def test_a_first_run_of_crash_test_that_waits_fails(emulator: Emulator, queue: Queue) -> None:
    expected = r"^crash_test: the worker called no queue for 0.1 seconds \(tests/.*py:\d+ in"
    with pytest.raises(AssertionError, match=expected):
        crash_test(
            emulator,
            polling(queue, then=WAITS["an event"]),
            setup=queue.add,
            check=lambda: True,
        )


def test_a_worker_in_another_thread_is_as_without_a_watch(emulator: Emulator, queue: Queue) -> None:
    """It gets no signals."""
    queue.add()
    with ThreadPoolExecutor(1) as pool:
        worker = polling(queue, then=lambda: None)
        assert pool.submit(drain, emulator, worker).result() == 1
