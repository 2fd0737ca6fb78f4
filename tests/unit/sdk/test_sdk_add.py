"""Adding tasks through the SDK's client, and calls of it that are waited for later, or not."""

from __future__ import annotations

from typing import Any

import pytest
from sdk_calls import call, pull
from tables import each_row

from pullqueue import ManualClock
from pullqueue.sdk.deferred import deferred
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_stub_map, messages, taskqueue

pytestmark = pytest.mark.usefixtures("stub")

OK, SKIPPED = 0, 17


def bulk_add(*adds: dict[str, Any]) -> Any:
    """Send a BulkAdd past the client's checks and return the results."""
    defaults = {"queue_name": b"pull", "task_name": b"", "eta_usec": 0, "mode": 1}
    requests = [messages.TaskQueueAddRequest(**(defaults | fields)) for fields in adds]
    return call("BulkAdd", add_request=requests).taskresult


def test_the_name_of_a_deferred_call_stays_reserved_for_days(clock: ManualClock) -> None:
    deferred.defer(print, _name="daily", _queue="push")
    taskqueue.Queue("push").delete_tasks_by_name("daily")
    clock.advance(7 * 86400 - 0.000001)

    with pytest.raises(taskqueue.TombstonedTaskError):
        deferred.defer(print, _name="daily", _queue="push")
    clock.advance(0.000001)
    deferred.defer(print, _name="daily", _queue="push")


def test_names_in_use_and_new_ones_in_a_batch() -> None:
    queue = taskqueue.Queue("pull")
    queue.add([pull(b"old", name="here"), pull(name="gone")])
    queue.delete_tasks_by_name("gone")

    names = [{"task_name": name} for name in (b"here", b"gone", b"new", b"", b"")]
    results = bulk_add(*names)

    assert [result.result for result in results] == [
        messages.TaskQueueServiceError.TASK_ALREADY_EXISTS,
        messages.TaskQueueServiceError.TOMBSTONED_TASK,
        *(OK, OK, OK),
    ]
    generated = [result.chosen_task_name.decode() for result in results[3:]]
    assert [task.name for task in queue.lease_tasks(60, 9)] == ["new", *generated, "here"]


def test_a_batch_with_an_invalid_task_adds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    taskqueue.Queue("pull").add(pull(name="here"))

    results = bulk_add({"task_name": b"here"}, {"tag": b"\xff"}, {}, {"eta_usec": -1})

    assert [result.result for result in results] == [
        SKIPPED,
        messages.TaskQueueServiceError.INVALID_TAG,
        SKIPPED,
        messages.TaskQueueServiceError.INVALID_ETA,
    ]
    text = r'queue "pull": a batch of 4 was not added: tag is "\xff": use text in UTF-8'
    assert [record.getMessage() for record in caplog.records] == [text]
    assert taskqueue.Queue("pull").fetch_statistics().tasks == 1


@each_row(
    ("adds", "code", "text"),
    [
        ([{"tag": b"\xff"}], 27, r'tag is "\xff": use text in UTF-8'),
        ([{"task_name": b"a b"}], 5, 'task name is "a b"'),
        ([{"task_name": b"\xff"}], 5, r'task name is "\xff"'),
        ([{"eta_usec": -1}], 12, "eta is -1 microseconds"),
        ([{"eta_usec": 2**62}], 12, "use microseconds since 1970, in the years 1 to 9999"),
        ([{"body": b"x" * 2**20 + b"x"}], 4, "payload has 1048577 bytes"),
        ([{"queue_name": b"nowhere"}], 1, 'queue "nowhere" is not in'),
        (
            [{"queue_name": b"push"}],
            21,
            '"push" is a push queue: add its tasks without method="PULL"',
        ),
        ([{"mode": 0}], 21, 'queue "pull" is a pull queue: add its tasks with method="PULL"'),
        ([{}] * 101, 18, "101 tasks in one batch"),
    ],
)
def test_what_is_invalid_is_refused_with_a_sentence(
    adds: list[dict[str, Any]], code: int, text: str
) -> None:
    with pytest.raises(apiproxy_errors.ApplicationError) as refused:
        bulk_add(*adds)

    assert refused.value.application_error == code
    assert text in refused.value.error_detail
    assert taskqueue.Queue("pull").fetch_statistics().tasks == 0


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
