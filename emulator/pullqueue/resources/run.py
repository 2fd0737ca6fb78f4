"""The operation that runs push tasks, as `run_tasks` of `pullqueue.testing` does."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Literal

from msgspec import Meta

from pullqueue.api.errors import ApiError
from pullqueue.clock import LAST_USEC, ManualClock
from pullqueue.engine.events import Interface
from pullqueue.faults.declaration import Faults
from pullqueue.observe.request_log import Request
from pullqueue.resources.clock import next_delivery_usec, settle_delivery
from pullqueue.resources.operations import operation
from pullqueue.runtime.delivery import Delivery
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model

_SECONDS = 30.0
"""How long one call delivers."""


class NewRun(Model):
    """How far push tasks are run."""

    until: Annotated[
        Literal["due", "empty"],
        Meta(
            description="due: until no push task is due. empty: until none is left; the clock, "
            "which must be manual, moves to each retry and eta."
        ),
    ] = "empty"
    lose_response: Annotated[
        bool,
        Meta(
            description="Lose the first response of each task: the handler has done its work, and "
            "is called again, as after a crash."
        ),
    ] = False


class Run(Model):
    """What was sent, in order, and whether that is all."""

    attempts: list[Request]
    done: Annotated[bool, Meta(description="False: it takes longer; send the same again.")]


@operation("POST", "/run")
def run_tasks(state: ServerState, body: NewRun) -> Run:
    """Run push tasks until none is due, or none is left, and return the attempts."""
    clock = state.emulator.clock
    if state.delivery is None or not state.url:
        raise ApiError("this server does not deliver push tasks", rpc_code="FAILED_PRECONDITION")
    if body.until == "empty" and not isinstance(clock, ManualClock):
        raise ApiError(
            'the clock is the machine\'s: send {"until": "due"}, or make a project with '
            '{"clock": "manual"}',
            rpc_code="FAILED_PRECONDITION",
        )
    before = state.requests.origin(Interface.CONTROL).request or 0
    with Faults(state.emulator) as faults:
        if body.lose_response:
            faults.lose_response("attempt", times=1, per_task=True)
        with state.delivering():
            done = _run(state, state.delivery, to_end=body.until == "empty")
    state.activity.record("ran the push tasks")
    attempts = [
        each
        for each in reversed(state.requests.latest())
        if each.number > before and each.interface is Interface.PUSH
    ]
    return Run(attempts=attempts, done=done)


def _run(state: ServerState, delivery: Delivery, *, to_end: bool) -> bool:
    """Send what is due, and with `to_end` what is due later; False: that takes longer."""
    end, clock = perf_counter() + _SECONDS, state.emulator.clock
    done = settle_delivery(state, delivery, end)
    while done and to_end and isinstance(clock, ManualClock) and _is_left(state):
        next_usec = next_delivery_usec(state, delivery.enforced_rate)
        if next_usec == LAST_USEC:
            break  # what is left waits for an address, or is paused
        clock.move_to_usec(next_usec)
        done = settle_delivery(state, delivery, end)
    return done


def _is_left(state: ServerState) -> bool:
    """Return whether a push queue has a task."""
    return any(queue.is_push and queue.list_tasks(1) for queue in state.emulator.queues)
