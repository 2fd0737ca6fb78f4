"""Workers that wait for threads of libraries, or sleep beside threads that never do."""

from __future__ import annotations

import asyncio
import queue as queues
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.pool import ThreadPool

import freezegun
import pytest

from pullqueue import Emulator, ManualClock, Queue, Task
from pullqueue.testing import describe, drain
from pullqueue.testing.points import worker_threads

BLOCKED_SECONDS = 0.4


@pytest.fixture
def library() -> Iterator[ThreadPool]:
    """A pool whose threads are not known to be the worker's."""
    with ThreadPool(1) as pool:
        yield pool


def blocked(library: ThreadPool, then: Callable[[], object]) -> None:
    """Wait in a thread of a library, for real, and call a function there."""
    nothing: list[int] = []
    library.apply_async(
        select.select, (nothing, nothing, nothing, BLOCKED_SECONDS), callback=lambda _: then()
    )


def failing() -> None:
    raise ValueError


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [None, 30])
def test_a_worker_whose_call_of_a_pool_has_failed_waits_for_a_library(
    emulator: Emulator, queue: Queue, library: ThreadPool, timeout: float | None
) -> None:
    """Nothing of the worker goes on, but the library ends its wait."""

    def work() -> None:
        [task] = queue.lease_tasks(60, 1)
        with ThreadPoolExecutor() as pool, suppress(ValueError):
            pool.submit(failing).result()
        blocked(library, (done := threading.Event()).set)
        assert done.wait(timeout)
        queue.delete_tasks(task)

    queue.add()
    assert drain(emulator, work) == 1


@pytest.mark.slow
def test_a_worker_waits_for_a_library_when_the_thread_that_polls_was_stopped(
    emulator: Emulator, queue: Queue, library: ThreadPool
) -> None:
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            for task in queue.lease_tasks(60, 1):
                queue.delete_tasks(task)
                blocked(library, done.set)
            time.sleep(1)  # noqa: TID251 - as workers do

    def work() -> None:
        threading.Thread(target=poll).start()
        done.wait()

    queue.add()
    assert drain(emulator, work) == 1
    assert done.is_set()


@pytest.mark.slow
def test_the_sleep_of_a_thread_is_real_while_the_worker_waits_for_a_library(
    emulator: Emulator, queue: Queue, library: ThreadPool
) -> None:
    """Or else the time that a worker may take would be over at once."""
    late: list[Task] = []

    def work() -> None:
        [task] = queue.lease_tasks(60, 1)
        done = threading.Event()

        def check() -> None:
            time.sleep(50)  # noqa: TID251 - as workers do
            late.append(task)

        threading.Thread(target=check, daemon=True).start()
        blocked(library, done.set)
        done.wait()
        assert not late
        queue.delete_tasks(task)

    queue.add()
    assert drain(emulator, work) == 1


def test_a_sleep_does_not_wait_again_for_a_thread_that_is_in_another_call(
    emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that runs a server or an event loop."""
    pauses: list[float] = []
    pause = worker_threads._pause

    def count(seconds: float) -> None:
        pauses.append(seconds)
        pause(seconds)

    monkeypatch.setattr(worker_threads, "_pause", count)
    monkeypatch.setattr(worker_threads, "_END_CHECKS", 20)
    monkeypatch.setattr(worker_threads, "_LATE_CHECKS", 20, raising=False)

    def work() -> None:
        ends = queues.SimpleQueue[int]()
        thread = threading.Thread(target=ends.get)
        thread.start()
        for task in queue.lease_tasks(60, 5):
            time.sleep(1)  # noqa: TID251 - moves the clock
            queue.delete_tasks(task)
        ends.put(0)
        thread.join()

    for _ in range(5):
        queue.add()
    assert drain(emulator, work) == 1
    assert len(pauses) < 70


def test_a_long_sleep_passes_many_short_ones_of_a_thread_that_changes_nothing(
    emulator: Emulator, queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that reports figures each second."""
    monkeypatch.setattr(worker_threads, "_MOST_MOVES", 5, raising=False)
    begun, sleeps = clock.now_usec(), [0]

    def work() -> None:
        done = threading.Event()

        def report() -> None:
            while not done.is_set():
                sleeps[0] += 1
                time.sleep(1)  # noqa: TID251 - moves the clock

        threading.Thread(target=report).start()
        for task in queue.lease_tasks(1000, 1):
            time.sleep(200)  # noqa: TID251 - moves the clock
            queue.delete_tasks(task)
        done.set()

    queue.add()
    assert drain(emulator, work) == 1
    assert clock.now_usec() - begun >= 200_000_000
    assert sleeps[0] < 20


def test_a_sleep_in_a_thread_of_asyncio_moves_the_clock(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    begun = clock.now_usec()

    async def work_in_loop() -> None:
        for task in queue.lease_tasks(60, 1):
            await asyncio.to_thread(time.sleep, 1)  # noqa: TID251 - moves the clock
            queue.delete_tasks(task)

    queue.add()
    assert drain(emulator, lambda: asyncio.run(work_in_loop())) == 1
    assert clock.now_usec() - begun == 1_000_000


def test_a_worker_does_what_a_thread_hands_to_it_before_that_sleeps(
    emulator: Emulator, queue: Queue
) -> None:
    """It was woken, and has not gone on when the sleep begins."""

    def work() -> None:
        tasks = queues.Queue[Task]()

        def poll() -> None:
            while True:
                for task in queue.lease_tasks(60, 1):
                    tasks.put(task)
                time.sleep(90)  # noqa: TID251 - moves the clock

        threading.Thread(target=poll).start()
        while True:
            queue.delete_tasks(tasks.get())

    for _ in range(6):
        queue.add()
    assert drain(emulator, work) == 1
    assert "lease expired" not in describe(emulator)


@pytest.mark.parametrize("by_event", [False, True])
def test_a_thread_that_pauses_goes_on_where_time_is_frozen(
    emulator: Emulator, queue: Queue, *, by_event: bool
) -> None:
    """freezegun stops the clock by which a wait would be over."""

    def pause_and_delete(task: Task, has_paused: queues.SimpleQueue[None]) -> None:
        if by_event:
            threading.Event().wait(0.02)
        else:
            time.sleep(0.02)  # noqa: TID251 - as workers do
        queue.delete_tasks(task)
        has_paused.put(None)

    def work() -> None:
        [task] = queue.lease_tasks(60, 1)
        has_paused = queues.SimpleQueue[None]()  # whose waits are not known
        threading.Thread(target=pause_and_delete, args=(task, has_paused), daemon=True).start()
        has_paused.get(timeout=5)

    queue.add()
    with freezegun.freeze_time("2026-01-01"):
        assert drain(emulator, work) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_thread_has_failed_waits_for_a_signal(
    emulator: Emulator, queue: Queue
) -> None:
    """A thread that has failed did perhaps not poll."""
    done = threading.Event()

    def work() -> None:
        [task] = queue.lease_tasks(60, 1)
        (thread := threading.Thread(target=failing)).start()
        thread.join()
        signal.setitimer(signal.ITIMER_REAL, BLOCKED_SECONDS)
        done.wait()
        queue.delete_tasks(task)

    queue.add()
    before = signal.signal(signal.SIGALRM, lambda *_: done.set())
    try:
        assert drain(emulator, work) == 1
    finally:
        signal.signal(signal.SIGALRM, before)
