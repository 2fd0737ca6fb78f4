"""The plugin beside anyio, trio and Hypothesis; docs/how-to/testing/time.md has pytest-asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pullqueue import SystemClock
from pullqueue.testing import Emulation, emulation
from pytest_pullqueue import FixtureClock, LiveServer

pytestmark = pytest.mark.pullqueue(queues=["pull-queue"])

Run = Callable[..., pytest.RunResult]
now = SystemClock().now
"""Returns the time that the process sees."""


def test_sleeps_of_asyncio_and_trio_use_the_real_time_outside_auto_advance(run: Run) -> None:
    source = """
import asyncio
import anyio, pytest, trio
from pullqueue import SystemClock

pytestmark = [pytest.mark.anyio, pytest.mark.pullqueue(queues=["pull-queue"])]

@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_sleeps_use_the_real_time_outside_auto_advance(pullqueue_clock):
    start = pullqueue_clock.now()
    await asyncio.wait_for(asyncio.sleep(0.001), 60)
    assert pullqueue_clock.now() == start
    with pullqueue_clock.auto_advance():
        await asyncio.sleep(1000)
    assert (pullqueue_clock.now() - start).total_seconds() == 1000
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_sleeps_use_the_real_time_where_time_is_frozen(pullqueue_emulator, pullqueue_clock):
    queue = pullqueue_emulator.queue("pull-queue")
    queue.add()
    await trio.sleep(0.001)
    with pytest.raises(trio.TooSlowError), trio.fail_after(0.01):
        await trio.sleep_forever()
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep(60)
    assert scope.cancelled_caught
    assert len(await anyio.to_thread.run_sync(queue.lease_tasks, 60, 1)) == 1
    end = pullqueue_clock.advance(3600)
    await trio.sleep(0.001)
    assert SystemClock().now() == end
"""
    run(source, "-p", "anyio").assert_outcomes(passed=2)


@given(st.integers(7200, 100_000))
@settings(
    deadline=timedelta(hours=1),
    max_examples=3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_deadline_of_hypothesis_measures_real_time(
    pullqueue_clock: FixtureClock, seconds: int
) -> None:
    before = now()

    pullqueue_clock.advance(seconds)

    assert now() == before + timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulation]:
    with emulation(queues=["jobs"], sdk=True, server=True) as shared:
        yield shared


def test_an_emulation_of_a_module(
    shared: Emulation, pullqueue_clock: FixtureClock, pullqueue_server: LiveServer
) -> None:
    shared.emulator.queue("jobs").add()
    before = shared.clock.now()

    pullqueue_clock.advance(1000)

    assert shared.clock.now() == before
    path = "/taskqueue/v1beta2/projects/p/taskqueues/jobs/tasks"
    assert len(requests.get(shared.server.url + path, timeout=60).json()["items"]) == 1
    assert requests.get(pullqueue_server.url + path, timeout=60).status_code == 404
