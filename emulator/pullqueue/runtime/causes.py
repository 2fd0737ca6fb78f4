"""Why the tasks of a queue do not move, and when they will: the causes, in one ordered table.

Each cause is a function that returns what it has found, or None where it does not apply. A sentence
has all causes that apply: what stops the queue, what happened, what its tasks wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pullqueue.engine.queue_base import QueueState
from pullqueue.push.request import effective_request, find_target
from pullqueue.runtime import failures, leasing
from pullqueue.runtime.situation import MINUTE_SECONDS, Found, Severity, Situation
from pullqueue.structs import Count, Model, about
from pullqueue.tasks import TaskState, count_tasks, tasks_are
from pullqueue.text import counted, format_span, quoted

_QUEUES: Final = 3
"""Queues that are named."""


# -- what stops the queue ----------------------------------------------------------------------


def _disabled(now: Situation) -> Found | None:
    if now.queue.state is not QueueState.DISABLED:
        return None
    file, tasks = now.state.emulator.config.file, now.numbers.tasks
    text, end = f"it is no longer in {file}", "is there again, or resumed"
    if now.queue.is_runtime:
        text, end = f"{file}, applied after it was created, does not have it", "is resumed"
    kept = f": {count_tasks(tasks)} kept until it {end}" if tasks else ""
    return Found(tasks, f"{text}{kept}", "warning")


def _paused(now: Situation) -> Found | None:
    if now.queue.state is not QueueState.PAUSED:
        return None
    waits = f": {_due_wait(now.due)} until it is resumed{_then(now)}" if now.due else ""
    return Found(now.due, f"it is paused{waits}", "warning")


def _then(now: Situation) -> str:
    """Return what becomes of the due tasks of a paused queue when it is resumed."""
    if not now.queue.is_push:
        return ", then workers can lease " + ("it" if now.due == 1 else "them")
    if now.kept or not now.rate or _is_run_only(now):
        return ""  # another cause says why, or will
    can_start = min(now.tokens, now.free_slots)
    if can_start >= now.due:
        return ", then " + ("it starts" if now.due == 1 else "all can start")
    if now.tokens >= now.due:
        none = "it starts" if now.due == 1 else "all start"
        some = f"{can_start} can start, and the others" if can_start else none
        return f", then {some} when attempts end"
    if not now.is_manual:
        return f", then {_span_for_all(now)} at the rate of {now.rate_text}"
    some = f"{can_start} can start, and " if can_start else ""
    all_ = "it" if now.due == 1 else "all"
    return f", then {some}{now.advice(now.rate_seconds)} sends {all_}"


def _rate_0(now: Situation) -> Found | None:
    if not now.queue.is_push or now.queue.settings.effective_rate:
        return None
    waits = f": {_due_wait(now.due)} until queue.yaml has another rate" if now.due else ""
    return Found(now.due, f"its rate is 0{waits}", "warning")


def _is_awaited(now: Situation) -> bool:
    """Return whether tasks that are looked at wait for an app that does not listen yet."""
    push_to, settings = now.state.push_to, now.queue.settings
    if not (now.queue.is_push and push_to.awaited):
        return False
    requests = [effective_request(each, settings) for each in now.looked_at if each.request]
    return any(push_to.waiting(find_target(each, settings)) for each in requests)


def _kept(now: Situation) -> Found | None:
    if not now.kept:
        return None
    kept, why = len(now.kept), now.kept[0]
    if not now.is_looked_through:
        return Found(kept, f"some tasks are {why}", "warning")
    if kept == len(now.looked_at):
        return Found(kept, f"tasks are {why}", "warning")
    some = f"{kept} of {counted(len(now.looked_at), 'task')} {'is' if kept == 1 else 'are'}"
    return Found(kept, f"{some} {why}", "warning")


def _is_run_only(now: Situation) -> bool:
    return now.state.delivery is not None and now.state.delivery.is_held


def _run_only(now: Situation) -> Found | None:
    waiting = now.due - len(now.kept)
    if waiting <= 0 or not now.queue.is_push or now.is_stopped or not _is_run_only(now):
        return None
    how = "`POST /_emulator/run`, or for a clock that is advanced with `deliver`"
    return Found(waiting, f"{_due_wait(waiting)} for {how}", "warning")


# -- what push tasks wait for ------------------------------------------------------------------


def _concurrency(now: Situation) -> Found | None:
    if now.limit != "slots":
        return None
    one = "the running attempt" if now.running == 1 else f"one of {now.running} running attempts"
    text = f"{_due_wait(now.due)} for {one} to end: max_concurrent_requests is {now.slots}"
    return Found(now.due, f"{text}{_pace(now)}", now.wait_severity)


def _pace(now: Situation) -> str:
    """Return how long the due tasks take if as many attempts end as in the last minute."""
    if now.is_manual or not (ended := now.ended_last_minute):
        return ""  # by a clock that stands still, they take no time
    seconds = MINUTE_SECONDS * now.due / ended
    return f", about {format_span(seconds)} for all at the pace of the last minute"


def _shared_slots(now: Situation) -> Found | None:
    delivery = now.state.delivery
    if now.limit != "threads" or delivery is None:
        return None
    busy = delivery.dispatcher.counts
    most = sorted(busy.items(), key=lambda each: (-each[1], each[0]))[:_QUEUES]
    of = [f"{count} of {quoted(name)}" for name, count in most]
    if others := busy.total() - sum(count for _, count in most):
        of.append(f"{others} of others")
    free = delivery.threads - busy.total()
    keeps = f" and keeps {free} of them for other queues" if free > 0 else ""
    text = (
        f"{_due_wait(now.due)} for a slot: this server makes at most "
        f"{counted(delivery.threads, 'attempt')} at the same time{keeps}; {', '.join(of)} are "
        "running"
    )
    return Found(now.due, f"{text}{_pace(now)}", now.wait_severity)


def _rate(now: Situation) -> Found | None:
    if now.limit != "rate":
        return None
    waiting = now.due - now.tokens
    wait = f"{_due_wait(waiting)} for the rate of {now.rate_text}"
    later, retrying = "", now.numbers.retrying
    them = "it" if waiting == 1 else "all"
    if retrying:  # they take their share of the rate once they are due
        later = f"; {retrying} more {'is' if retrying == 1 else 'are'} retried later"
        them = "this" if waiting == 1 else "these"
    if now.is_manual:
        return Found(waiting, f"{wait}: {now.advice(now.rate_seconds)} sends {them}{later}")
    return Found(waiting, f"{wait}, {_span_for_all(now)} for {them}{later}")


def _span_for_all(now: Situation) -> str:
    return f"about {format_span(round(now.rate_seconds))}"


def _running(now: Situation) -> Found | None:
    if not now.is_held_up:
        return None
    longest = max(now.attempts, key=now.seconds_of)
    span, left = format_span(now.seconds_of(longest)), longest.request.deadline_seconds
    deadline = f"its deadline is in {format_span(max(0, left - longest.seconds))}"
    severity: Severity = "info" if now.longest_seconds < MINUTE_SECONDS else "warning"
    if now.running == 1:
        return Found(1, f"1 attempt has been running for {span}, {deadline}", severity)
    text = f"{now.running} attempts are running, the longest for {span}, {deadline}"
    return Found(now.running, text, severity)


# -- what pull tasks wait for ------------------------------------------------------------------


def _leased(now: Situation) -> Found | None:
    leased = now.numbers.leased
    if now.queue.is_push or now.due or not leased or now.is_stopped:
        return None
    if (first := now.first(TaskState.LEASED)) is None:
        return None
    ends = "its lease ends" if leased == 1 else "the first lease ends"
    when = f"{ends} {_when(now, first.eta_usec)}"
    return Found(leased, f"{tasks_are(leased)} leased, none is available: {when}")


# -- what is not due ---------------------------------------------------------------------------


def _retrying(now: Situation) -> Found | None:
    retrying = now.numbers.retrying
    if not retrying or now.due or now.is_moving or now.is_stopped or now.kept:
        return None
    if (first := now.first(TaskState.RETRYING)) is None:
        return None
    waits = "waits for its" if retrying == 1 else "wait for their"
    the_first = "" if retrying == 1 else ", the first"
    result = failures.name_result(first.attempts.result, failures.kinds_of_faults(now.state))
    after = "" if now.failed else f" after {result}"  # otherwise another cause names it
    text = (
        f"{count_tasks(retrying)} {waits} next attempt{the_first} {_when(now, first.eta_usec)}"
        f"{after}"
    )
    return Found(retrying, text)


def _not_due(now: Situation) -> Found | None:
    numbers = now.numbers
    is_blocked = now.is_stopped or bool(now.kept)
    scheduled = numbers.scheduled + (numbers.retrying if is_blocked else 0)
    if not scheduled or now.due or now.is_moving:
        return None
    states = (TaskState.SCHEDULED, TaskState.RETRYING) if is_blocked else (TaskState.SCHEDULED,)
    etas = [task.eta_usec for each in states if (task := now.first(each)) is not None]
    if not etas:
        return None
    when = _in(now, min(etas)) if is_blocked else _when(now, min(etas))
    kind = "" if scheduled == numbers.tasks else "scheduled "
    first = f"its only {kind}task" if scheduled == 1 else f"the first of {scheduled} {kind}tasks"
    return Found(scheduled, f"nothing is due: {first} is due {when}")


def _due(now: Situation) -> Found | None:
    """Return that tasks are due, where nothing else says why they have been for a minute."""
    is_push = now.queue.is_push and not now.is_stopped and not now.kept
    is_explained = now.limit is not None or _run_only(now) is not None
    if not is_push or not now.due or is_explained or now.due_seconds < MINUTE_SECONDS:
        return None
    span = format_span(now.due_seconds)
    return Found(now.due, f"{tasks_are(now.due)} due, the first for {span}", "warning")


def _exhausted(now: Situation) -> Found | None:
    exhausted = now.numbers.exhausted
    if not exhausted:
        return None
    text = (
        f"{tasks_are(exhausted)} exhausted, and not tried again until `pullqueue tasks requeue "
        f"{now.queue.name} --all` adds {'it' if exhausted == 1 else 'them'}"
    )
    return Found(exhausted, text, "warning")


CAUSES: Final[Mapping[str, Callable[[Situation], Found | None]]] = {
    "disabled": _disabled,
    "paused": _paused,
    "rate 0": _rate_0,
    "not listening": lambda now: _kept(now) if _is_awaited(now) else None,
    "no address": lambda now: None if _is_awaited(now) else _kept(now),
    "run only": _run_only,
    "no response": failures.no_response,
    "failing": failures.failing,
    "some failed": failures.some_failed,
    "slowed": failures.slowed,
    "concurrency": _concurrency,
    "shared slots": _shared_slots,
    "rate": _rate,
    "running": _running,
    "leases fail": leasing.leases_fail,
    "lease rate": leasing.lease_rate,
    "other tag": leasing.other_tag,
    "no worker": leasing.no_worker,
    "leases expire": leasing.leases_expire,
    "few leased": leasing.few_leased,
    "leased": _leased,
    "retrying": _retrying,
    "not due": _not_due,
    "due": _due,
    "exhausted": _exhausted,
    "faults": failures.next_faults,
}
"""The causes in the order in which they are shown."""
if TYPE_CHECKING:
    Reason = str
else:
    Reason = Literal[tuple(CAUSES)]


class Cause(Model):
    """One cause of what a queue does, or does not."""

    reason: Reason
    severity: Severity
    count: Annotated[Count, about("Number of tasks, or of failed attempts.")]
    text: str


def find_causes(now: Situation) -> list[Cause]:
    """Return the causes that apply to a queue, in their order."""
    found = ((reason, explain(now)) for reason, explain in CAUSES.items())
    return [
        Cause(
            reason=reason,
            severity=each.severity,
            count=each.count,
            text=now.state.address_commands(each.text),
        )
        for reason, each in found
        if each is not None
    ]


def _due_wait(count: int) -> str:
    """Return the subject and the verb of a sentence: `1 due task waits`."""
    return f"{counted(count, 'due task')} {'waits' if count == 1 else 'wait'}"


def _in(now: Situation, usec: int) -> str:
    return f"in {format_span(now.seconds_until(usec))}"


def _when(now: Situation, usec: int) -> str:
    """Return when something happens, and what a manual clock needs: `in 5 min`."""
    advice = now.advice(now.seconds_until(usec))
    return f"{_in(now, usec)}{f' ({advice})' if now.is_manual else ''}"
