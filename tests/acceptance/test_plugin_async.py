"""The plugin beside pytest-asyncio, anyio, trio and Hypothesis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"

ASYNCIO = ("-p", "asyncio", "-o", "asyncio_default_fixture_loop_scope=function")
"""Loads pytest-asyncio, which warns where this option is not set."""

Run = Callable[..., pytest.RunResult]


ASYNC_WORKER = """
import asyncio
import pytest
from pullqueue.testing import assert_empty, drain, drain_async

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.{marker}
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

    with pytest.raises(TypeError, match="was not awaited: use `await drain_async"):
        drain(pullqueue_emulator, work)
    assert await drain_async(pullqueue_emulator, work) == 1
    assert_empty(queue)
    assert 15 < (pullqueue_clock.now() - start).total_seconds() < 60

@pytest.mark.{marker}
async def test_sleep(pullqueue_clock):
    start = pullqueue_clock.now()
    await asyncio.wait_for(asyncio.sleep(0.001), 5)
    assert pullqueue_clock.now() == start
    with pullqueue_clock.auto_advance():
        await asyncio.sleep(1000)
    assert (pullqueue_clock.now() - start).total_seconds() == 1000
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
"""


@pytest.mark.parametrize(("marker", "options"), [("asyncio", ASYNCIO), ("anyio", ())])
def test_asynchronous_workers(run: Run, marker: str, options: tuple[str, ...]) -> None:
    """drain_async empties the queues under either plugin, sleeps move the clock, timeouts end."""
    run(ASYNC_WORKER.format(marker=marker), *options).assert_outcomes(passed=2)


def test_a_worker_that_asks_the_server(run: Run) -> None:
    """An asynchronous worker whose calls are made in threads, over HTTP, is stopped as well."""
    result = run(
        """
        import asyncio
        import pytest
        import requests
        from pullqueue.testing import assert_empty, drain_async

        @pytest.mark.asyncio
        async def test_drain(pullqueue_emulator, pullqueue_clock, pullqueue_server):
            queue = pullqueue_emulator.queue("pull-queue")
            for _ in range(3):
                queue.add("work")
            url = pullqueue_server.url + "/taskqueue/v1beta2/projects/p/taskqueues/pull-queue/tasks"

            async def work():
                while True:
                    answer = await asyncio.to_thread(
                        requests.post, url + "/lease?leaseSecs=60&numTasks=1")
                    for item in answer.json().get("items", ()):
                        await asyncio.to_thread(requests.delete, f"{url}/{item['id']}")

            assert await drain_async(pullqueue_emulator, work) == 1
            assert_empty(queue)
        """,
        *ASYNCIO,
    )

    result.assert_outcomes(passed=1)


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
            assert time.time() == pullqueue_clock.now().timestamp() == 1767225600
            assert len(await anyio.to_thread.run_sync(queue.lease_tasks, 60, 1)) == 1
            pullqueue_clock.advance(3600)
            await trio.sleep(0.001)
            assert time.time() == 1767229200
    """)

    result.assert_outcomes(passed=1)


def test_hypothesis(run: Run) -> None:
    """A deadline measures real time, and each example can have an emulator of its own."""
    result = run("""
        import time
        from hypothesis import HealthCheck, given, settings, strategies as st
        from pullqueue.testing import emulation

        examples = []

        @given(st.integers(1, 100_000))
        @settings(deadline=2000, max_examples=30,
                  suppress_health_check=[HealthCheck.function_scoped_fixture])
        def test_deadline(pullqueue_emulator, pullqueue_clock, seconds):
            before = time.time()
            pullqueue_clock.advance(seconds)
            assert time.time() == before + seconds

        @given(st.lists(st.binary(), max_size=5))
        @settings(deadline=2000, max_examples=30)
        def test_examples(payloads):
            with emulation(queues=["jobs"]) as emulated:
                queue = emulated.emulator.queue("jobs")
                for payload in payloads:
                    queue.add(payload)
                assert [task.payload for task in queue.lease_tasks(60, 10)] == payloads
                emulated.clock.advance(3600)
                examples.append(payloads)

        def test_there_were_many():
            assert len(examples) > 10
    """)

    result.assert_outcomes(passed=3)


def test_emulations_of_other_scopes(run: Run) -> None:
    """A module's emulator lives beside those of the tests, with a clock of its own."""
    result = run("""
        import pytest
        from pullqueue.testing import emulation

        @pytest.fixture(scope="module")
        def shared():
            with emulation(queues=["jobs"], sdk=True, server=True) as shared:
                yield shared

        @pytest.mark.parametrize("n", [1, 2])
        def test_shared(shared, n):
            queue = shared.emulator.queue("jobs")
            queue.add()
            assert queue.fetch_statistics().tasks == n
            shared.clock.advance(10)
            queue.lease_tasks(60, 10)
            shared.clock.expire_leases()

        def test_both(shared, pullqueue_emulator, pullqueue_clock, pullqueue_server):
            import requests
            before = shared.clock.now()
            pullqueue_clock.advance(1000)
            assert shared.clock.now() == before
            assert pullqueue_server.url != shared.server.url
            path = "/taskqueue/v1beta2/projects/p/taskqueues/jobs/tasks"
            assert len(requests.get(shared.server.url + path).json()["items"]) == 2
            assert requests.get(pullqueue_server.url + path).status_code == 404
    """)

    result.assert_outcomes(passed=3)
