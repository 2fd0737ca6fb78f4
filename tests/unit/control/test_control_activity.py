"""What operators did: recorded, logged, and not deleted by a reset."""

from __future__ import annotations

import logging

import pytest
from control_client import ControlClient

from pullqueue import Emulator, NewTask
from pullqueue.server.lifecycle import Server


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
    for _ in range(1_002):
        server.state.activity.record("did it")
    control.post("/queues/pull/pause")

    assert [each["text"] for each in control.get("/activity?limit=2").body["activity"]] == [
        "paused queue pull",
        "did it",
    ]
    assert len(control.get("/activity?limit=5000").body["activity"]) == 1_000
