"""What workers do, as causes: whether they lease the available tasks of pull queues, and finish."""

from __future__ import annotations

from collections import Counter
from typing import Final

from pullqueue.engine.events import EventKind
from pullqueue.runtime.failures import kinds_of_faults, name_results
from pullqueue.runtime.situation import MINUTE_SECONDS, Found, Situation
from pullqueue.tasks import AttemptResult, TaskState, tasks_are
from pullqueue.text import counted, format_span, quoted

_LONG_SECONDS: Final = 600.0
"""What takes longer than this needs somebody's attention."""
_KINDS: Final = ("latency", "expire_leases")
"""Kinds of faults that do not make a lease call return fewer tasks."""
_TAGS: Final = 5
"""Tags that are named."""


def leases_fail(now: Situation) -> Found | None:
    """Return that workers ask, and get none since their calls fail."""
    if not _is_unleased(now) or now.leased:
        return None
    kinds = kinds_of_faults(now.state)
    results = Counter(
        AttemptResult(call.status, call.reason or None, call.fault)
        for call in now.lease_calls
        if (call.status >= 400 and not call.rate_limited)
        or (call.fault is not None and kinds.get(call.fault) not in _KINDS)
    )
    if not results:
        return None
    failed, calls = results.total(), len(now.lease_calls)
    share = f"{failed} of {counted(calls, 'lease call')}"
    text = f"{_available(now)}, workers leased none in the last minute{_by_operators(now)}: "
    text += f"{share} got none: "
    return Found(now.due, text + name_results(results, kinds), "warning")


def lease_rate(now: Situation) -> Found | None:
    """Return that workers ask more often than the lease rate permits."""
    limited = sum(call.rate_limited for call in now.lease_calls)
    if not _is_unleased(now) or not limited:
        return None
    share = f"{limited} of {counted(len(now.lease_calls), 'lease call')} of the last minute"
    rate = now.queue.limits.leases_per_second
    advice = now.advice(1) if now.is_manual else "lease more at a time"
    text = f"{share} got none because of the lease rate of {rate} a second: {advice}, or start the "
    severity = "warning" if now.is_manual else now.wait_severity
    return Found(now.due, f"{text}server with --no-lease-rate-limit", severity)


def other_tag(now: Situation) -> Found | None:
    """Return that workers ask only for tags that no available task has."""
    if not _is_unleased(now) or leases_fail(now) is not None:
        return None
    asked = dict.fromkeys(tag for call in now.lease_calls for tag in call.lease_tags)
    tags = [tag for tag in asked if tag is not None]
    if not tags or len(tags) < len(asked) or len(tags) > _TAGS:
        return None
    if any(now.first(TaskState.AVAILABLE, tag) for tag in tags):
        return None
    names = f"the tag{'' if len(tags) == 1 else 's'} {', '.join(map(quoted, tags))}"
    has = "the available task does not have" if now.due == 1 else f"none of {now.due} available has"
    text = f"in the last minute workers asked only for {names}, which {has}"
    return Found(now.due, text, "warning")


def no_worker(now: Situation) -> Found | None:
    """Return that no worker has leased."""
    is_other = any(explain(now) is not None for explain in (leases_fail, lease_rate, other_tag))
    if not _is_unleased(now) or is_other or now.leased:
        return None
    text = f"no worker has leased in the last minute{_by_operators(now)}: {_available(now)}"
    return Found(now.due, text, "warning")


def _by_operators(now: Situation) -> str:
    """Return what the leases of the last minute have besides those of workers."""
    leased = now.by_operators[EventKind.LEASED]
    return f" (operators leased {leased})" if leased else ""


def leases_expire(now: Situation) -> Found | None:
    """Return that workers do not finish what they lease, or too late."""
    if now.is_stopped or not now.numbers.tasks or now.expired <= now.deleted:
        return None
    expired = f"{counted(now.expired, 'lease')} expired"
    minute = f"in the last minute{_by_operators(now)}"
    what = (
        f"workers leased {now.leased} {minute}, {expired}" if now.leased else f"{expired} {minute}"
    )
    text = f"{what}, {_deleted(now)}: see why workers do not finish, or lease for longer"
    return Found(now.expired, text, "warning")


def _deleted(now: Situation) -> str:
    return f"{now.deleted or 'none'} {'were' if now.deleted > 1 else 'was'} deleted"


def few_leased(now: Situation) -> Found | None:
    """Return how long the available tasks take at the pace of the workers."""
    leased = now.leased
    if not (_is_unleased(now) and leased) or other_tag(now) or leases_expire(now):
        return None
    if now.due <= leased and now.due_seconds < MINUTE_SECONDS:
        return None
    text = f"{_available(now)}, workers leased {leased} in the last minute{_by_operators(now)}"
    text += f", {_deleted(now)}"
    if not now.deleted:
        return Found(now.due, text, now.wait_severity)
    seconds = MINUTE_SECONDS * now.due / now.deleted
    them = "it" if now.due == 1 else "all"
    text += f": about {format_span(seconds)} for {them} at this rate"
    return Found(now.due, text, "info" if seconds <= _LONG_SECONDS else "warning")


def _is_unleased(now: Situation) -> bool:
    return not (now.queue.is_push or now.is_stopped) and now.due > 0


def _available(now: Situation) -> str:
    return f"{tasks_are(now.due)} available"
