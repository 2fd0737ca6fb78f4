"""Sleeps in event loops and threads of others, such as those of FastAPI's test client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context, copy_context
from datetime import timedelta
from typing import Any

import pytest
from functions import adding

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import FixtureClock, crash_test, drain, race_test, run_tasks

# What tests and workers do.
sleep = time.sleep  # noqa: TID251

SECONDS = 500
"""For which no test waits; the deadline of an attempt is 600."""

Helper = Callable[..., object]


def drained(emulator: Emulator, *, setup: Callable[[], object], send: Any) -> None:
    setup()
    drain(emulator, lambda: None, send=send)


def sent(emulator: Emulator, *, setup: Callable[[], object], send: Any) -> None:
    setup()
    run_tasks(emulator, send=send)


def crashed(emulator: Emulator, **options: Any) -> None:
    crash_test(emulator, check=lambda: True, **options)


def raced(emulator: Emulator, **options: Any) -> None:
    race_test(emulator, check=lambda: True, clock=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("helper", [sent, drained, crashed, raced])
@pytest.mark.parametrize("kind", ["async", "sync", "sync, in one loop"])
def test_a_handler_of_fastapi_sleeps_by_the_clock(
    emulator: Emulator, pushed: Queue, clock: ManualClock, helper: Helper, kind: str
) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    app = FastAPI()
    start, slept = clock.now(), set()

    def work() -> None:
        pushed.fetch_statistics()
        before = clock.now()
        sleep(SECONDS)
        slept.add(clock.now() - before)

    async def work_async() -> None:
        pushed.fetch_statistics()
        before = clock.now()
        await asyncio.sleep(SECONDS)
        slept.add(clock.now() - before)

    app.post("/")(work_async if kind == "async" else work)

    client = TestClient(app)
    send = lambda request: client.request(request.method, request.url)  # noqa: E731
    with client if "loop" in kind else nullcontext():
        helper(emulator, setup=adding(pushed, "one", "two", request=HttpRequest("/")), send=send)

    assert min(slept) == timedelta(seconds=SECONDS)
    assert clock.now() - start >= timedelta(seconds=SECONDS)


@pytest.fixture
def make_clock(emulator: Emulator) -> Callable[[], FixtureClock]:
    return lambda: FixtureClock(ManualClock(), lambda: emulator)


MakeClock = Callable[[], FixtureClock]


def in_thread(context: Context, call: Callable[..., object], *args: object) -> None:
    """Call a function in another thread, in a context."""
    thread = threading.Thread(target=context.run, args=(call, *args))
    thread.start()
    thread.join()


def passed(*clocks: FixtureClock) -> list[float]:
    return [(clock.now() - ManualClock.DEFAULT_START).total_seconds() for clock in clocks]


def test_a_context_in_another_thread_is_that_of_its_blocks(make_clock: MakeClock) -> None:
    """Before the first, and after the last, its sleeps are real, and move no clock."""
    outer, inner = make_clock(), make_clock()
    before = copy_context()
    with outer.auto_advance():
        with inner.auto_advance():
            in_thread(before, sleep, 0.001)
            in_thread(before, asyncio.run, asyncio.sleep(0.001))
            context = copy_context()
            in_thread(context, sleep, SECONDS)
            asyncio.run(asyncio.to_thread(sleep, SECONDS))
        in_thread(context, sleep, SECONDS)
    in_thread(context, sleep, 0.001)

    assert passed(outer, inner) == [SECONDS, 2 * SECONDS]


def test_a_thread_that_runs_an_earlier_context_moves_the_clock_of_its_block(
    make_clock: MakeClock,
) -> None:
    """As where a test framework runs all tests of an event loop in the context of the first."""
    first, second = make_clock(), make_clock()
    before = copy_context()
    with first.auto_advance():
        context = copy_context()
        before.run(sleep, SECONDS)
        with second.auto_advance():
            context.run(sleep, SECONDS)

    assert passed(first, second) == [SECONDS, SECONDS]


def test_a_block_can_end_in_another_context(make_clock: MakeClock) -> None:
    """As that of an asynchronous fixture does."""
    clock = make_clock()
    block = clock.auto_advance()
    copy_context().run(block.__enter__)
    sleep(SECONDS)
    copy_context().run(block.__exit__, None, None, None)
    sleep(0.001)

    assert passed(clock) == [SECONDS]


def test_a_sleep_that_outlives_its_block_waits_for_the_rest(make_clock: MakeClock) -> None:
    clock = make_clock()
    with asyncio.Runner() as runner:
        with clock.auto_advance():
            task = runner.get_loop().create_task(asyncio.sleep(0.001, "slept"))
            runner.run(asyncio.sleep(0))
        assert not task.done()
        assert runner.get_loop().run_until_complete(task) == "slept"

    assert passed(clock) == [0]
