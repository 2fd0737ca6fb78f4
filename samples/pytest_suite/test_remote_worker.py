"""The worker outside App Engine, over HTTP or without a socket."""

from __future__ import annotations

import pytest
import requests
from remote_worker import RemoteWorker

from pullqueue import Emulator, InternalError, Queue
from pullqueue.testing import Faults, assert_empty, crash_test
from pytest_pullqueue import InterceptedRequests, LiveServer


@pytest.fixture
def queue(pullqueue_emulator: Emulator) -> Queue:
    """Return the queue in the emulator."""
    return pullqueue_emulator.queue("receipts")


def test_over_http(queue: Queue, pullqueue_server: LiveServer) -> None:
    """A server serves the queues of the test."""
    queue.add("receipt 7")
    worker = RemoteWorker(pullqueue_server.token("worker@example.com"), root=pullqueue_server.url)

    worker.work()

    assert worker.printed == [b"receipt 7"]
    assert_empty(queue)


@pytest.mark.pullqueue(acl=True)
def test_without_a_socket(queue: Queue, pullqueue_responses: InterceptedRequests) -> None:
    """Requests to Google's address are answered in process, and need a token."""
    queue.add("receipt 7")

    RemoteWorker(pullqueue_responses.token("worker@example.com")).work()

    assert_empty(queue)
    with pytest.raises(requests.HTTPError, match="403"):
        RemoteWorker(pullqueue_responses.token("stranger@example.com")).work()


def test_a_bad_day(pullqueue_responses: InterceptedRequests, pullqueue_faults: Faults) -> None:
    """Faults affect every interface; over REST they are HTTP statuses."""
    pullqueue_faults.fail("lease_tasks", InternalError)

    with pytest.raises(requests.HTTPError, match="500"):
        RemoteWorker(pullqueue_responses.token("worker@example.com")).work()


@pytest.mark.usefixtures("pullqueue_clock")
def test_crashes(queue: Queue, pullqueue_emulator: Emulator, pullqueue_server: LiveServer) -> None:
    """A worker that uses the server can be killed, too; a receipt is printed at most twice."""
    worker = RemoteWorker(pullqueue_server.token("worker@example.com"), root=pullqueue_server.url)

    def setup() -> None:
        worker.printed.clear()
        queue.add("receipt 7")

    def check() -> None:
        assert set(worker.printed) == {b"receipt 7"}

    crash_test(pullqueue_emulator, worker.work, setup=setup, check=check)
