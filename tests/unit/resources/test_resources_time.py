"""Control routes of a server whose machine has another time than the database."""

from __future__ import annotations

import re

from control_client import ControlClient
from store_rules import WrongClock, config_of
from stores import own_schema

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store


def test_time_is_that_of_the_store() -> None:
    """States, ages, countdowns and metrics go by it, and a snapshot loaded keeps its leases."""
    store = open_store(own_schema("control_time"))
    emulator = Emulator(config_of(1), clock=WrongClock(7200), store=store)
    emulator.reset()
    with Server(emulator) as server:
        control = ControlClient(server)
        control.post("/queues/pull/tasks", {"tasks": [{"name": "leased"}]})
        control.post("/queues/pull/lease", {"lease_seconds": 3600})
        control.post("/queues/pull/tasks", {"tasks": [{"name": "due"}]})
        saved = control.get("/snapshot").body
        metrics = control.get("/metrics").body
        listed = [
            task["name"] for task in control.get("/queues/pull/tasks?state=leased").body["tasks"]
        ]
        age = control.get("/queues").body["queues"][0]["oldest_age_seconds"]
        control.call("PUT", "/snapshot?shift=true", saved)
        task = control.get("/queues/pull/tasks/leased").body["task"]
        again = control.post("/queues/pull/lease", {"lease_seconds": 60, "max_tasks": 9}).body
        now_usec = emulator.now_usec()

    assert listed == ["leased"]
    assert 0 <= age < 3600
    assert task["state"] == "leased"
    assert 0 < task["lease_seconds_left"] <= 3600
    assert [task["name"] for task in again["tasks"]] == ["due"]
    (seconds,) = re.findall(r"^pullqueue_clock_seconds{} (\S+)$", metrics, re.MULTILINE)
    assert 0 <= now_usec / 1_000_000 - float(seconds) < 3600
    emulator.close()
