"""Actors of `race_test` that wait: for locks, for each other, and for the end of a sleep."""

from __future__ import annotations

import asyncio
import fcntl
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from functions import Run, in_turn

from pullqueue import ManualClock, Queue
from pullqueue.testing import RaceTestError

pytestmark = pytest.mark.slow


def test_actors_that_are_blocked_by_each_other_are_a_deadlock(race: Run, queue: Queue) -> None:
    """The report has the stack of each thread; neither has made conflicting calls."""
    locks: list[threading.Lock] = []

    def setup() -> None:
        locks[:] = [threading.Lock(), threading.Lock()]

    def lock(first: int, second: int) -> None:
        with locks[first]:
            queue.fetch_statistics()
            with locks[second]:
                pass

    def forwards() -> None:
        lock(0, 1)

    def backwards() -> None:
        lock(1, 0)

    with pytest.raises(RaceTestError, match="all actors are blocked:") as caught:
        race(forwards, backwards, setup=setup)

    for text in ("forwards: waits for a lock", "forwards is blocked:", "backwards is blocked:"):
        assert text in str(caught.value)
    assert "with locks[second]:" in str(caught.value)


def test_a_lock_of_the_test_is_shared(race: Run, queue: Queue) -> None:
    """The one that has it goes on when the other waits for it, without a delay."""
    lock = threading.RLock()
    done = [0]

    def work() -> None:
        with lock, lock:
            value = done[0]
            queue.fetch_statistics()
            done[0] = value + 1

    def setup() -> None:
        with lock:
            done[0] = 0

    result = race(work, setup=setup, check=lambda: done == [2], copies=2)

    assert result > 2
    assert result.is_complete
    assert lock.acquire(blocking=False)


def test_a_lock_of_the_test_is_waited_for_as_long_as_its_timeout(race: Run, queue: Queue) -> None:
    lock = threading.Semaphore(1)
    results: set[str] = set()

    def keep() -> None:
        with lock:
            time.sleep(60)  # noqa: TID251 - moves the clock
            queue.fetch_statistics()

    def try_to() -> None:
        if lock.acquire(timeout=10):
            lock.release()
            results.add("acquired")
        else:
            results.add("late")

    race(keep, try_to)

    assert results == {"acquired", "late"}


@pytest.mark.parametrize("lock", ["flock", "lockf"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_lock_of_a_file_is_one_of_each_actor(
    race: Run, queue: Queue, tmp_path: Path, lock: str, *, waits: bool
) -> None:
    """Also by POSIX, where a process has it."""
    number, locked = tmp_path / "number", tmp_path / "lock"
    skipped: list[None] = []
    setup = in_turn(skipped.clear, lambda: number.write_text("0"))

    def count(operation: int) -> None:
        with locked.open("w") as file:
            try:
                getattr(fcntl, lock)(file, operation)
            except BlockingIOError:
                skipped.append(None)
                return
            read = int(number.read_text())
            queue.purge()
            number.write_text(str(read + 1))
            getattr(fcntl, lock)(file, fcntl.LOCK_UN)
            queue.fetch_statistics()

    def check() -> None:
        assert int(number.read_text()) == 2 - len(skipped)

    run = partial(race, copies=2, setup=setup, check=check, clock=False)
    flags = 0 if waits else fcntl.LOCK_NB
    assert run(partial(count, fcntl.LOCK_EX | flags)).is_complete
    with pytest.raises(RaceTestError, match="AssertionError"):
        run(partial(count, fcntl.LOCK_SH | flags))


@pytest.mark.usefixtures("blocked_soon")
def test_an_actor_that_waits_for_another_is_blocked(race: Run, queue: Queue) -> None:
    """Nothing says so at once, as it does for a lock: it reaches no call for some time."""
    ready = threading.Event()

    def wait() -> None:
        ready.wait()
        queue.fetch_statistics()

    def get_ready() -> None:
        queue.fetch_statistics()
        ready.set()

    race(wait, get_ready, setup=ready.clear, check=ready.is_set, schedules=1, clock=False)


@pytest.mark.usefixtures("blocked_soon")
def test_an_actor_that_is_busy_is_not_stuck(race: Run, queue: Queue) -> None:
    """Also if it uses only some of the processor."""

    def compute() -> None:
        end, never = time.monotonic() + 0.8, threading.Event()
        while time.monotonic() < end:
            never.wait(0.02)
            sum(range(50_000))
        queue.fetch_statistics()

    with pytest.raises(AssertionError, match="there is only one actor"):
        race(compute, clock=False)


def test_a_sleep_lets_others_go_on(race: Run, queue: Queue, clock: ManualClock) -> None:
    order: list[str] = []
    start = clock.now()

    def slow() -> None:
        time.sleep(30)  # noqa: TID251 - moves the clock
        order.append("slow")

    async def quick() -> None:
        await asyncio.sleep(10)
        order.append("quick")
        queue.fetch_statistics()

    def check() -> None:
        assert set(order) == {"quick", "slow"}

    def check_without_time() -> None:
        assert order == ["quick", "slow"]

    race(slow, quick, setup=order.clear, check=check_without_time, replay="1 2 0 2x2 0 1")
    assert clock.now() - start == timedelta(seconds=30)
    assert race(slow, quick, setup=order.clear, check=check) > 5
    # Without time as an actor it moves where all sleep, and not further than the first wakes.
    without = {"check": check_without_time, "clock": False, "preemptions": 0}
    race(slow, quick, setup=order.clear, **without)


def test_a_sleep_of_no_time_lets_others_go_on(race: Run, queue: Queue) -> None:
    ready = threading.Event()

    def wait() -> None:
        while not ready.is_set():
            time.sleep(0)  # noqa: TID251 - lets others go on

    def get_ready() -> None:
        queue.fetch_statistics()
        ready.set()

    race(wait, get_ready, setup=ready.clear, check=ready.is_set)


def test_all_actors_that_sleep_for_no_time_go_on_before_the_clock_moves(race: Run) -> None:
    count = [0]

    def increase() -> None:
        value = count[0]
        time.sleep(0)  # noqa: TID251 - lets others go on
        count[0] = value + 1

    def setup() -> None:
        count[0] = 0

    with pytest.raises(RaceTestError) as caught:
        race(increase, setup=setup, check=lambda: count == [2], copies=2)

    assert not any(step.startswith("time:") for step in caught.value.schedule)
