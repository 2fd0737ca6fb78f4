"""What operators did and what failed: in one list, which a reset does not delete."""

from __future__ import annotations

import logging

import pytest
from control_client import ControlClient

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.engine.events import Interface, Origin
from pullqueue.observe.request_log import Request
from pullqueue.server.lifecycle import Server
from pullqueue.structs import Bytes


def fail(
    server: Server,
    queue: str,
    *,
    method: str = "attempt 2",
    status: int = 503,
    reason: str = "no",
    client: str = "app",
) -> None:
    """Record a request that failed: an attempt, unless it has another method."""
    request = Request(
        verb="POST",
        path="/",
        method=method,
        queue=queue,
        status=status,
        milliseconds=0,
        response=Bytes.of(reason.encode()),
    )
    server.state.requests.record(request, origin=Origin(Interface.PUSH, client))


def texts(control: ControlClient) -> list[str]:
    return [each["text"] for each in control.get("/activity").body["activity"]]


def test_actions_are_recorded_and_logged(
    control: ControlClient, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pullqueue.activity")
    emulator.queue("pull").add_many([NewTask(name=name) for name in "abc"])
    control.post("/queues/pull/pause")
    control.post("/queues/pull/change", {"action": "delete", "tasks": ["a"]})
    control.post("/queues/pull/purge")
    control.post("/faults", {"kind": "empty_leases"})
    control.call("DELETE", "/faults/1")
    control.post("/clock", {"advance": 5})
    control.post("/reset")

    actions = control.get("/activity").body["activity"]

    assert [action["text"] for action in reversed(actions)] == [
        "paused queue pull",
        "deleted 1 task of queue pull",
        "purged queue pull: 2 tasks deleted",
        "set fault 1: empty_leases",
        "removed fault 1",
        "moved the clock to 2026-01-01 00:00:05",
        "reset the server: 0 tasks deleted",
    ]
    assert {action["interface"] for action in actions} == {"control"}
    assert caplog.messages[0] == "paused queue pull (control)"


def test_what_was_refused_or_changed_nothing_is_not_recorded(control: ControlClient) -> None:
    control.post("/queues/nowhere/pause")
    control.post("/queues/pull/change", {"action": "delete", "tasks": ["gone"]})
    control.post("/clock", {"advance": -1})

    assert control.get("/activity").body == {"activity": []}


def test_the_latest_actions_are_first_and_limited(control: ControlClient, server: Server) -> None:
    for _ in range(2_002):
        server.state.activity.record("did it")
    control.post("/queues/pull/pause")

    assert [each["text"] for each in control.get("/activity?limit=2").body["activity"]] == [
        "paused queue pull",
        "did it",
    ]
    assert len(control.get("/activity?limit=5000").body["activity"]) == 2_000


def test_requests_that_fail_in_the_same_way_are_one_entry(
    control: ControlClient, server: Server, clock: ManualClock
) -> None:
    """Until there is a minute without; the last reason is shown, and no client if several fail."""
    fail(server, "mail", reason="full")
    clock.advance(30)
    fail(server, "mail", reason="down")
    fail(server, "mail", status=0, reason="refused")
    clock.advance(60)
    fail(server, "mail", client="another")
    clock.advance(61)
    fail(server, "mail", reason="down")
    fail(server, "jobs", method="projects.locations.queues.tasks.create", status=400)
    fail(server, "", method="", status=404)

    entries = control.get("/activity").body["activity"]

    assert [entry["text"] for entry in entries] == [
        "1 request failed: status 404: POST /",
        "1 call of queues.tasks.create on queue jobs failed: status 400: no",
        "1 attempt on queue mail failed: status 503: down",
        "1 attempt on queue mail failed: no response: refused",
        "3 attempts on queue mail failed within 1 min 30 s; the last: status 503: no",
    ]
    mail = entries[-1]
    assert (mail["time"], mail["last"]) == (
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:01:30+00:00",
    )
    assert (mail["queue"], mail["status"], mail["failures"]) == ("mail", 503, 3)
    assert [entry["client"] for entry in entries[-2:]] == ["app", ""]


def test_an_action_divides_failures(control: ControlClient, server: Server) -> None:
    """So one sees whether it helped, though the clock stands still."""
    fail(server, "mail")
    control.post("/queues/push/pause")
    fail(server, "mail")
    fail(server, "mail")
    control.post("/queues/push/resume")

    assert texts(control) == [
        "resumed queue push",
        "2 attempts on queue mail failed; the last: status 503: no",
        "paused queue push",
        "1 attempt on queue mail failed: status 503: no",
    ]


def test_calls_that_a_fault_fails_are_listed_with_their_client(control: ControlClient) -> None:
    """And those that succeed are not, however many they are."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks/lease?leaseSecs=1&numTasks=1"
    control.post("/faults", {"kind": "fail", "call": "lease_tasks", "times": 2})
    for _ in range(4):
        control.send("POST", path, {}, {"User-Agent": "worker/1"})

    failure, action = control.get("/activity").body["activity"]

    assert action["text"] == "set fault 1: fail"
    assert failure["text"].startswith("2 calls of tasks.lease on queue pull failed; the last: ")
    assert (failure["interface"], failure["client"]) == ("REST", "worker/1")


def test_a_queue_that_is_changed_by_cloud_tasks_is_an_action(control: ControlClient) -> None:
    path = "/v2/projects/p/locations/us-central1/queues/push"
    for verb in ("pause", "resume", "getIamPolicy"):
        control.send("POST", f"{path}:{verb}", {}, {"User-Agent": "gcloud"})
    control.send("POST", f"{path}/tasks", {"task": {"appEngineHttpRequest": {}}})

    actions = control.get("/activity").body["activity"]

    called = ["called queues.resume on queue push", "called queues.pause on queue push"]
    assert [action["text"] for action in actions] == called
    assert {action["client"] for action in actions} == {"gcloud"}


def test_exhausted_tasks_are_counted_by_the_minute(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """Adjacent minutes are one entry; the time is the end of the minute, or now."""
    queue = emulator.queue("limited")
    for pause in (50, 60, 120):
        queue.add_many([NewTask(), NewTask()])
        queue.lease_tasks(1, 2)
        clock.advance(pause)
    queue.add()
    queue.lease_tasks(1, 1)
    clock.advance(1)

    entries = control.get("/activity").body["activity"]

    assert [(entry["time"][11:19], entry["text"]) for entry in entries] == [
        ("00:03:51", "1 task of queue limited exhausted"),
        ("00:01:00", "6 tasks of queue limited exhausted within 2 min"),
    ]
    assert [entry["last"][11:19] for entry in entries] == ["00:03:51", "00:02:00"]


def test_what_goes_on_at_a_time_has_happened_since(
    control: ControlClient, server: Server, clock: ManualClock
) -> None:
    """Failures that began before it are listed with the time at which they began."""
    control.post("/queues/push/pause")
    fail(server, "mail")
    clock.advance(59)
    fail(server, "mail")

    found = control.get("/activity?since=00:00:30").body["activity"]

    assert [entry["time"][11:19] for entry in found] == ["00:00:00"]
    assert [entry["failures"] for entry in found] == [2]
    assert control.get("/activity?since=noon").status == 400
