"""Operations on the clock: the time, steps forward, and delivery while time passes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from pullqueue.api.errors import ApiError
from pullqueue.clock import ManualClock, from_usec, parse_time, to_usec
from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import QueueStatistics
from pullqueue.errors import ClockError
from pullqueue.push.dispatcher import is_dispatched
from pullqueue.resources.operations import operation
from pullqueue.runtime.fault_registry import MANUAL_CLOCK
from pullqueue.runtime.passing import pass_time
from pullqueue.runtime.progress import find_progress
from pullqueue.runtime.situation import next_change_usec, why_kept
from pullqueue.runtime.state import Move, ServerState
from pullqueue.structs import Count, Maybe, Model, Time, about, iso_usec

_DELIVERY_SECONDS = 10.0
"""How long one call delivers, unless it says so."""
_NOW = timedelta(microseconds=1)
"""The time span of what has happened since a manual clock was moved last."""
_FORMAT = "%Y-%m-%d %H:%M:%S"


class ClockResource(Model):
    """The time, and when something changes by itself."""

    now: Time
    manual: bool
    next_change: Time | None


class ClockStep(Model):
    """What a step of the clock did to the tasks of a queue, as numbers of tasks."""

    queue: str
    expired: Annotated[
        Count, about("Leases that ended, those of tasks that are exhausted included.")
    ]
    due: Annotated[
        Count,
        about(
            "How many times tasks became due, which waited for their eta or next "
            "attempt: a task that fails and is retried meanwhile counts again."
        ),
    ]
    delivered: Annotated[Count, about("Attempts that succeeded.")]
    failed: Annotated[Count, about("Attempts that failed.")]
    exhausted: Count
    sending: Annotated[Count, about("Push tasks that are sent now.")]
    waiting: Annotated[
        Count, about("Push tasks that are due, and wait for the rate or other attempts.")
    ]
    text: Annotated[str, about("Why due push tasks are not sent; empty if they are.")]


class MovedClock(ClockResource):
    """The time after a step, and what the step did."""

    reached: Annotated[
        bool, about("False: delivery takes longer; send `target` as `move_to`, and it goes on.")
    ]
    start: Annotated[Time, about("The time before the move, also of one that goes on.")]
    target: Annotated[Time, about("The time that was asked for.")]
    steps: Annotated[list[ClockStep], about("The queues in which anything changed since then.")]


class ClockMove(Model):
    """A step forward in seconds, or the time to move to."""

    advance: Maybe[float] = UNSET
    move_to: Maybe[Time] = UNSET
    deliver: Annotated[
        bool,
        about(
            "Deliver push tasks while the time passes, at the rates and "
            "with the retries of their queues."
        ),
    ] = False
    seconds: Annotated[
        float, Meta(gt=0, le=60, description="Maximum time of the call, while it delivers.")
    ] = _DELIVERY_SECONDS


@operation("GET", "/clock")
def get_clock(state: ServerState) -> ClockResource:
    """Return the time, and whether it can be moved."""
    times = (next_change_usec(state, queue) for queue in state.emulator.queues)
    return ClockResource(
        now=from_usec(state.emulator.now_usec()).isoformat(),
        manual=isinstance(state.emulator.clock, ManualClock),
        next_change=iso_usec(min((usec for usec in times if usec is not None), default=None)),
    )


@operation("POST", "/clock")
def move_clock(state: ServerState, body: ClockMove) -> MovedClock:
    """Move a manual clock forward, and return what that did to each queue."""
    clock = state.emulator.clock
    if not isinstance(clock, ManualClock):
        raise ClockError(f"the clock is the system's and cannot be moved: {MANUAL_CLOCK}")
    if (body.advance is UNSET) is (body.move_to is UNSET):
        raise ApiError(
            'the body must have either advance or move_to: send {"advance": SECONDS} or '
            '{"move_to": "2026-01-01T00:00:00Z"}'
        )
    # Where delivery moves the clock, another one finds the time that is meant.
    move, other = state.move, ManualClock(clock.now())
    if body.advance is not UNSET:
        target = other.advance(body.advance)
    else:
        target = other.move_to(parse_time(body.move_to, "move_to", ApiError))
    if move is None or not body.deliver or move.target_usec != to_usec(target):
        before = [
            (queue, queue.fetch_statistics(), queue.count_events(last=_NOW))
            for queue in state.emulator.queues
        ]
        move = Move(clock.now_usec(), to_usec(target), before)
    if body.deliver:
        began = f"began to deliver while time passes, until {target:{_FORMAT}}"
        move.action = move.action or state.activity.record(began)
        pass_time(state, clock, move.target_usec, seconds=body.seconds)
        # Nobody may call again: this is then where it has stopped.
        move.action.text = f"{began}, and reached {clock.now():{_FORMAT}}"
    else:
        clock.move_to_usec(move.target_usec)
    reached = clock.now_usec() >= move.target_usec
    state.move = None if reached else move
    if reached:
        state.activity.record(f"moved the clock to {target:{_FORMAT}}", begun=move.action)
    steps = [_step(state, move, *each) for each in move.before]
    return MovedClock(
        **msgspec.structs.asdict(get_clock(state)),
        reached=reached,
        start=from_usec(move.start_usec).isoformat(),
        target=target.isoformat(),
        steps=[step for step in steps if step is not None],
    )


def _step(
    state: ServerState,
    move: Move,
    queue: Queue,
    before: QueueStatistics,
    counts_before: Counter[EventKind],
) -> ClockStep | None:
    """Return what a move has done to a queue that had these numbers before it; None: nothing.

    `counts_before` are the events at the time of its start.
    """
    moved = timedelta(microseconds=state.emulator.now_usec() - move.start_usec)
    counts = queue.count_events(last=moved + _NOW) - counts_before
    after = queue.fetch_statistics()
    failed = counts[EventKind.ATTEMPT_FAILED]
    waited = before.scheduled + before.retrying - after.scheduled - after.retrying
    if queue.is_push:  # each attempt was of a task that had become due, unless it was so before
        ended = counts[EventKind.ATTEMPT_SUCCEEDED] + failed
        waited = max(
            waited, ended + after.available + after.running - before.available - before.running
        )
    sending = waiting = 0
    if state.delivery is not None and is_dispatched(queue) and why_kept(state, queue) is None:
        started = max(0, after.running - before.running)
        allowed = 0 if state.delivery.is_held else state.delivery.dispatcher.count_allowed(queue)
        startable = min(after.available, max(0, allowed))
        sending, waiting = started + startable, after.available - startable
    step = ClockStep(
        queue=queue.name,
        expired=max(0, before.leased - after.leased),
        due=max(0, waited),
        delivered=counts[EventKind.ATTEMPT_SUCCEEDED],
        failed=failed,
        exhausted=counts[EventKind.EXHAUSTED],
        sending=sending,
        waiting=waiting,
        text=find_progress(state, queue, after).text if queue.is_push and after.available else "",
    )
    changed = (step.expired, step.due, step.delivered, step.failed, step.exhausted)
    return step if any((*changed, step.sending, step.waiting)) else None
