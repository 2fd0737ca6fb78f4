"""Control routes on the faults of the server."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import requests
from control_client import ControlClient
from locks import WatchedLock

from pullqueue import Emulator
from pullqueue.runtime.fault_registry import FaultRegistry, NewFault
from pullqueue.server.lifecycle import Server

QUEUE = "/taskqueue/v1beta2/projects/app/taskqueues/pull"


def test_faults_of_several_threads_wait_for_each_other(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, lock = FaultRegistry(emulator), WatchedLock()
    monkeypatch.setattr(registry, "_lock", lock)
    registry.set(NewFault(kind="empty_leases"))

    with ThreadPoolExecutor(4) as pool, lock:
        done: list[Future[Any]] = [
            pool.submit(registry.set, NewFault(kind="empty_leases")),
            pool.submit(registry.list),
            pool.submit(registry.remove, 1),
            pool.submit(registry.clear),
        ]
        assert lock.wait_for(4)
        assert not any(each.done() for each in done)

    assert all(each.exception() is None for each in done)
    registry.clear()
    assert registry.list() == []
    assert not emulator.interceptors


def test_faults_trigger_on_calls_of_the_app_alone(control: ControlClient, server: Server) -> None:
    """Never on those of the control routes; they can be removed."""
    control.post("/queues/pull/tasks", {"tasks": [{}]})
    fault = {"kind": "fail", "call": "lease_tasks", "error": "UNAVAILABLE", "times": 1}
    first = control.post("/faults", fault).body
    control.post("/faults", {"kind": "empty_leases", "queues": ["limited"]})
    url = f"{server.url}{QUEUE}/tasks/lease?leaseSecs=0&numTasks=1"

    own = control.post("/queues/pull/lease", {"lease_seconds": 0})
    triggered = requests.post(url, timeout=60)
    after = requests.post(url, timeout=60)

    assert first["fault"]["error"] == "UNAVAILABLE"
    assert len(own.body["tasks"]) == 1
    assert (triggered.status_code, after.status_code) == (503, 200)
    listed = control.get("/faults").body["faults"]
    assert [(fault["number"], fault["hits"], fault["calls"]) for fault in listed] == [
        (1, 1, 2),
        (2, 0, 0),
    ]
    assert control.call("DELETE", "/faults/1").body == {"deleted": 1}
    assert control.call("DELETE", "/faults/1").status == 404
    assert control.call("DELETE", "/faults").body == {"deleted": 1}


@pytest.mark.parametrize(
    "fault", [{"kind": "latency", "call": "lease_tasks"}, {"kind": "expire_leases"}]
)
def test_to_move_the_clock_of_the_system_is_refused(fault: dict[str, object]) -> None:
    """In the words of one who started a server; nothing is set. Other faults are."""
    control = ControlClient(Server(Emulator.from_text("queue: [{name: pull, mode: pull}]")))
    reply = control.post("/faults", fault)

    assert (reply.status, control.get("/faults").body["faults"]) == (400, [])
    assert reply.message == (
        f"{fault['kind']} moves the clock, and this one is the system's: start the server by "
        "`pullqueue serve --clock manual` (`pullqueue exec --url` runs an app with it), or make a "
        'project by POST /_emulator/projects with {"clock": "manual"}'
    )
    assert control.post("/faults", {"kind": "empty_leases"}).status == 200


def test_a_lease_expires_before_the_next_call_of_an_app(
    control: ControlClient, server: Server
) -> None:
    """Routes of the emulator do not count as calls."""
    control.post("/queues/pull/tasks", {"tasks": [{"name": "a"}]})
    control.post("/faults", {"kind": "expire_leases", "times": 1})
    tasks = f"{server.url}{QUEUE}/tasks"

    requests.post(f"{tasks}/lease?leaseSecs=60&numTasks=1", timeout=60)
    held = control.get("/queues/pull").body["queue"]["leased"]
    body = {"queueName": "pull"}
    renewal = requests.patch(f"{tasks}/a?newLeaseSeconds=9", json=body, timeout=60)

    assert (held, control.get("/clock").body["now"]) == (1, "2026-01-01T00:01:00+00:00")
    assert renewal.json()["error"]["message"] == "The task lease has expired."
    [fault] = control.get("/faults").body["faults"]
    assert (fault["hits"], fault["kind"]) == (1, "expire_leases")


def test_faults_that_make_no_sense_are_refused(control: ControlClient) -> None:
    """None is set."""
    attempt = {"kind": "fail", "call": "attempt"}
    add: dict[str, object] = {"kind": "fail", "call": "add"}
    for order, message in (
        ({"kind": "fail"}, "call is missing: use one of add, attempt, delete_tasks"),
        ({**add, "queues": ["no"]}, 'queue "no" is not in'),
        ({**add, "kind": "empty_leases"}, 'a fault of kind empty_leases has no "call": leave'),
        ({**add, "seconds": 1}, 'a fault of kind fail has no "seconds"'),
        ({**add, "kind": "latency", "seconds": 1e300}, "1e+300 is not a valid duration: pass a"),
        ({**add, "status": 503}, "status is 503, and add has none: use"),
        ({**attempt, "status": 99}, "status is not valid: Expected"),
        ({**attempt, "status": 200}, "status is not valid: Expected `int` >= 300"),
        ({"kind": "explode"}, "kind is not valid: Invalid enum value 'explode'"),
        ({**add, "error": "KeyError"}, "error is not valid: Invalid enum"),
        ({"call": "add"}, "the body is not valid: Object missing required field `kind`"),
        ({**add, "probability": 0}, "probability is not valid: Expected `float` > 0.0"),
        ({**add, "probability": 2}, "probability is not valid: Expected `float` <= 1.0"),
    ):
        reply = control.post("/faults", order)

        assert reply.status in (400, 404), order
        assert reply.message.startswith(message), order
        assert control.get("/faults").body == {"faults": []}
