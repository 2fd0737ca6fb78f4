"""Who did it: events name the requests they were part of, and requests name their tasks."""

from __future__ import annotations

from typing import Any

import requests
from control_client import ControlClient

from pullqueue import Emulator
from pullqueue.api.auth import ACCEPTED_SCOPES
from pullqueue.server.lifecycle import Server

QUEUE = "/taskqueue/v1beta2/projects/app/taskqueues/pull"
JSON = {"payloadBase64": "YQ=="}
WITH_ACL = """\
queue:
- {name: pull, mode: pull, acl: [{user_email: worker@example.com}]}
"""


def events_of(control: ControlClient, task: str) -> list[tuple[Any, ...]]:
    """Return what is known of the origin of each event of a task."""
    events = control.get(f"/queues/pull/tasks/{task}/history").body["events"]
    return [(e["kind"], e["interface"], e["client"], e["request"]) for e in events]


def test_events_and_requests_name_each_other(
    control: ControlClient, emulator: Emulator, server: Server
) -> None:
    """Each event has interface, client and request; each request its tasks and their number."""
    worker = {"User-Agent": "worker/1.0"}
    tasks = f"{server.url}{QUEUE}/tasks"
    requests.post(tasks, json={**JSON, "id": "t1"}, headers=worker, timeout=60)
    requests.post(f"{tasks}/lease?leaseSecs=60&numTasks=9", headers=worker, timeout=60)
    control.post("/queues/pull/tasks/t1/lease", {"lease_seconds": 0})
    emulator.queue("pull").lease_tasks(60, 1)
    control.post("/clock", {"advance": 60})
    emulator.queue("pull").delete_tasks("t1")
    requests.get(f"{tasks}/t1", headers=worker, timeout=60)

    assert events_of(control, "t1") == [
        ("added", "REST", "worker/1.0", 1),
        ("leased", "REST", "worker/1.0", 2),
        ("released", "control", "", None),
        ("leased", "Python", "", None),
        ("lease expired", None, "", None),
        ("deleted", "Python", "", None),
    ]
    logged = control.get("/requests?task=t1").body["requests"]
    assert [(one["number"], one["tasks"], one["task_count"]) for one in logged] == [
        (3, ["t1"], 1),
        (2, ["t1"], 1),
        (1, ["t1"], 1),
    ]


def test_the_client_is_the_owner_of_the_token() -> None:
    """Where tokens are required, events name the e-mail address."""
    emulator = Emulator.from_text(WITH_ACL)
    emulator.queue("pull").add(name="t1")
    with Server(emulator, acl=True) as server:
        token = server.tokens.issue("worker@example.com", ACCEPTED_SCOPES).text
        url = f"{server.url}{QUEUE}/tasks/lease?leaseSecs=60&numTasks=1"
        requests.post(url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

        [_, leased] = emulator.queue("pull").history("t1")
        assert leased.origin is not None
        assert leased.origin.client == "worker@example.com"


def test_numbers_of_another_server_are_not_shown(emulator: Emulator) -> None:
    """Its request log is not here: only interface and client are shown."""
    with Server(emulator) as other, Server(emulator) as server:
        requests.post(f"{other.url}{QUEUE}/tasks", json={**JSON, "id": "t1"}, timeout=60)

        [(_, interface, _, number)] = events_of(ControlClient(server), "t1")
        assert (interface, number) == ("REST", None)
        assert events_of(ControlClient(other), "t1")[0][-1] == 1
