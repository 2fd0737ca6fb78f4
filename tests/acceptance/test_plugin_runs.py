"""The plugin in the ways that pytest is run."""

from __future__ import annotations

import pytest

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"
SUITE = """
import pytest

@pytest.mark.parametrize("n", range(6))
def test_flow(pullqueue_emulator, pullqueue_clock, n):
    queue = pullqueue_emulator.queue("pull-queue")
    assert queue.fetch_statistics().tasks == 0
    queue.add(name="one")
    queue.lease_tasks(60, 1)
    pullqueue_clock.expire_leases()
    assert queue.lease_tasks(60, 1)[0].retry_count == 2

@pytest.mark.parametrize("n", range(2))
def test_server(pullqueue_server, n):
    import requests
    path = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"
    assert requests.get(pullqueue_server.url + path).status_code == 200
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of eight tests."""
    pytester.path.joinpath("queue.yaml").write_text(QUEUE_YAML)
    pytester.makepyfile(test_it=SUITE)
    return pytester


@pytest.mark.parametrize(
    "arguments",
    [
        ["-n", "2"],
        ["-n", "2", "-p", "randomly"],
        ["-p", "randomly", "-p", "no:xdist"],
        ["--import-mode=importlib"],
        ["--import-mode=append", "-p", "no:cacheprovider"],
        ["-p", "no:terminal", "-p", "no:logging"],
        ["--strict-markers", "--strict-config", "-p", "no:capture"],
    ],
)
def test_ways_to_run(suite: pytest.Pytester, arguments: list[str]) -> None:
    """Each of them passes under -W error."""
    if "-n" in arguments:
        pytest.importorskip("xdist")

    result = suite.runpytest_subprocess("-W", "error", *arguments)

    assert result.ret == pytest.ExitCode.OK


def test_asynchronous_tests(pytester: pytest.Pytester) -> None:
    """Tests that are coroutines have the fixtures, and their sleeps end."""
    pytest.importorskip("anyio")
    pytester.path.joinpath("queue.yaml").write_text(QUEUE_YAML)
    pytester.makepyfile("""
        import asyncio
        import time
        import anyio
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_async(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            await anyio.to_thread.run_sync(queue.add)
            assert len(queue.lease_tasks(60, 1)) == 1
            await asyncio.sleep(0.001)
            pullqueue_clock.advance(60)
            with anyio.fail_after(5):
                await anyio.sleep(0.001)
            assert len(queue.lease_tasks(60, 1)) == 1
            assert pullqueue_clock.now().timestamp() == time.time()
    """)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_two_emulators_in_threads(pytester: pytest.Pytester) -> None:
    """Threads of one test share its queues, and each task goes to one of them."""
    pytester.path.joinpath("queue.yaml").write_text(QUEUE_YAML)
    pytester.makepyfile("""
        from concurrent.futures import ThreadPoolExecutor

        def test_threads(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            for _ in range(200):
                queue.add()
            def work(_):
                return [task.name for task in queue.lease_tasks(60, 5)]
            with ThreadPoolExecutor(8) as threads:
                names = sum(threads.map(work, range(40)), [])
            assert len(names) == len(set(names)) == 200
    """)

    result = pytester.runpytest_subprocess("-W", "error")

    result.assert_outcomes(passed=1)
