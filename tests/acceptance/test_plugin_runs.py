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
        ["-n", "2", "-p", "randomly"],
        ["-p", "randomly", "-p", "no:xdist", "-p", "no:terminal", "-p", "no:logging"],
        ["--import-mode=append", "-p", "no:cacheprovider"],
        ["--import-mode=importlib", "--strict-markers", "--strict-config", "-p", "no:capture"],
    ],
)
def test_ways_to_run(suite: pytest.Pytester, arguments: list[str]) -> None:
    """Each of them passes under -W error."""
    if "-n" in arguments:
        pytest.importorskip("xdist")

    result = suite.runpytest_subprocess("-W", "error", *arguments)

    assert result.ret == pytest.ExitCode.OK
