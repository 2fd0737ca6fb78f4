"""Driving workers until nothing is left."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType

import pytest

from pullqueue import ClockError, Emulator, Limits, ManualClock, Queue, Task
from pullqueue.testing import ProcessClock, assert_empty, drain


def finish(queue: Queue, *, max_tasks: int = 1) -> int:
    """Lease, and delete what was leased."""
    tasks = queue.lease_tasks(60, max_tasks)
    queue.delete_tasks(tasks)
    return len(tasks)


def test_a_worker_that_does_a_batch(emulator: Emulator, queue: Queue) -> None:
    """It is called until the queue is empty, and the calls are counted."""
    for _ in range(5):
        queue.add()

    assert drain(emulator, lambda: finish(queue, max_tasks=2)) == 3
    assert_empty(queue)
    assert drain(emulator, lambda: finish(queue)) == 0


def test_a_worker_that_does_all(emulator: Emulator, queue: Queue) -> None:
    """A worker that ends at the first empty lease comes to its own end."""
    for _ in range(5):
        queue.add()
    ended = []

    def work() -> None:
        while finish(queue):
            pass
        ended.append(True)

    assert drain(emulator, work) == 1
    assert ended == [True]


def test_time_passes_to_what_is_scheduled(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    """Where nothing can be leased yet, the clock goes to the moment when it can."""
    start = clock.now()
    queue.add(eta=start + timedelta(days=1))
    queue.add()
    queue.lease_tasks(3600, 1)

    assert drain(emulator, lambda: finish(queue)) == 2
    assert clock.now() == start + timedelta(days=1)


@pytest.mark.parametrize("pause", [True, False])
def test_an_endless_worker_is_stopped(
    emulator: Emulator, queue: Queue, clock: ManualClock, *, pause: bool
) -> None:
    """`while True` ends when nothing is left or scheduled, whether or not it sleeps."""
    start = clock.now()
    queue.add()
    queue.add(eta=start + timedelta(minutes=1))
    done = []

    def work() -> None:
        while True:
            done.append(finish(queue))
            if pause:
                time.sleep(25)  # noqa: TID251 - what workers do

    assert drain(emulator, work) == 1
    assert sum(done) == 2
    assert clock.now() >= start + timedelta(minutes=1)
    assert clock.now() <= start + timedelta(minutes=3)


def test_a_worker_that_only_looks_and_sleeps(emulator: Emulator, queue: Queue) -> None:
    """A loop that does not lease while the queue is empty is stopped at a pause."""
    queue.add()

    def work() -> None:
        while True:
            if queue.fetch_statistics().tasks:
                finish(queue)
            time.sleep(5)  # noqa: TID251

    assert drain(emulator, work) == 1


def test_a_worker_of_two_queues(emulator: Emulator, queue: Queue, limited: Queue) -> None:
    """An empty lease on each of several queues is no reason to stop."""
    queue.add()
    ended = []

    def work() -> None:
        while finish(queue) + finish(limited):
            pass
        ended.append(True)

    assert drain(emulator, work) == 1
    assert ended == [True]


def test_held_leases_survive_pauses(emulator: Emulator, queue: Queue, clock: ManualClock) -> None:
    """A worker that waits for more while it holds tasks keeps them: time moves by its pauses."""
    start = clock.now()
    queue.add(name="one")
    queue.add(name="two", eta=start + timedelta(seconds=30))
    batches = []

    def work() -> None:
        held: list[Task] = []
        while len(held) < 2:
            held += queue.lease_tasks(600, 2)
            time.sleep(10)  # noqa: TID251
        batches.append([task.retry_count for task in held])
        queue.delete_tasks(held)

    drain(emulator, work)

    assert batches == [[1, 1]]


def test_a_worker_that_waits_for_a_program(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    """Waiting for another process takes real time, and moves no clock."""
    start = clock.now()
    queue.add()
    program = [sys.executable, "-c", "import time; time.sleep(0.05)"]

    drain(emulator, lambda: (subprocess.run(program, check=True, timeout=60), finish(queue)))

    assert clock.now() == start


def test_sleep_imported_by_name(emulator: Emulator, queue: Queue, clock: ManualClock) -> None:
    """Modules that did `from time import sleep` move the clock, too, and get their sleep back."""
    real = time.sleep  # noqa: TID251
    module = ModuleType("an_app")
    vars(module)["sleep"] = real
    sys.modules["an_app"] = module
    start = clock.now()
    queue.add()
    try:
        drain(emulator, lambda: (vars(module)["sleep"](7), finish(queue)))
    finally:
        del sys.modules["an_app"]

    assert clock.now() == start + timedelta(seconds=7)
    assert vars(module)["sleep"] is time.sleep is real  # noqa: TID251


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda q: None, "the worker was called 9 times"),
        (lambda q: q.lease_tasks(0, 1), "the worker was called 9 times"),
        (lambda q: [q.lease_tasks(0, 1) for _ in iter(int, 1)], "the worker has leased 9 times"),
        (lambda q: list(map(time.sleep, itertools.repeat(1))), "the worker has slept 9 times"),  # noqa: TID251
    ],
)
def test_a_worker_that_gets_nowhere(
    emulator: Emulator, queue: Queue, work: Callable[[Queue], object], message: str
) -> None:
    """The limit tells what the worker did too often, and what is still in the queues."""
    queue.add(name="stays")

    with pytest.raises(
        AssertionError,
        match=rf"(?s)^drain: {message}, and the queues are still not empty; if .*'stays'",
    ):
        drain(emulator, lambda: work(queue), max_calls=9)
    assert not emulator.interceptors


def test_errors_of_the_worker_pass(emulator: Emulator, queue: Queue) -> None:
    """What the worker raises reaches the test."""
    queue.add()

    with pytest.raises(ZeroDivisionError):
        drain(emulator, lambda: 1 / 0)


def test_a_limited_lease_rate(clock: ManualClock) -> None:
    """Where leases are asked for too often, time passes until they are answered again."""
    emulator = Emulator.from_text(
        "queue:\n- name: q\n  mode: pull\n", clock=clock, limits=Limits(leases_per_second=2)
    )
    queue = emulator.queue("q")
    for _ in range(7):
        queue.add()

    drain(emulator, lambda: finish(queue))

    assert_empty(queue)


def test_a_clock_that_cannot_be_moved() -> None:
    """The system's clock is refused, with what to use instead."""
    emulator = Emulator.from_text("queue:\n- name: q\n  mode: pull\n")

    with pytest.raises(
        ClockError, match=r"^cannot move the time of .* whose clock is a SystemClock: "
    ):
        drain(emulator, lambda: None)


def test_a_process_that_is_not_frozen(queue: Queue) -> None:
    """The process's clock is refused before anything happens, unless time is frozen."""
    emulator = Emulator.from_text("queue:\n- name: q\n  mode: pull\n", clock=ProcessClock())

    with pytest.raises(ClockError, match=r"^cannot move the clock: time is not frozen; use the"):
        drain(emulator, lambda: None)
