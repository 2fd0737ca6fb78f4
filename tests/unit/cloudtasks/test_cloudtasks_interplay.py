"""Cloud Tasks v2beta2 beside the other interfaces: one engine, whose tools work on it as well."""

from __future__ import annotations

import pytest
from cloudtasks_api import LOCATION, PULL, Call, GrpcApi, refused
from control_client import ControlClient

from pullqueue import DeadlineExceededError, Emulator, ManualClock, TransientError
from pullqueue.cloudtasks.grpc_server import deadline_usec
from pullqueue.faults.declaration import Faults
from pullqueue.server.lifecycle import Server

MADE = f"{LOCATION}/queues/made"


class TestFaults:
    @pytest.mark.parametrize(
        ("error", "code"),
        [(TransientError, "UNAVAILABLE"), (DeadlineExceededError, "DEADLINE_EXCEEDED")],
    )
    def test_a_failing_call(
        self, call: Call, emulator: Emulator, error: type[Exception], code: str
    ) -> None:
        """It is refused once, with the status that Google's clients know."""
        Faults(emulator).fail("lease_tasks", error, times=1)

        with refused(code):
            call("LeaseTasks", parent=PULL, leaseDuration="60s")
        assert call("LeaseTasks", parent=PULL, leaseDuration="60s") == {}

    def test_a_lost_response(self, call: Call, emulator: Emulator) -> None:
        """The call is carried out nevertheless."""
        emulator.queue("pull").add(name="one")
        (held,) = call("LeaseTasks", parent=PULL, leaseDuration="60s")["tasks"]
        Faults(emulator).lose_response("delete_tasks", times=1)
        acknowledge = {"name": held["name"], "scheduleTime": held["scheduleTime"]}

        with refused("DEADLINE_EXCEEDED"):
            call("AcknowledgeTask", **acknowledge)
        with refused("NOT_FOUND"):
            call("AcknowledgeTask", **acknowledge)

    def test_a_latency_beyond_the_deadline(
        self, server: Server, emulator: Emulator, clock: ManualClock
    ) -> None:
        """The caller of gRPC, who waits 60 seconds here, learns that it took too long."""
        Faults(emulator).latency("lease_tasks", 600)
        api, before = GrpcApi(server), clock.now_usec()

        with refused("DEADLINE_EXCEEDED"):
            api.call("LeaseTasks", {"parent": PULL, "leaseDuration": "60s"})
        api.channel.close()
        assert 30 < (clock.now_usec() - before) / 1e6 < 61  # less what a slow machine took

    @pytest.mark.parametrize(
        ("remaining", "deadline"),
        [(9.999105, 10), (59.95, 60), (12.4999, 12.5), (0.2493, 0.25), (1e12, 1e9), (None, 1e9)],
    )
    def test_deadlines(self, remaining: float | None, deadline: float) -> None:
        """What a call has taken on its way is not taken from its deadline."""
        assert deadline_usec(remaining) == deadline * 1e6


def test_what_others_see(call: Call, server: Server, emulator: Emulator) -> None:
    """A queue that is made and paused here, a task that is created and leased here."""
    call("CreateQueue", parent=LOCATION, queue={"name": MADE, "pullTarget": {}})
    call("PauseQueue", name=MADE)
    name = f"{PULL}/tasks/one"
    call("CreateTask", parent=PULL, task={"name": name, "pullMessage": {"tag": "red"}})
    held = call("LeaseTasks", parent=PULL, leaseDuration="60s")["tasks"][0]
    control = ControlClient(server)
    queues = {one["name"]: one for one in control.get("/queues").body["queues"]}
    task = control.get("/queues/pull/tasks/one").body["task"]

    assert (queues["made"]["state"], queues["made"]["created"]) == ("paused", True)
    assert (queues["pull"]["state"], queues["pull"]["created"]) == ("running", False)
    assert (task["tag"], task["state"], task["retry_count"]) == ("red", "leased", 1)
    assert held["scheduleTime"] == task["eta"].replace("+00:00", "Z")
    assert [task.name for task in emulator.queue("pull").list_tasks()] == ["one"]
