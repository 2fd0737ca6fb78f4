"""The operation that runs push tasks, as `run_tasks` of `pullqueue.testing` does."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

from msgspec import UNSET, Meta

from pullqueue.api.errors import ApiError
from pullqueue.clock import LAST_USEC, ManualClock, from_usec, parse_time, to_usec
from pullqueue.config.model import QueueSettings
from pullqueue.faults.declaration import Faults
from pullqueue.observe.models import Request
from pullqueue.push.retry import find_retry, has_no_limit
from pullqueue.resources.operations import operation
from pullqueue.runtime.delivery import Delivery
from pullqueue.runtime.passing import next_delivery_usec, settle_delivery
from pullqueue.runtime.progress import find_progress
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Positive, about, given
from pullqueue.tasks import Task
from pullqueue.text import quoted

_SECONDS = 30.0
"""How long one call delivers."""
_MOST_FAILURES = 100
"""How often a task may fail whose retries have no limit; more than any test needs."""


class NewRun(Model):
    """How far push tasks are run."""

    until: Annotated[
        str,
        Meta(
            description="due: until no push task is due. next: the same, or if none is due, the "
            "clock moves once, to the next retry or eta. empty: until none is left. A time: until "
            "then. Except for due, the clock must be manual.",
            examples=["due", "next", "empty", "2026-01-01T12:00:00Z"],
        ),
    ] = "empty"
    max_attempts: Annotated[
        Maybe[Positive], about("Attempts to make at most. Default: any number.")
    ] = UNSET
    lose_response: Annotated[
        bool,
        about(
            "Lose the first response of each task: the handler has done its work, and "
            "is called again, as after a crash."
        ),
    ] = False


class KeptTasks(Model):
    """Push tasks of a queue that are due, and were not sent."""

    queue: str
    tasks: Count
    text: Annotated[str, about("Why, as the console says it.")]


class Run(Model):
    """What was sent, in order, and whether that is all."""

    attempts: list[Request]
    done: Annotated[
        bool,
        about(
            "False: it takes longer, or max_attempts were made; send the same again for the rest."
        ),
    ]
    kept: Annotated[
        list[KeptTasks],
        about("When done: tasks that are due and stay, as of a queue that is paused."),
    ]


@operation(
    "POST",
    "/run",
    examples={
        "all, with retries": {},
        "what is due": {"until": "due"},
        "the next retry or later task": {"until": "next"},
        "all up to a time": {"until": "2026-01-01T12:00:00Z"},
        "one attempt": {"until": "due", "max_attempts": 1},
        "each task twice, as after a crash": {"lose_response": True},
    },
)
def run_tasks(state: ServerState, body: NewRun) -> Run:
    """Run push tasks until none is due or left, or until a time, and return the attempts."""
    clock, target_usec = state.emulator.clock, _target_usec(state, body.until)
    if state.delivery is None or not state.url:
        raise ApiError("this server does not deliver push tasks", rpc_code="FAILED_PRECONDITION")
    if body.until != "due" and not isinstance(clock, ManualClock):
        raise ApiError(
            'the clock is the machine\'s: send {"until": "due"}, or make a project with '
            '{"clock": "manual"}',
            rpc_code="FAILED_PRECONDITION",
        )
    with Faults(state.emulator) as faults, state.requests.collected_attempts() as attempts:
        if body.lose_response:
            faults.lose_response("attempt", times=1, per_task=True)
        with state.delivering(most=given(body.max_attempts)):
            once = body.until == "next"
            done = _run(state, state.delivery, target_usec, attempts, once=once)
    state.activity.record("ran the push tasks")
    return Run(attempts=attempts, done=done, kept=_find_kept(state) if done else [])


def _find_kept(state: ServerState) -> list[KeptTasks]:
    return [
        KeptTasks(queue.name, numbers.available, find_progress(state, queue, numbers).text)
        for queue in state.emulator.queues
        if queue.is_push and (numbers := queue.fetch_statistics()).available
    ]


def _target_usec(state: ServerState, until: str) -> int | None:
    """Return to when the clock may be moved; None: it is not.

    Raises:
        ApiError: it is neither a word nor a time from now on.
    """
    if until in ("next", "empty"):
        return LAST_USEC
    if until == "due":
        return None
    try:
        target_usec = to_usec(parse_time(until, "until", ApiError))
    except ApiError:
        raise ApiError.parameter(
            f"until is {quoted(until)}: use due, next, empty, or a time such as "
            "2026-01-01T00:00:00Z",
            "until",
        ) from None
    if target_usec < (now_usec := state.emulator.now_usec()):
        now = from_usec(now_usec).isoformat()
        raise ApiError.parameter(f"until is {until}, which is before now, {now}", "until")
    return target_usec


def _run(
    state: ServerState,
    delivery: Delivery,
    target_usec: int | None,
    attempts: list[Request],
    *,
    once: bool,
) -> bool:
    """Send what is due, and then what is due until a time.

    With `once`, the clock is moved once at most, and only if nothing was due. Return False if that
    takes longer, or no more attempts are permitted.
    """
    end, clock, has_moved = perf_counter() + _SECONDS, state.emulator.clock, False
    while settle_delivery(state, delivery, end):
        if delivery.permits is not None and not delivery.permits.left:
            return False
        if target_usec is None or not isinstance(clock, ManualClock):
            return True
        if clock.now_usec() >= target_usec or (once and (attempts or has_moved)):
            return True
        if target_usec == LAST_USEC and not _is_left(state, delivery):
            return True
        next_usec = min(next_delivery_usec(state, delivery), target_usec)
        if next_usec == LAST_USEC:
            return True  # what is left waits for an address, or is paused
        clock.move_to_usec(next_usec)
        has_moved = True
    return False


def _is_left(state: ServerState, delivery: Delivery) -> bool:
    """Return whether a push queue has a task that can be sent when time has passed.

    One that is due, though tokens are left, waits for something else until its lifetime ends.

    Raises:
        ApiError: a task fails again and again, and nothing limits its retries.
    """
    is_left = False
    for queue in (queue for queue in state.emulator.queues if queue.is_push):
        # One that has just failed is due again from now on; those before it are kept.
        for task in queue.list_tasks(1, after=(state.emulator.now_usec(), 0)):
            _check_retried(task, queue.settings)
        numbers = queue.fetch_statistics()
        due = numbers.available if delivery.dispatcher.tokens(queue) > 0 else 0
        is_left |= numbers.tasks > due
    return is_left


def _check_retried(task: Task, settings: QueueSettings) -> None:
    failures = task.attempts.finished
    if failures < _MOST_FAILURES or not has_no_limit(find_retry(task, settings)):
        return
    status, reason, _ = task.attempts.result
    why = f" ({reason})" if reason else ""
    raise ApiError(
        f"task {quoted(task.name)} of queue {quoted(task.queue_name)} has failed {failures} times, "
        f"the last time with status {status}{why}, and is retried forever, "
        "since it has no task_retry_limit (maxAttempts)",
        rpc_code="FAILED_PRECONDITION",
    )
