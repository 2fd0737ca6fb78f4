"""Calls of the SDK's client that are not waited for, or waited for later."""

from __future__ import annotations

import pytest
from sdk_calls import pull

from pullqueue.sdk.imports import apiproxy_stub_map, taskqueue

pytestmark = pytest.mark.usefixtures("stub")

UserRPC = apiproxy_stub_map.UserRPC


def test_a_call_nobody_waits_for_is_made() -> None:
    queue = taskqueue.Queue("pull")
    queue.add_async([pull(), pull()])

    assert queue.fetch_statistics().tasks == 2
    assert queue.add_async([]).get_result() == []


def test_wait_any_returns_each_call() -> None:
    rpcs = [
        taskqueue.Queue("pull").add_async(pull()),
        taskqueue.Queue("nowhere").add_async(pull()),
        taskqueue.Queue("pull").lease_tasks_async(60, 1),
    ]
    pending = set(rpcs)
    while pending:
        finished = UserRPC.wait_any(pending)
        assert finished in pending
        pending.remove(finished)

    assert [task.payload for task in rpcs[2].get_result()] == [b"work"]
    with pytest.raises(taskqueue.UnknownQueueError):
        rpcs[1].get_result()


@pytest.mark.parametrize("queue", ["pull", "nowhere"])
@pytest.mark.parametrize("wait", ["wait", "wait_any", "wait_all"])
def test_a_callback_runs_once_when_waited_for(queue: str, wait: str) -> None:
    called: list[str] = []
    rpc = taskqueue.create_rpc(callback=lambda: called.append("called"))
    taskqueue.Queue(queue).add_async(pull(), rpc=rpc)
    before = list(called)

    if wait == "wait":
        rpc.wait()
    else:
        getattr(UserRPC, wait)([rpc])
    rpc.wait()

    assert (before, called) == ([], ["called"])


def test_a_callback_may_ask_for_the_result_and_its_error_is_raised() -> None:
    def fail() -> None:
        raise ValueError(f"in the callback of {rpc.get_result().name}")

    rpc = taskqueue.create_rpc(callback=fail)
    taskqueue.Queue("pull").add_async(pull(name="mine"), rpc=rpc)

    with pytest.raises(ValueError, match="in the callback of mine"):
        rpc.wait()
