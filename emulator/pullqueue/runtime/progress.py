"""Why the tasks of a queue do not move, and when they will: one sentence for each queue.

Each reason is a function that returns its sentence, or None where it does not apply. The first that
applies is shown; a queue whose tasks move, or that has none, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import ceil
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from pullqueue.clock import USEC_PER_SECOND, ManualClock, from_usec
from pullqueue.config.model import Rate
from pullqueue.engine.events import MINUTE_USEC, EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import QueueStatistics
from pullqueue.push.addresses import KEPT
from pullqueue.push.request import effective_request, find_target
from pullqueue.runtime.attempts import THREADS
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, Time, iso_usec
from pullqueue.tasks import AttemptRecord, Task, TaskState, count_tasks, result_text
from pullqueue.text import counted, format_span

Reason = Literal[
    "disabled",
    "paused",
    "rate 0",
    "not listening",
    "no address",
    "fault",
    "no response",
    "failing",
    "slowed",
    "concurrency",
    "rate",
    "no worker",
    "leased",
    "retrying",
    "not due",
    "some failed",
]
Severity = Literal["info", "warning", "error"]
_MINUTE: Final = timedelta(minutes=1)
_DAY_USEC: Final = 24 * 60 * MINUTE_USEC
_LOOKED_AT: Final = 10
"""Tasks of a queue that are looked at: those that wait for something else become the first ones."""
_FAILING_SHARE: Final = 0.5
"""Share of attempts that fail from which on a queue fails as a whole."""
_SOON_SECONDS: Final = 1.0
"""Tasks that are sent within this time do not wait."""


class Progress(Model):
    """What the tasks of a queue did in the last minute, and what they wait for."""

    leased: Annotated[Count, Meta(description="Tasks leased in the last minute.")]
    delivered: Annotated[Count, Meta(description="Attempts that succeeded in the last minute.")]
    failed: Annotated[Count, Meta(description="Attempts that failed in the last minute.")]
    last_error: Annotated[
        str | None, Meta(description="Result of the latest attempt that failed and is known.")
    ]
    failing_since: Annotated[
        Time | None,
        Meta(
            description="The minute, in the last day, since which attempts fail: after it there "
            "was none in which all succeeded. Null if none failed in the last minute."
        ),
    ]
    reason: Annotated[
        Reason | None,
        Meta(description="Why tasks do not move; null if they do, or there are none."),
    ]
    severity: Severity
    text: Annotated[str, Meta(description="The reason as a sentence; empty if there is none.")]
    next: Annotated[
        Time | None, Meta(description="When time alone changes the state of a task; null: never.")
    ]


@dataclass
class _Situation:
    """A queue of a server, as it is now."""

    state: ServerState
    queue: Queue
    numbers: QueueStatistics
    leased: int
    delivered: int
    failed: int

    @property
    def due_wait(self) -> str:
        """Return the subject and the verb of a sentence: `1 due task waits`."""
        verb = "waits" if self.numbers.available == 1 else "wait"
        return f"{counted(self.numbers.available, 'due task')} {verb}"

    @cached_property
    def rate(self) -> float:
        """How many tasks may start in a second: 0 if they are not delivered."""
        delivery = self.state.delivery
        return 0 if delivery is None else delivery.enforced_rate(self.queue)

    @property
    def is_out_of_tokens(self) -> bool:
        """Whether no attempt may start now."""
        delivery = self.state.delivery
        return delivery is not None and delivery.allowance(self.queue) <= 0

    @property
    def rate_text(self) -> str:
        settings = self.queue.settings
        return str(settings.rate or Rate(count=settings.effective_rate))

    @cached_property
    def last_failure(self) -> tuple[int, str | None] | None:
        """Status (0: no response) and reason of the latest attempt that failed, if it is known.

        The first tasks may not show it, since others wait before those that failed; the requests
        of this server do not, if it was sent by another one with the same store, or long ago.
        """
        if not self.queue.is_push or not (self.failed or self.numbers.retrying):
            return None
        sent = self.state.requests.last_failed_attempt(self.queue.name)
        if sent is not None:
            return sent.status, sent.reason or None
        states = (TaskState.RETRYING, TaskState.AVAILABLE)
        tasks = [task for each in states for task in self.queue.list_tasks(_LOOKED_AT, state=each)]
        records = _ended_attempts(tasks) or _ended_attempts(self.queue.exhausted[-1:])
        last = max(records, key=lambda record: record.ended_usec or 0, default=None)
        return None if last is None else (last.status or 0, last.reason)

    @property
    def last_error(self) -> str | None:
        return None if self.last_failure is None else result_text(*self.last_failure)

    @cached_property
    def failing_usec(self) -> int | None:
        """The minute since which attempts fail: from then on, in none did all succeed."""
        since_usec = None
        minutes = (
            self.queue.flow(since_usec=self.queue.now_usec() - _DAY_USEC) if self.failed else {}
        )
        for minute_usec, counts in sorted(minutes.items(), reverse=True):
            if EventKind.ATTEMPT_FAILED in counts:
                since_usec = minute_usec
            elif EventKind.ATTEMPT_SUCCEEDED in counts:
                break
        return since_usec

    @cached_property
    def next_usec(self) -> int | None:
        return self.queue.next_change_usec()

    def when(self) -> str:
        """Return when time alone changes something: `in 5 min`, and what a manual clock needs."""
        if self.next_usec is None:
            return "later"
        seconds = (self.next_usec - self.queue.now_usec()) / USEC_PER_SECOND
        return f"in {format_span(max(seconds, 0))}{self.move_by(seconds)}"

    def move_by(self, seconds: float) -> str:
        """Return what to do where only a manual clock makes time pass."""
        if not isinstance(self.state.emulator.clock, ManualClock):
            return ""
        return f", by the manual clock: advance it by {max(1, ceil(seconds))} s"


def find_progress(state: ServerState, queue: Queue, numbers: QueueStatistics) -> Progress:
    """Return what a queue with some statistics did in the last minute, and what it waits for."""
    counts = queue.count_events(last=_MINUTE)
    situation = _Situation(
        state=state,
        queue=queue,
        numbers=numbers,
        leased=counts[EventKind.LEASED],
        delivered=counts[EventKind.ATTEMPT_SUCCEEDED],
        failed=counts[EventKind.ATTEMPT_FAILED],
    )
    found = (
        (reason, severity, text)
        for reason, (severity, explain) in _REASONS.items()
        if (text := explain(situation))
    )
    nothing: tuple[None, Severity, str] = (None, "info", "")
    reason, severity, text = next(found, nothing)
    return Progress(
        leased=situation.leased,
        delivered=situation.delivered,
        failed=situation.failed,
        last_error=situation.last_error,
        failing_since=iso_usec(situation.failing_usec),
        reason=reason,
        severity=severity,
        text=text,
        next=iso_usec(situation.next_usec),
    )


def why_kept(state: ServerState, queue: Queue) -> str | None:
    """Return that tasks of a push queue are kept, and how to deliver them; None: it sends them."""
    kept, settings = state.push_to.kept(queue.settings), queue.settings
    tasks = queue.list_tasks(_LOOKED_AT)
    if not tasks:
        return kept
    for task in tasks:
        if (why := state.push_to.missing(task, settings)) is not None:
            is_of_app = task.request is not None and not task.request.is_http_target
            return kept if kept and is_of_app else f"{KEPT}: {why}"
    return None


def _ended_attempts(tasks: Iterable[Task]) -> list[AttemptRecord]:
    """Return what the attempts of tasks have left behind, without tasks of which none has ended."""
    return [task.attempts for task in tasks if task.attempts.ended_usec is not None]


def _disabled(now: _Situation) -> str | None:
    if now.queue.state is not QueueState.DISABLED:
        return None
    file = now.state.emulator.config.file
    return (
        f"it is no longer in {file}: {count_tasks(now.numbers.tasks)} kept until it is there again"
    )


def _paused(now: _Situation) -> str | None:
    if now.queue.state is not QueueState.PAUSED:
        return None
    return f"it is paused: {_due_tasks_wait(now)} until it is resumed"


def _rate_0(now: _Situation) -> str | None:
    if not now.queue.is_push or now.queue.settings.effective_rate:
        return None
    return f"its rate is 0: {_due_tasks_wait(now)} until queue.yaml has another rate"


def _not_listening(now: _Situation) -> str | None:
    push_to, settings = now.state.push_to, now.queue.settings
    tasks = now.queue.list_tasks(_LOOKED_AT) if now.queue.is_push and push_to.awaited else []
    requests = [effective_request(task, settings) for task in tasks if task.request is not None]
    waiting = (push_to.waiting(find_target(each, settings)) for each in requests)
    return next((f"tasks are {KEPT}: {text}" for text in waiting if text), None)


def _no_address(now: _Situation) -> str | None:
    if not (now.queue.is_push and now.numbers.tasks):
        return None
    kept = why_kept(now.state, now.queue)
    return None if kept is None else f"tasks are {kept}"


def _fault(now: _Situation) -> str | None:
    calls = ("attempt",) if now.queue.is_push else ("lease_tasks", "lease_tasks_by_tag")
    for fault in now.state.faults.list(active=True):
        call = getattr(fault, "call", None) or "lease_tasks"
        queues = getattr(fault, "queues", None) or (now.queue.name,)
        if call in calls and now.queue.name in queues:
            what = "attempts" if now.queue.is_push else "leases"
            return (
                f"fault {fault.number} ({fault.kind}) affects its {what}: triggered on "
                f"{fault.hits} of {fault.calls}{_next_attempt(now)}"
            )
    return None


def _no_response(now: _Situation) -> str | None:
    status, reason = now.last_failure or (None, None)
    if status != 0 or not _fails(now):
        return None
    return (
        f"the app does not respond ({reason or 'no reason is known'}): "
        f"{_attempts(now)}{_since(now)}"
    )


def _failing(now: _Situation) -> str | None:
    if not _fails(now):
        return None
    return f"{_attempts(now)}{_since(now)}{_lower_rate(now, '; ')}{_last(now)}"


def _slowed(now: _Situation) -> str | None:
    lower = _lower_rate(now)
    return f"{lower}{_last(now)}" if lower else None


def _concurrency(now: _Situation) -> str | None:
    slots = min(now.queue.settings.effective_concurrent_requests, THREADS)
    if not (now.queue.is_push and now.numbers.available and now.numbers.running >= slots):
        return None
    return (
        f"{now.due_wait} for one of {now.numbers.running} running attempts to end, which is "
        "the maximum"
    )


def _rate(now: _Situation) -> str | None:
    if not (now.queue.is_push and now.rate and now.numbers.available):
        return None
    seconds = now.numbers.available / now.rate
    is_manual = isinstance(now.state.emulator.clock, ManualClock)
    if seconds < _SOON_SECONDS and not (is_manual and now.is_out_of_tokens):
        return None
    wait = f"{now.due_wait} for the rate of {now.rate_text}"
    if is_manual:
        return f"{wait}: advance the manual clock by {ceil(seconds)} s"
    return f"{wait}, about {format_span(seconds)} for all"


def _no_worker(now: _Situation) -> str | None:
    if now.queue.is_push or now.leased or not now.numbers.available:
        return None
    are = "task is" if now.numbers.available == 1 else "tasks are"
    return (
        f"no worker leases: {now.numbers.available} {are} available, none leased in the last minute"
    )


def _leased(now: _Situation) -> str | None:
    numbers = now.numbers
    if now.queue.is_push or numbers.available or not numbers.leased:
        return None
    are = "task is" if numbers.leased == 1 else "tasks are"
    return f"{numbers.leased} {are} leased, none is available: the next changes {now.when()}"


def _retrying(now: _Situation) -> str | None:
    numbers = now.numbers
    if numbers.available or numbers.running or not numbers.retrying:
        return None
    waits = "waits for its" if numbers.retrying == 1 else "wait for their"
    tasks = count_tasks(numbers.retrying)
    return f"{tasks} {waits} next attempt, the first {now.when()}{_last(now)}"


def _not_due(now: _Situation) -> str | None:
    numbers = now.numbers
    if numbers.available or numbers.running or not numbers.scheduled:
        return None
    return f"nothing is due: the first of {count_tasks(numbers.scheduled)} is due {now.when()}"


def _some_failed(now: _Situation) -> str | None:
    return f"{_attempts(now)}{_last(now)}" if now.failed else None


_Explain: TypeAlias = Callable[[_Situation], str | None]
_REASONS: Final[dict[Reason, tuple[Severity, _Explain]]] = {
    "disabled": ("warning", _disabled),
    "paused": ("warning", _paused),
    "rate 0": ("warning", _rate_0),
    "not listening": ("warning", _not_listening),
    "no address": ("warning", _no_address),
    "fault": ("warning", _fault),
    "no response": ("error", _no_response),
    "failing": ("error", _failing),
    "slowed": ("warning", _slowed),
    "concurrency": ("info", _concurrency),
    "rate": ("info", _rate),
    "no worker": ("warning", _no_worker),
    "leased": ("info", _leased),
    "retrying": ("info", _retrying),
    "not due": ("info", _not_due),
    "some failed": ("warning", _some_failed),
}
"""The reasons in the order in which they count."""


def _due_tasks_wait(now: _Situation) -> str:
    return f"{now.due_wait}" if now.numbers.available else "tasks wait"


def _next_attempt(now: _Situation) -> str:
    """Return when the next attempt starts, where all tasks wait for theirs."""
    numbers = now.numbers
    is_waiting = numbers.retrying and not (numbers.available or numbers.running)
    return f"; the next attempt {now.when()}" if is_waiting else ""


def _fails(now: _Situation) -> bool:
    ended = now.failed + now.delivered
    return bool(ended) and now.failed / ended >= _FAILING_SHARE


def _attempts(now: _Situation) -> str:
    ended = now.failed + now.delivered
    if now.delivered:
        return f"{now.failed} of {ended} attempts failed in the last minute"
    return (
        "its only attempt in the last minute failed"
        if ended == 1
        else f"all {ended} attempts failed in the last minute"
    )


def _since(now: _Situation) -> str:
    """Return since when attempts fail, where that is longer than the minute that is counted."""
    since_usec, now_usec = now.failing_usec, now.queue.now_usec()
    if since_usec is None or now_usec - since_usec <= 2 * MINUTE_USEC:
        return ""
    since = from_usec(since_usec)
    is_today = since.date() == from_usec(now_usec).date()
    return f"; failing since {since:{'%H:%M' if is_today else '%Y-%m-%d %H:%M'}} UTC"


def _lower_rate(now: _Situation, before: str = "") -> str:
    """Return the lower rate of an app that is overloaded, if it is."""
    if not now.rate or now.rate >= now.queue.settings.effective_rate:
        return ""
    return f"{before}slowed from {now.rate_text} to {now.rate:.3g}/s by overload"


def _last(now: _Situation) -> str:
    return f"; the last error: {now.last_error}" if now.last_error else ""
