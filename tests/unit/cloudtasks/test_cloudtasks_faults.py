"""Faults in the calls of Cloud Tasks, and the deadlines of those over gRPC."""

from __future__ import annotations

import pytest
from cloudtasks_api import PULL, Call, GrpcApi, refused

from pullqueue import DeadlineExceededError, Emulator, ManualClock, TransientError
from pullqueue.cloudtasks.grpc_server import deadline_usec
from pullqueue.faults.declaration import Faults
from pullqueue.server.lifecycle import Server


@pytest.mark.parametrize(
    ("error", "code"),
    [(TransientError, "UNAVAILABLE"), (DeadlineExceededError, "DEADLINE_EXCEEDED")],
)
def test_a_failing_call(call: Call, emulator: Emulator, error: type[Exception], code: str) -> None:
    """It is refused once, with the status that Google's clients know."""
    Faults(emulator).fail("lease_tasks", error, times=1)

    with refused(code):
        call("LeaseTasks", parent=PULL, leaseDuration="60s")
    assert call("LeaseTasks", parent=PULL, leaseDuration="60s") == {}


def test_a_latency_beyond_the_deadline(
    server: Server, emulator: Emulator, clock: ManualClock
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
def test_deadlines(remaining: float | None, deadline: float) -> None:
    """What a call has taken on its way is not taken from its deadline."""
    assert deadline_usec(remaining) == deadline * 1e6
