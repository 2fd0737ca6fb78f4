"""Actors of `race_test` that wait: for locks, for each other, and for the end of a sleep."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.testing import (
    RaceTestError,
    race_test,
)


def test_actors_that_are_blocked_by_each_other(emulator: Emulator, queue: Queue) -> None:
    """A deadlock is reported with the stack of each thread."""
    locks = [threading.Lock(), threading.Lock()]

    def setup() -> None:
        locks[:] = [threading.Lock(), threading.Lock()]

    def lock(first: int, second: int) -> None:
        with suppress(RuntimeError), locks[first]:  # which the test releases at the end
            queue.fetch_statistics()
            with locks[second]:
                pass

    def forwards() -> None:
        lock(0, 1)

    def backwards() -> None:
        lock(1, 0)

    with pytest.raises(RaceTestError, match="all actors are blocked:") as caught:
        race_test(emulator, forwards, backwards, setup=setup, check=lambda: True)

    text = str(caught.value)
    assert "forwards is blocked:" in text
    assert "backwards is blocked:" in text
    assert "with locks[second]:" in text
    locks[0].release()  # so that both threads end


def test_a_blocked_actor_goes_on_after_the_one_that_blocks_it(
    emulator: Emulator, queue: Queue
) -> None:
    lock = threading.Lock()
    done: list[int] = []

    def work() -> None:
        with lock:
            queue.fetch_statistics()
            done.append(1)

    # The first reaches its call with the lock; then the turn is taken from it.
    with suppress(RaceTestError):
        number = race_test(
            emulator,
            work,
            setup=done.clear,
            check=lambda: len(done) == 2,
            copies=2,
            replay="1 2 1 2",
        )
    assert number == 1


def test_an_actor_that_is_busy_is_not_stuck(emulator: Emulator, queue: Queue) -> None:
    """It computes for longer than others wait for it, and nobody else is there."""

    def compute() -> None:
        end = time.thread_time() + 2.5
        while time.thread_time() < end:
            pass
        queue.fetch_statistics()

    with pytest.raises(AssertionError, match="there is only one actor"):
        race_test(emulator, compute, setup=lambda: None, check=lambda: True, clock=False)


def test_a_sleep_lets_others_go_on(emulator: Emulator, queue: Queue, clock: ManualClock) -> None:
    order: list[str] = []

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

    start = clock.now()
    actors = (slow, quick)
    race_test(
        emulator, *actors, setup=order.clear, check=check_without_time, replay="1 2 0 2x2 0 1"
    )
    assert clock.now() - start == timedelta(seconds=30)
    assert race_test(emulator, *actors, setup=order.clear, check=check) > 5
    # Without time as an actor it moves where all sleep, and not further than the first wakes.
    options: dict[str, Any] = {"clock": False, "preemptions": 0}
    race_test(emulator, *actors, setup=order.clear, check=check_without_time, **options)


def test_a_sleep_of_no_time_lets_others_go_on(emulator: Emulator, queue: Queue) -> None:
    ready = threading.Event()

    def wait() -> None:
        while not ready.is_set():
            time.sleep(0)  # noqa: TID251 - lets others go on

    def get_ready() -> None:
        queue.fetch_statistics()
        ready.set()

    race_test(emulator, wait, get_ready, setup=ready.clear, check=ready.is_set)


def test_all_actors_that_sleep_for_no_time_go_on_before_the_clock_moves(
    emulator: Emulator,
) -> None:
    count = [0]

    def increase() -> None:
        value = count[0]
        time.sleep(0)  # noqa: TID251 - lets others go on
        count[0] = value + 1

    with pytest.raises(RaceTestError) as caught:
        race_test(
            emulator,
            increase,
            setup=lambda: count.__setitem__(0, 0),
            check=lambda: count == [2],
            copies=2,
        )

    assert not any(step.startswith("time:") for step in caught.value.schedule)
