"""Time that a manual clock passes, while push tasks are delivered and cron jobs run."""

from __future__ import annotations

from time import perf_counter

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, ManualClock
from pullqueue.push.dispatcher import is_dispatched
from pullqueue.runtime.delivery import Delivery
from pullqueue.runtime.state import ServerState
from pullqueue.tasks import TaskState

_STEP_USEC = USEC_PER_SECOND
"""Time passes in steps of a second, or in shorter ones where a bucket is full before."""


def pass_time(state: ServerState, clock: ManualClock, target_usec: int, *, seconds: float) -> None:
    """Let time pass until then, and deliver push tasks meanwhile; end early if it takes longer."""
    delivery, end = state.delivery, perf_counter() + seconds
    if delivery is None:
        clock.move_to_usec(target_usec)
        return
    with state.delivering(), delivery.passing():
        while settle_delivery(state, delivery, end):
            if clock.now_usec() >= target_usec or perf_counter() >= end:
                break
            clock.move_to_usec(min(next_delivery_usec(state, delivery), target_usec))


def settle_delivery(state: ServerState, delivery: Delivery, end: float) -> bool:
    """Wait until neither cron jobs nor attempts are due or under way; False: that takes longer."""
    return state.cron.settle(end - perf_counter()) and delivery.settle(end - perf_counter())


def next_delivery_usec(state: ServerState, delivery: Delivery) -> int:
    """Return when push tasks or cron jobs may start next, at the earliest.

    It is called after delivery has settled. Without any, return the end of time.
    """
    now_usec, times = state.emulator.now_usec(), [LAST_USEC]
    dispatcher = delivery.dispatcher
    if (cron_usec := state.cron.next_usec()) is not None:
        times.append(max(cron_usec, now_usec))
    for queue in filter(is_dispatched, state.emulator.queues):
        # With tokens left, tasks that are due wait for something else, such as an address.
        if dispatcher.tokens(queue) <= 0 and queue.list_tasks(1, state=TaskState.AVAILABLE):
            full_usec = dispatcher.token_usec(queue, queue.settings.effective_bucket_size)
            next_usec = dispatcher.token_usec(queue)
            times.append(max(next_usec, min(full_usec, now_usec + _STEP_USEC)))
        change_usec = queue.next_change_usec()
        if change_usec is not None:
            times.append(max(change_usec, now_usec + _STEP_USEC))
    return min(times)
