"""The plugin in the ways that pytest is run; test_stores_plugin.py has workers of xdist."""

from __future__ import annotations

import pytest

SUITE = """
import pytest
import requests

pytestmark = pytest.mark.pullqueue(queues=["pull-queue"])

@pytest.mark.parametrize("n", range(2))
def test_flow(pullqueue_emulator, pullqueue_clock, n):
    queue = pullqueue_emulator.queue("pull-queue")
    assert queue.fetch_statistics().tasks == 0
    queue.add(name="one")
    queue.lease_tasks(60, 1)
    pullqueue_clock.expire_leases()
    assert queue.lease_tasks(60, 1)[0].retry_count == 2

@pytest.mark.parametrize("n", range(2))
def test_server(pullqueue_server, n):
    path = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"
    assert requests.get(pullqueue_server.url + path).status_code == 200
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "randomly", "-p", "no:xdist", "-p", "no:terminal", "-p", "no:logging"],
        ["--import-mode=append", "-p", "no:cacheprovider"],
        ["--import-mode=importlib", "--strict-markers", "--strict-config", "-p", "no:capture"],
    ],
)
def test_each_way_to_run_passes_with_warnings_as_errors(
    pytester: pytest.Pytester, arguments: list[str]
) -> None:
    pytester.makepyfile(test_it=SUITE)

    assert pytester.runpytest("-W", "error", *arguments).ret == pytest.ExitCode.OK
