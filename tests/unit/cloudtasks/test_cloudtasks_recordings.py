"""Rows of docs/recordings.csv that no fact of docs/conformance.yaml shows."""

from __future__ import annotations

from typing import Any

import pytest
from cloudtasks_api import LOCATION, PULL, PUSH, Call, refused

from pullqueue import Emulator, ManualClock
from pullqueue.cloudtasks.versions import V2
from pullqueue.config.model import QueueConfig
from pullqueue.push.request import PushRequest
from pullqueue.testing import run_tasks

VERSION = V2
TASK = f"{PUSH}/tasks/one"
URL = "https://api.example.com/work"
HTTP = {"name": TASK, "httpRequest": {"url": URL}}
WORKER = "worker@app.iam.gserviceaccount.com"


def test_a_task_that_is_answered_422_is_sent_again(call: Call, emulator: Emulator) -> None:
    call("CreateTask", parent=PUSH, task=HTTP)
    answers = iter([422, 200])

    attempts = run_tasks(emulator, send=lambda _: next(answers), until="empty")

    assert [attempt.status for attempt in attempts] == [422, 200]


@pytest.mark.usefixtures("server")
def test_an_id_token_is_made_when_its_task_is_sent(call: Call, emulator: Emulator) -> None:
    request = {"url": URL, "oidcToken": {"serviceAccountEmail": WORKER}}
    call("CreateTask", parent=PUSH, task={**HTTP, "httpRequest": request})
    [task] = emulator.queue("push").list_tasks()

    [attempt] = run_tasks(emulator, send=lambda _: 200)

    assert task.request is not None
    assert "Authorization" not in dict(task.request.headers)
    assert attempt.request.headers["Authorization"].startswith("Bearer ")


@pytest.mark.parametrize(("seconds", "code"), [(599, None), (600, None), (600.1, 4)])
def test_without_a_dispatch_deadline_a_target_has_ten_minutes(
    call: Call, emulator: Emulator, clock: ManualClock, seconds: float, code: int | None
) -> None:
    """4 is DEADLINE_EXCEEDED."""
    call("CreateTask", parent=PUSH, task=HTTP)

    def answer(_: PushRequest) -> int:
        clock.advance(seconds)
        return 200

    run_tasks(emulator, send=answer, follow=False)
    left: list[dict[str, Any]] = call("ListTasks", parent=PUSH).get("tasks", [])

    assert [task["lastAttempt"]["responseStatus"]["code"] for task in left] == [code] * bool(code)


def test_a_queue_that_left_queue_yaml_takes_tasks_and_keeps_its_name(
    call: Call, emulator: Emulator
) -> None:
    emulator.reconfigure(QueueConfig())

    assert call("GetQueue", name=PUSH)["state"] == "DISABLED"
    assert call("CreateTask", parent=PUSH, task=HTTP)["name"] == TASK
    assert run_tasks(emulator, send=lambda _: 200) == []
    for name in (PULL, PUSH):
        with refused("ALREADY_EXISTS", ""):
            call("CreateQueue", parent=LOCATION, queue={"name": name})
