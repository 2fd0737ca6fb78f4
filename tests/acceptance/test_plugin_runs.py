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


def test_a_run_without_plugins_of_pytest_passes_with_warnings_as_errors(
    pytester: pytest.Pytester,
) -> None:
    without = [f"-pno:{name}" for name in ("cacheprovider", "capture", "logging", "terminal")]
    options = ("--import-mode=importlib", "--strict-markers", "--strict-config", "-prandomly")
    pytester.makepyfile(test_it=SUITE)

    assert pytester.runpytest("-Werror", *options, *without).ret == pytest.ExitCode.OK
