"""The plugin beside anyio, trio and Hypothesis; docs/how-to/testing/async.md has pytest-asyncio."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"

Run = Callable[..., pytest.RunResult]


def test_anyio(run: Run) -> None:
    """drain_async empties the queues, sleeps move the clock, and timeouts use the real time."""
    result = run("""
        import asyncio
        import pytest
        from pullqueue.testing import assert_empty, drain_async

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_drain(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            start = pullqueue_clock.now()
            for _ in range(3):
                queue.add("work")

            async def work():
                while True:
                    for task in queue.lease_tasks(60, 1):
                        await asyncio.sleep(5)
                        queue.delete_tasks(task)
                    await asyncio.sleep(1)

            assert await drain_async(pullqueue_emulator, work) == 1
            assert_empty(queue)
            assert 15 < (pullqueue_clock.now() - start).total_seconds() < 60

        @pytest.mark.anyio
        async def test_sleep(pullqueue_clock):
            start = pullqueue_clock.now()
            await asyncio.wait_for(asyncio.sleep(0.001), 60)
            assert pullqueue_clock.now() == start
            with pullqueue_clock.auto_advance():
                await asyncio.sleep(1000)
            assert (pullqueue_clock.now() - start).total_seconds() == 1000
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
    """)

    result.assert_outcomes(passed=2)


def test_trio(run: Run) -> None:
    """Its sleeps and deadlines use the real time, while the code in them sees the frozen one."""
    result = run("""
        import time
        import anyio
        import pytest
        import trio

        @pytest.fixture
        def anyio_backend():
            return "trio"

        @pytest.mark.anyio
        async def test_sleep(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            await trio.sleep(0.001)
            with pytest.raises(trio.TooSlowError), trio.fail_after(0.01):
                await trio.sleep_forever()
            with anyio.move_on_after(0.01) as scope:
                await anyio.sleep(60)
            assert scope.cancelled_caught
            assert len(await anyio.to_thread.run_sync(queue.lease_tasks, 60, 1)) == 1
            pullqueue_clock.advance(3600)
            await trio.sleep(0.001)
            assert time.time() == 1767229200
    """)

    result.assert_outcomes(passed=1)


def test_hypothesis(run: Run) -> None:
    """A deadline measures real time, however far an example moves the clock."""
    result = run("""
        import time
        from datetime import timedelta
        from hypothesis import HealthCheck, given, settings, strategies as st

        @given(st.integers(7200, 100_000))
        @settings(deadline=timedelta(hours=1), max_examples=3,
                  suppress_health_check=[HealthCheck.function_scoped_fixture])
        def test_deadline(pullqueue_clock, seconds):
            before = time.time()
            pullqueue_clock.advance(seconds)
            assert time.time() == before + seconds
    """)

    result.assert_outcomes(passed=1)


def test_an_emulation_of_a_module(run: Run) -> None:
    """A module's emulator lives beside those of the tests, with a clock and a server of its own."""
    result = run("""
        import pytest
        import requests
        from pullqueue.testing import emulation

        @pytest.fixture(scope="module")
        def shared():
            with emulation(queues=["jobs"], sdk=True, server=True) as shared:
                yield shared

        @pytest.mark.parametrize("n", [1, 2])
        def test_both(shared, pullqueue_clock, pullqueue_server, n):
            shared.emulator.queue("jobs").add()
            before = shared.clock.now()
            pullqueue_clock.advance(1000)
            assert shared.clock.now() == before
            path = "/taskqueue/v1beta2/projects/p/taskqueues/jobs/tasks"
            assert len(requests.get(shared.server.url + path).json()["items"]) == n
            assert requests.get(pullqueue_server.url + path).status_code == 404
    """)

    result.assert_outcomes(passed=2)
