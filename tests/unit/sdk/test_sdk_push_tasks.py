"""Push tasks of the SDK in the engine: what is stored, and that Google's methods show the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from sdk_calls import call, queueinfo

from pullqueue import Emulator, HttpRequest, ManualClock, RetryParameters
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.sdk import install
from pullqueue.sdk.imports import apiproxy_stub_map, messages, taskqueue, taskqueue_stub
from pullqueue.sdk.stub import seconds_of
from pullqueue.tasks import Task

_RETRY = taskqueue.TaskRetryOptions(task_retry_limit=7, min_backoff_seconds=2, max_doublings=1)


def added(emulator: Emulator, **options: Any) -> Task:
    name = taskqueue.add(queue_name="push", **options).name
    return emulator.queue("push").get_task(name)


def headers_of(task: Task) -> dict[str, str]:
    assert task.request is not None
    return {name.lower(): value for name, value in task.request.headers}


def test_a_task_is_stored_with_all_its_options(
    stub: Any, emulator: Emulator, clock: ManualClock
) -> None:
    task = added(
        emulator,
        url="/mail",
        params={"to": "ada", "cc": ["bob", "eve"]},
        headers={"X-Mine": "7", "X-AppEngine-FailFast": "true"},
        countdown=90,
        retry_options=_RETRY,
        dispatch_deadline_usec=30_000_000,
    )

    assert task.request is not None
    assert task.request[:2] == ("/mail", "POST")
    assert task.request.retry == RetryParameters(
        task_retry_limit=7, min_backoff_seconds=2, max_doublings=1
    )
    assert task.request.deadline_seconds == 30
    assert sorted(task.payload.split(b"&")) == [b"cc=bob", b"cc=eve", b"to=ada"]
    assert task.eta_usec == clock.now_usec() + 90_000_000
    assert headers_of(task).items() >= {
        ("x-mine", "7"),
        ("x-appengine-failfast", "true"),
        ("x-appengine-current-namespace", ""),
        ("content-type", "application/x-www-form-urlencoded"),
    }


@pytest.mark.parametrize(
    ("options", "request_", "payload"),
    [
        ({}, HttpRequest("/_ah/queue/push"), b""),
        ({"url": "/a", "method": "GET", "params": {"b": "c"}}, HttpRequest("/a?b=c", "GET"), b""),
        ({"url": "/a", "method": "PUT", "payload": "ü"}, HttpRequest("/a", "PUT"), b"\xc3\xbc"),
        ({"url": "/a", "method": "DELETE"}, HttpRequest("/a", "DELETE"), b""),
    ],
)
def test_the_method_of_a_task_says_where_its_params_are(
    stub: Any, emulator: Emulator, options: Any, request_: HttpRequest, payload: bytes
) -> None:
    task = added(emulator, **options)

    assert task.request is not None
    assert (task.request[:2], task.payload) == (request_[:2], payload)


@pytest.mark.parametrize(
    ("hostname", "options", "target"),
    [
        (None, {}, None),
        (None, {"target": "worker"}, "worker"),
        (None, {"target": "v1.worker"}, "v1.worker"),
        ("app.appspot.com", {"target": "worker"}, "worker"),
        ("app.appspot.com", {}, None),
        *(
            (None, {"headers": {"Host": host}}, target)
            for host, target in (
                ("worker-dot-app.appspot.com", "worker"),
                ("v1-dot-worker-dot-app.appspot.com", "v1.worker"),
                ("worker.app.uc.r.appspot.com", "worker"),
                ("v1-dot-worker-dot-app.uc.r.appspot.com", "v1.worker"),
                ("worker-dot-localhost", "worker"),
                ("app.uc.r.appspot.com", None),
                ("app.appspot.com", None),
                ("example.com", None),
            )
        ),
    ],
)
def test_the_target_of_a_task_is_kept_and_found_in_a_host_of_app_engine(
    stub: Any, emulator: Emulator, hostname: str | None, options: Any, target: str | None
) -> None:
    with patch.dict(os.environ, {"DEFAULT_VERSION_HOSTNAME": hostname} if hostname else {}):
        task = added(emulator, url="/a", **options)

    assert task.request is not None
    assert task.request.target == target


def test_a_batch_with_a_task_that_is_too_large_is_refused(stub: Any) -> None:
    fields = {"queue_name": b"push", "eta_usec": 0, "task_name": b"", "url": b"/a"}
    adds = [messages.TaskQueueAddRequest(**fields, body=b"." * size) for size in (10, 102_400)]

    results = call("BulkAdd", add_request=adds).taskresult

    codes = messages.TaskQueueServiceError
    assert [r.result for r in results] == [codes.SKIPPED, codes.TASK_TOO_LARGE]
    assert stub.GetTasks("push") == []


def test_a_task_without_a_url_is_sent_to_that_of_its_queue(stub: Any) -> None:
    """The client always has one."""
    call("Add", queue_name=b"push", eta_usec=0, task_name=b"")

    assert [task["url"] for task in stub.GetTasks("push")] == ["/_ah/queue/push"]


def test_statistics_of_a_push_queue_are_exact(stub: Any, emulator: Emulator) -> None:
    queue = emulator.queue("push")
    first = added(emulator, url="/a")
    added(emulator, url="/b")
    start_attempt(queue, first, lease_seconds=600, attempts=first.attempts)

    numbers = taskqueue.Queue("push").fetch_statistics()

    assert (numbers.tasks, numbers.in_flight, numbers.executed_last_minute) == (2, 1, 1)
    assert numbers.enforced_rate == 5.0


def test_a_dict_of_a_task_shows_how_its_attempt_ended(
    stub: Any, emulator: Emulator, clock: ManualClock
) -> None:
    queue = emulator.queue("push")
    task = added(emulator, url="/a", name="a", retry_options=_RETRY)
    start_usec = clock.now_usec()
    attempts = task.attempts._replace(
        first_usec=start_usec, schedule_usec=start_usec, dispatched_usec=start_usec
    )
    running = start_attempt(queue, task, lease_seconds=600, attempts=attempts)
    clock.advance(3)
    finish_attempt(
        queue,
        running,
        attempts=attempts._replace(
            finished=1, responses=1, executions=1, status=503, ended_usec=clock.now_usec()
        ),
        backoff_seconds=7,
    )
    (shown,) = stub.GetTasks("push")
    headers = dict(shown["headers"])
    assert shown["url"] == "/a"
    assert headers["X-AppEngine-TaskRetryCount"] == "1"
    assert headers["X-AppEngine-TaskExecutionCount"] == "1"
    assert headers["X-AppEngine-TaskPreviousResponse"] == "503"
    assert shown["eta_usec"] == clock.now_usec() + 7_000_000


def add_examples() -> None:
    taskqueue.add(url="/form", name="form", params={"a": "1"}, queue_name="default")
    taskqueue.add(url="/get", name="get", params={"a": "1"}, method="GET", countdown=9)
    taskqueue.add(url="/put", name="put", payload=b"\xff", method="PUT", target="worker")
    taskqueue.add(url="/text", name="text", payload="ü", headers={"X-Mine": "ü", "x-two": "2"})
    taskqueue.add(url="/gone", name="gone")
    taskqueue.Queue().delete_tasks_by_name("gone")


def test_dicts_of_tasks_equal_those_of_googles_stub(clock: ManualClock) -> None:
    """Dicts and objects of tasks are those of Google's stub for the same adds.

    Google takes the time of a dict, and of its creation, from the machine, in whole seconds.
    """
    with install(Emulator.from_text("queue: []", clock=clock)) as stub:
        add_examples()
        ours = shown_by(stub)
        with patch.object(taskqueue_stub.TaskQueueServiceStub, "__init__", _google_init):
            google = taskqueue_stub.TaskQueueServiceStub(gettime=seconds_of(clock))
        apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", google)
        add_examples()
        assert shown_by(google) == ours


_google_init: Callable[..., None] = taskqueue_stub.TaskQueueServiceStub.__init__


def shown_by(stub: Any) -> list[Any]:
    dicts = sorted(stub.GetTasks("default"), key=lambda shown: str(shown["name"]))
    for shown in dicts:
        del shown["eta_delta"]
    (queue,) = stub.GetQueues()
    objects = sorted(stub.get_filtered_tasks(), key=lambda task: str(task.name))
    texts = [(task.url, task.payload, task.method, task.eta, task.headers) for task in objects]
    return [dicts, queue["name"], queue["tasks_in_queue"], texts]


def test_a_queue_yaml_parser_of_a_suite_configures_the_emulator(
    stub: Any, emulator: Emulator
) -> None:
    text = "queue:\n- name: parsed\n  rate: 1/s\n"
    stub.queue_yaml_parser = lambda _root: queueinfo.LoadSingleQueue(text)

    taskqueue.add(url="/a", queue_name="parsed")

    assert [shown["name"] for shown in stub.GetQueues()] == ["default", "parsed"]
    assert emulator.queue("parsed").fetch_statistics().tasks == 1


def test_methods_of_googles_group_work(stub: Any, emulator: Emulator) -> None:
    """Delete leaves a tombstone, `task_name_archive` frees the names; functions are patched.

    A task of Cloud Tasks whose method the SDK lacks is shown as a dict, not as an object.
    """
    taskqueue.add(url="/a", name="a")
    queue = stub._GetGroup().GetQueue("default")

    assert (queue.Count(), queue.GetTaskAsDict("a")["url"]) == (1, "/a")
    with patch.dict(stub.GetTasks.__globals__, _FormatEta=lambda usec: usec):
        (shown,) = stub.GetTasks("default")
    assert shown["eta"] == shown["eta_usec"]
    assert queue.Delete("a") == messages.TaskQueueServiceError.OK
    assert (queue.Count(), queue.Oldest(), queue.GetTaskAsDict("a")) == (0, None, None)
    with pytest.raises(taskqueue.TombstonedTaskError):
        taskqueue.add(url="/a", name="a")
    queue.task_name_archive.clear()
    taskqueue.add(url="/a", name="a")

    stub.Clear()
    emulator.queue("push").add(b"a", request=HttpRequest("/a", "PATCH"))
    assert [shown["method"] for shown in stub.GetTasks("push")] == ["PATCH"]
    assert stub.get_filtered_tasks() == []


def test_running_in_the_background_is_explained_in_the_log(
    stub: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        stub.EnableAutoTaskRunning()

    assert "call pullqueue.testing.run_tasks(emulator, app)" in caplog.text
