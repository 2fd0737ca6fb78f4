"""The server at a glance: what changes its behaviour, what a step did, what happens per minute."""

from __future__ import annotations

from datetime import timedelta

import pytest
from control_client import ControlClient

import pullqueue
from pullqueue import Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.testing import exhaust

START = "2026-01-01T00:00:00+00:00"


def test_the_summary_of_a_fresh_server(control: ControlClient) -> None:
    """Nothing is set, paused or exhausted; the push queue delivers to nobody."""
    assert control.get("/summary").body == {
        "clock": {"now": START, "manual": True, "next_change": None},
        "faults": [],
        "paused": [],
        "exhausted": {},
        "push": {"addresses": [], "tasks": 0, "kept": {}},
    }


def test_the_summary_has_what_changes_behaviour(control: ControlClient, emulator: Emulator) -> None:
    """Faults that can still trigger, paused queues, exhausted tasks, push tasks that are kept."""
    for times in (1, 2):
        control.post("/faults", {"kind": "fail", "call": "purge", "times": times})
    with pytest.raises(pullqueue.TransientError):
        emulator.queue("pull").purge()
    emulator.queue("limited").add(name="t1")
    exhaust(emulator.queue("limited"), "t1")
    emulator.queue("push").add()
    control.post("/queues/pull/pause")

    summary = control.get("/summary").body
    assert [fault["number"] for fault in summary["faults"]] == [2]
    assert (summary["paused"], summary["exhausted"]) == (["pull"], {"limited": 1})
    assert summary["push"]["tasks"] == 1
    assert "start the server with --push-to" in summary["push"]["kept"]["push"]


def test_a_paused_queue(control: ControlClient, emulator: Emulator, clock: ManualClock) -> None:
    """Its due tasks are neither available nor overdue, until it is resumed."""
    emulator.queue("pull").add_many([NewTask(), NewTask()])
    clock.advance(60)

    paused = control.post("/queues/pull/pause").body["queue"]
    assert (paused["state"], paused["available"], paused["paused"]) == ("paused", 0, 2)
    assert paused["oldest_age_seconds"] is None
    resumed = control.post("/queues/pull/resume").body["queue"]
    assert (resumed["state"], resumed["available"], resumed["paused"]) == ("running", 2, 0)
    assert resumed["oldest_age_seconds"] == 60


def test_what_a_step_of_the_clock_did(control: ControlClient, emulator: Emulator) -> None:
    """Per queue: leases that ended, tasks that became due, tasks that are exhausted."""
    pull, limited = emulator.queue("pull"), emulator.queue("limited")
    pull.add_many([NewTask(eta=emulator.clock.now() + timedelta(seconds=60))] * 3)
    pull.add_many([NewTask()] * 2)
    limited.add()
    pull.lease_tasks(60, 1)
    limited.lease_tasks(60, 1)
    pull.lease_tasks(61, 1)

    nothing = control.post("/clock", {"advance": 59}).body["steps"]
    moved = control.post("/clock", {"advance": 1}).body["steps"]
    assert (nothing, moved) == (
        [],
        [
            {"queue": "pull", "expired": 1, "due": 3, "exhausted": 0, "sending": 0},
            {"queue": "limited", "expired": 1, "due": 0, "exhausted": 1, "sending": 0},
        ],
    )


def test_push_tasks_that_a_step_makes_due(emulator: Emulator) -> None:
    """Those that the server delivers are counted as being sent; of a paused queue none is."""
    eta = emulator.clock.now() + timedelta(seconds=60)
    emulator.queue("push").add_many([NewTask(eta=eta, request=HttpRequest("/mail"))] * 2)
    with Server(emulator, push_to=PushAddresses(["http://localhost:1"])) as server:
        control = ControlClient(server)
        control.post("/queues/push/pause")
        [step] = control.post("/clock", {"advance": 30 * 60}).body["steps"]

    assert step == {"queue": "push", "expired": 0, "due": 2, "exhausted": 0, "sending": 0}


def test_the_flow_per_minute(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """By minutes of the emulator's clock in which anything happened, also after a jump."""
    queue = emulator.queue("pull")
    queue.add_many([NewTask()] * 3)
    clock.advance(61)
    queue.delete_tasks(queue.lease_tasks(60, 2))
    clock.advance(86_400)
    queue.purge()

    flow = control.get("/flow").body["flow"]
    assert flow["limited"] == flow["push"] == []
    numbers = [tuple(minute.values()) for minute in flow["pull"]]
    assert numbers == [
        (START, 3, 0, 0, 0),
        ("2026-01-01T00:01:00+00:00", 0, 2, 2, 0),
        ("2026-01-02T00:01:00+00:00", 0, 0, 1, 0),
    ]
    last = control.get("/flow?minutes=60&queue=pull").body["flow"]
    assert last == {"pull": flow["pull"][2:]}


def test_the_server(control: ControlClient, server: Server) -> None:
    """Where it listens, and how it was started."""
    body = control.get("/server").body
    assert (body["url"], body["grpc"], body["store"], body["auth"]) == (
        *(server.url, None, "memory"),
        "none",
    )
    assert (body["profile"], body["manual_clock"], body["push_to"]) == ("gcloud", True, [])
    assert body["uptime_seconds"] >= 0
    assert body["version"] == pullqueue.__version__
