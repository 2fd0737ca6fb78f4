"""What becomes of a push task after an attempt: the pause before the next one, and the limits.

Nothing here asks the time or changes a queue.
"""

from __future__ import annotations

from collections import Counter
from email.utils import parsedate_to_datetime

from pullqueue.clock import USEC_PER_SECOND, to_usec
from pullqueue.config.model import (
    DEFAULT_MAX_BACKOFF_SECONDS,
    DEFAULT_MAX_DOUBLINGS,
    DEFAULT_MIN_BACKOFF_SECONDS,
    QueueSettings,
)
from pullqueue.engine.events import MINUTE_USEC
from pullqueue.errors import ClockError
from pullqueue.push.request import BODY_KEPT, PushResponse, counts_as_execution
from pullqueue.tasks import AttemptRecord, RetryParameters, Task, is_success

_MAX_EXPONENT = 1000
"""More doublings than a pause can have, and fewer than a float can hold."""


def backoff_seconds(failures: int, retry: RetryParameters) -> float:
    """Return the pause after a number of failed attempts (1 or more), in seconds.

    It doubles `max_doublings` times and then grows by the last of these pauses each time, until it
    reaches `max_backoff_seconds`.
    """
    shortest = _given(retry.min_backoff_seconds, DEFAULT_MIN_BACKOFF_SECONDS)
    longest = _given(retry.max_backoff_seconds, DEFAULT_MAX_BACKOFF_SECONDS)
    most = int(_given(retry.max_doublings, DEFAULT_MAX_DOUBLINGS))
    doublings = min(failures - 1, most, _MAX_EXPONENT)
    pause = shortest * 2.0**doublings * (failures - doublings)
    return min(longest, pause)


def has_no_limit(retry: RetryParameters) -> bool:
    """Return whether nothing ends the attempts of a task that fails."""
    return retry.task_retry_limit is None and retry.task_age_limit_seconds is None


def may_retry(failures: int, age_seconds: float, retry: RetryParameters) -> bool:
    """Return whether a task is attempted again after a number of failed attempts.

    `age_seconds` is the time since its first attempt. Where both limits are set, a task ends only
    after it has passed both.
    """
    retry_limit, age_limit = retry.task_retry_limit, retry.task_age_limit_seconds
    if has_no_limit(retry):
        return True
    if retry_limit is not None and failures <= retry_limit:
        return True
    return age_limit is not None and age_seconds <= age_limit


def interrupted_for_good(
    task: Task, settings: QueueSettings, now_usec: int
) -> AttemptRecord | None:
    """Return the record of a due task's attempts if it is not attempted again; None: it is.

    It is not if its last attempts were interrupted, as by crashes of the server. These count as
    failed, but one more is permitted: it may be that nothing was sent.
    """
    before, failures = task.attempts, task.retry_count
    if failures - before.finished < 2:
        return None
    if may_retry(failures - 1, _age_seconds(task, now_usec), find_retry(task, settings)):
        return None
    reason = f"the last {failures - before.finished} attempts were interrupted"
    return before._replace(finished=failures, ended_usec=now_usec, status=0, reason=reason)


def find_retry(task: Task, settings: QueueSettings) -> RetryParameters:
    """Return the retry parameters that apply to a task: its own, or else those of its queue.

    A task's own replace all of the queue's: what they do not set is App Engine's default.
    """
    return task.require_request().retry or settings.retry_parameters or RetryParameters()


def start(task: Task, now_usec: int) -> AttemptRecord:
    """Return what a task's attempts have left behind when another one starts."""
    return task.attempts._replace(
        first_usec=_first_usec(task, now_usec),
        schedule_usec=task.eta_usec,
        dispatched_usec=now_usec,
    )


def conclude(
    task: Task,
    response: PushResponse,
    *,
    settings: QueueSettings,
    now_usec: int,
    by_call: bool = False,
) -> tuple[AttemptRecord, float | None]:
    """Return the record of a task's attempts when the current one ends, and the next pause.

    The pause before the next attempt is in seconds; None: the task is done, or no retry is
    permitted. It begins at the end of this attempt; with `by_call`, that is of an attempt that
    RunTask has started, at that call (documented).
    """
    request, before = task.require_request(), task.attempts
    status = response.status
    failures = task.retry_count
    attempts = before._replace(
        finished=failures,
        responses=before.responses + (status is not None),
        executions=before.executions + counts_as_execution(request, status),
        ended_usec=now_usec,
        status=status or 0,
        reason=None if is_success(status) else response.summary,
        fault=response.fault,
        response=b"" if is_success(status) else response.body[:BODY_KEPT],
    )
    if is_success(status):
        return attempts, None
    retry = find_retry(task, settings)
    if not may_retry(failures, _age_seconds(task, now_usec), retry):
        return attempts, None
    pause = backoff_seconds(failures, retry)
    if request.is_http_target:
        wanted = wanted_seconds(response.retry_after, now_usec)
        pause = max(
            pause, min(wanted, _given(retry.max_backoff_seconds, DEFAULT_MAX_BACKOFF_SECONDS))
        )
    if by_call and before.dispatched_usec is not None:
        pause = max(0, pause - (now_usec - before.dispatched_usec) / USEC_PER_SECOND)
    return attempts, pause


def count_refused(
    task: Task, settings: QueueSettings, *, reason: str, now_usec: int, shortest_seconds: float
) -> tuple[Counter[int], AttemptRecord, float | None]:
    """Count the attempts of a due task that have failed by now if none got a response.

    The first is at its eta, and the others follow by its backoff, but no sooner than the rate of
    its queue permits (`shortest_seconds`). Return their numbers by the last time of each minute
    before now in microseconds, their record, and the pause before the next one; None: the task is
    exhausted.
    """
    counts: Counter[int] = Counter()
    retry, failures, at_usec = find_retry(task, settings), task.retry_count, task.eta_usec
    first_usec = _first_usec(task, at_usec)
    pause: float | None = None
    while True:
        failures += 1
        counts[at_usec + (now_usec - at_usec) % MINUTE_USEC] += 1
        if not may_retry(failures, (at_usec - first_usec) / USEC_PER_SECOND, retry):
            break
        seconds = max(backoff_seconds(failures, retry), shortest_seconds)
        next_usec = at_usec + max(1, round(seconds * USEC_PER_SECOND))
        if next_usec > now_usec:
            pause = (next_usec - now_usec) / USEC_PER_SECOND
            break
        at_usec = next_usec
    attempts = task.attempts._replace(
        finished=failures,
        first_usec=first_usec,
        schedule_usec=at_usec,
        dispatched_usec=at_usec,
        ended_usec=at_usec,
        status=0,
        reason=reason,
        fault=None,
        response=b"",
    )
    return counts, attempts, pause


def wanted_seconds(retry_after: str, now_usec: int) -> float:
    """Return the pause that a header Retry-After asks for, in seconds; 0: none, or it is not valid.

    It is a number of seconds, or an HTTP date, which may be in the past: then it is negative.
    """
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after)
    try:
        usec = to_usec(parsedate_to_datetime(retry_after))
    except (ValueError, ClockError):
        return 0
    return (usec - now_usec) / USEC_PER_SECOND


def _first_usec(task: Task, at_usec: int) -> int:
    """Return when the first attempt of a task started, if that is not one of this time."""
    first_usec = task.attempts.first_usec
    return at_usec if first_usec is None else first_usec


def _age_seconds(task: Task, now_usec: int) -> float:
    return (now_usec - _first_usec(task, now_usec)) / USEC_PER_SECOND


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
