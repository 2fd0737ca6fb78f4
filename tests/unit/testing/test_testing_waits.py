"""Workers whose first thread waits, while others of them poll."""

from __future__ import annotations

import queue as queues
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import pytest

from pullqueue import Emulator, Queue, Task
from pullqueue.testing import (
    RaceTestError,
    WorkerStopped,
    crash_test,
    describe,
    drain,
    race_test,
)
from pullqueue.testing.points import worker_threads

Poll: TypeAlias = Callable[[threading.Event], object]
Work: TypeAlias = Callable[[Poll], object]


@pytest.fixture(autouse=True)
def _stopped_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take workers for idle after fewer checks."""
    monkeypatch.setattr(worker_threads, "_CHECKS", 4)
    monkeypatch.setattr(worker_threads, "_CHECKS_BESIDE_LIBRARIES", 20)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """The test, and Python's exit, would wait for those; pools end theirs by themselves."""
    before = {*threading.enumerate()}
    yield
    pause = threading.Event()
    for _ in range(500):
        if not (left := {*threading.enumerate()} - before):
            return
        pause.wait(0.01)
    assert not left


def started(poll: Poll, stop: threading.Event, *, daemon: bool = False) -> list[threading.Thread]:
    found = [threading.Thread(target=poll, args=(stop,), daemon=daemon) for _ in range(2)]
    for thread in found:
        thread.start()
    return found


def by_event(poll: Poll) -> None:
    started(poll, stop := threading.Event(), daemon=True)
    stop.wait()


def by_event_and_threads_that_python_awaits(poll: Poll) -> None:
    started(poll, stop := threading.Event())
    stop.wait()


def by_event_in_a_loop(poll: Poll) -> None:
    started(poll, stop := threading.Event())
    while not stop.wait(60):
        pass


def by_event_for_long(poll: Poll) -> None:
    started(poll, stop := threading.Event())
    stop.wait(1_000_000)


def by_join(poll: Poll) -> None:
    for thread in started(poll, threading.Event()):
        thread.join()


def by_join_for_some_time(poll: Poll) -> None:
    for thread in started(poll, threading.Event()):
        while thread.is_alive():
            thread.join(0.5)


def by_queue(poll: Poll) -> None:
    started(poll, threading.Event())
    queues.Queue[int]().get()


def by_queue_in_a_loop(poll: Poll) -> None:
    started(poll, threading.Event())
    while True:
        with suppress(queues.Empty):
            queues.Queue[int]().get(timeout=0.01)


def by_condition(poll: Poll) -> None:
    started(poll, threading.Event())
    with (condition := threading.Condition()):
        condition.wait()


def by_semaphore(poll: Poll) -> None:
    started(poll, threading.Event())
    threading.Semaphore(0).acquire()


def by_sleep(poll: Poll) -> None:
    started(poll, threading.Event())
    while True:
        time.sleep(0.5)  # noqa: TID251 - as workers do


def by_pause(poll: Poll) -> None:
    started(poll, threading.Event())
    signal.pause()


def by_sigwait(poll: Poll) -> None:
    started(poll, threading.Event())
    signal.sigwait({signal.SIGUSR1})


def by_pool(poll: Poll) -> None:
    with ThreadPoolExecutor() as pool:
        for _ in range(2):
            pool.submit(poll, threading.Event())


def by_results(poll: Poll) -> None:
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(poll, threading.Event()) for _ in range(2)]:
            future.result()


def by_event_beside_a_pool(poll: Poll) -> None:
    stop = threading.Event()
    pool = ThreadPoolExecutor()
    try:
        wait([pool.submit(poll, stop) for _ in range(2)], timeout=0)
        stop.wait()
    finally:
        pool.shutdown()


WAYS: list[Work] = [
    by_event,
    by_event_and_threads_that_python_awaits,
    by_event_in_a_loop,
    by_event_for_long,
    by_join,
    by_join_for_some_time,
    by_queue,
    by_queue_in_a_loop,
    by_condition,
    by_semaphore,
    by_sleep,
    by_pause,
    by_sigwait,
    by_pool,
    by_results,
    by_event_beside_a_pool,
]


def sleep(_: threading.Event) -> None:
    time.sleep(5)  # noqa: TID251 - as workers do


def wait_for_event(stop: threading.Event) -> None:
    stop.wait(0.01)


PAUSES = [sleep, wait_for_event]


@pytest.fixture(params=PAUSES)
def poll(request: pytest.FixtureRequest, queue: Queue) -> Poll:
    def poll(stop: threading.Event) -> None:
        while not stop.is_set():
            queue.delete_tasks(queue.lease_tasks(60, 1))
            request.param(stop)

    return poll


@pytest.mark.parametrize("work", WAYS)
def test_drain_ends_a_worker_that_waits_while_its_threads_poll(
    emulator: Emulator, queue: Queue, work: Work, poll: Poll
) -> None:
    for _ in range(3):
        queue.add()
    assert drain(emulator, partial(work, poll)) == 1
    assert not queue.fetch_statistics().tasks
    assert not emulator.interceptors


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("work", WAYS)
def test_crash_test_ends_a_worker_that_waits_while_its_threads_poll(
    emulator: Emulator, queue: Queue, work: Work, poll: Poll
) -> None:
    """A thread that gets an error dies, so the worker is started again."""
    result = crash_test(
        emulator,
        partial(work, poll),
        setup=queue.add,
        check=lambda: not queue.fetch_statistics().tasks,
    )
    assert result >= 6


def test_a_worker_that_waits_otherwise_is_an_error_with_its_line(
    emulator: Emulator, queue: Queue, poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known of a lock, or of a socket, whether somebody else ends that."""
    monkeypatch.setattr(worker_threads, "_STUCK_CHECKS", 20)

    def work() -> None:
        started(poll, threading.Event())
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    queue.add()
    with pytest.raises(AssertionError) as caught:
        drain(emulator, work)
    assert re.fullmatch(
        r"drain: the worker waits \(.*test_testing_waits\.py:\d+ in work\), and its threads have "
        "ended: call the function of its threads instead",
        str(caught.value),
    )
    assert not queue.fetch_statistics().tasks


def test_a_worker_whose_threads_fail_is_called_again(
    emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In production it waits until somebody restarts it."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    failures = iter([RuntimeError])

    def poll(_: threading.Event) -> None:
        queue.delete_tasks(queue.lease_tasks(60, 1))
        raise next(failures, WorkerStopped)

    def work() -> None:
        threading.Thread(target=poll, args=(stop := threading.Event(),)).start()
        stop.wait()

    for _ in range(2):
        queue.add()
    assert drain(emulator, work) == 2


def test_a_thread_renews_a_lease_while_its_worker_sleeps(emulator: Emulator, queue: Queue) -> None:
    """The sleep of the worker moves the clock to each end of a sleep of the thread."""

    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            done = threading.Event()
            thread = threading.Thread(target=renew, args=(task, done))
            thread.start()
            time.sleep(170)  # noqa: TID251 - moves the clock
            queue.delete_tasks(task)
            done.set()
            thread.join()

    def renew(task: Task, done: threading.Event) -> None:
        while not done.is_set():
            task = queue.modify_task_lease(task, 60)
            time.sleep(50)  # noqa: TID251 - moves the clock

    queue.add()
    assert drain(emulator, work) == 1
    assert "lease expired" not in describe(emulator)


def test_a_thread_hands_tasks_to_others_that_wait_for_them(
    emulator: Emulator, queue: Queue
) -> None:
    """Those that wait at the end are ended; nobody sleeps past what they do."""
    done: list[str] = []

    def work() -> None:
        tasks = queues.Queue[Task]()
        threading.Thread(target=poll, args=(tasks,)).start()
        for _ in range(2):
            threading.Thread(target=do, args=(tasks,)).start()
        threading.Event().wait()

    def poll(tasks: queues.Queue[Task]) -> None:
        while True:
            for task in queue.lease_tasks(60, 10):
                tasks.put(task)
            time.sleep(90)  # noqa: TID251 - moves the clock

    def do(tasks: queues.Queue[Task]) -> None:
        while True:
            task = tasks.get()
            queue.delete_tasks(task)
            done.append(task.name)

    names = sorted(queue.add().name for _ in range(4))
    assert drain(emulator, work) == 1
    assert sorted(done) == names


ENDED_IN_ORDER = [
    by_event,
    by_event_and_threads_that_python_awaits,
    by_event_in_a_loop,
    by_event_for_long,
    by_join,
    by_join_for_some_time,
    by_queue,
    by_queue_in_a_loop,
    by_pause,
    by_sigwait,
    by_sleep,
]


@pytest.mark.slow
@pytest.mark.parametrize("work", ENDED_IN_ORDER)
def test_race_test_ends_a_worker_that_waits_while_its_threads_poll(
    emulator: Emulator, queue: Queue, work: Work, poll: Poll
) -> None:
    result = race_test(
        emulator,
        partial(work, poll),
        setup=queue.add,
        check=lambda: not queue.fetch_statistics().tasks,
        copies=2,
        schedules=20,
    )
    assert result == 20


@pytest.mark.slow
@pytest.mark.usefixtures("blocked_soon")
def test_race_test_reports_other_waits_in_time(emulator: Emulator, queue: Queue) -> None:
    """Each order waits for real; such as for a condition, in a daemon thread that is left."""
    begun = time.perf_counter()

    def work() -> None:
        queue.delete_tasks(queue.lease_tasks(60, 1))
        with (condition := threading.Condition()):
            conditions.append(condition)
            condition.wait()

    conditions: list[threading.Condition] = []
    with pytest.raises(RaceTestError, match=r"all actors are blocked[^$]*in work") as caught:
        race_test(
            emulator, work, setup=queue.add, check=lambda: True, copies=2, schedules=100, seconds=1
        )
    assert "test_testing_waits.py" in str(caught.value)
    assert time.perf_counter() - begun < 30
    for condition in conditions:
        with condition:
            condition.notify_all()
