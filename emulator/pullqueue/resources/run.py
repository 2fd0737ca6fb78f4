"""The operation that runs push tasks, as `run_tasks` of `pullqueue.testing` does."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Literal

from msgspec import Meta

from pullqueue.api.errors import ApiError
from pullqueue.clock import LAST_USEC, ManualClock
from pullqueue.config.model import QueueSettings
from pullqueue.faults.declaration import Faults
from pullqueue.observe.models import Request
from pullqueue.push.retry import find_retry
from pullqueue.resources.operations import operation
from pullqueue.runtime.delivery import Delivery
from pullqueue.runtime.passing import next_delivery_usec, settle_delivery
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model
from pullqueue.tasks import Task
from pullqueue.text import quoted

_SECONDS = 30.0
"""How long one call delivers."""
_MOST_FAILURES = 100
"""How often a task may fail whose retries have no limit; more than any test needs."""


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
    with Faults(state.emulator) as faults, state.requests.collected_attempts() as attempts:
        if body.lose_response:
            faults.lose_response("attempt", times=1, per_task=True)
        with state.delivering():
            done = _run(state, state.delivery, to_end=body.until == "empty")
    state.activity.record("ran the push tasks")
    return Run(attempts=attempts, done=done)


def _run(state: ServerState, delivery: Delivery, *, to_end: bool) -> bool:
    """Send what is due, and with `to_end` what is due later; False: that takes longer."""
    end, clock = perf_counter() + _SECONDS, state.emulator.clock
    done = settle_delivery(state, delivery, end)
    while done and to_end and isinstance(clock, ManualClock) and _is_left(state):
        next_usec = next_delivery_usec(state, delivery)
        if next_usec == LAST_USEC:
            break  # what is left waits for an address, or is paused
        clock.move_to_usec(next_usec)
        done = settle_delivery(state, delivery, end)
    return done


def _is_left(state: ServerState) -> bool:
    """Return whether a push queue has a task.

    Raises:
        ApiError: a task fails again and again, and nothing limits its retries.
    """
    is_left = False
    for queue in (queue for queue in state.emulator.queues if queue.is_push):
        for task in queue.list_tasks(1):
            is_left = True
            _check_retried(task, queue.settings)
    return is_left


def _check_retried(task: Task, settings: QueueSettings) -> None:
    retry, failures = find_retry(task, settings), task.attempts.finished
    limits = (retry.task_retry_limit, retry.task_age_limit_seconds)
    if failures < _MOST_FAILURES or any(limit is not None for limit in limits):
        return
    status, reason, _ = task.attempts.result
    why = f" ({reason})" if reason else ""
    raise ApiError(
        f"task {quoted(task.name)} of queue {quoted(task.queue_name)} has failed {failures} times, "
        f"the last time with status {status}{why}, and is retried forever, "
        "since it has no task_retry_limit (maxAttempts)",
        rpc_code="FAILED_PRECONDITION",
    )
