"""Retry parameters as messages: those of a push queue, and those of a single task."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import (
    LARGEST_INT,
    MAX_SECONDS,
    Message,
    check_not_negative,
    check_range,
    has,
    read_seconds,
)
from pullqueue.config.model import (
    DEFAULT_MAX_BACKOFF_SECONDS,
    DEFAULT_MAX_DOUBLINGS,
    DEFAULT_MIN_BACKOFF_SECONDS,
)
from pullqueue.tasks import RetryParameters

_DEFAULT_ATTEMPTS: Final = 100
_UNLIMITED: Final = -1
_DURATIONS: Final = {
    "max_retry_duration": "task_age_limit_seconds",
    "min_backoff": "min_backoff_seconds",
    "max_backoff": "max_backoff_seconds",
}
_BACKOFF_DEFAULTS: Final[dict[str, Any]] = {
    "min_backoff_seconds": DEFAULT_MIN_BACKOFF_SECONDS,
    "max_backoff_seconds": DEFAULT_MAX_BACKOFF_SECONDS,
    "max_doublings": DEFAULT_MAX_DOUBLINGS,
}


def write_retry(message: Message, retry: RetryParameters) -> None:
    """Write retry parameters of push tasks; those that are not set are left out."""
    limit = retry.task_retry_limit
    if limit is not None:
        # The first attempt counts.
        message.max_attempts = min(limit + 1, LARGEST_INT)
    elif has(message, "unlimited_attempts"):
        message.unlimited_attempts = True
    else:
        message.max_attempts = _UNLIMITED
    for field, parameter in _DURATIONS.items():
        seconds = getattr(retry, parameter)
        if seconds is not None:
            getattr(message, field).FromTimedelta(timedelta(seconds=min(seconds, MAX_SECONDS)))
    message.max_doublings = min(retry.max_doublings or 0, LARGEST_INT)


def read_retry(message: Message, field: str) -> RetryParameters:
    """Return the retry parameters of push tasks in a message; without a limit it is 100 attempts.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: a value is out of range.
    """
    check_not_negative(message.max_doublings, "RetryConfig.maxDoublings", f"{field}.max_doublings")
    values: dict[str, Any] = {"max_doublings": message.max_doublings or None}
    for name, parameter in _DURATIONS.items():
        duration = getattr(message, name)
        part = f"{field}.{name}"
        shown = f"RetryConfig.{message.DESCRIPTOR.fields_by_name[name].json_name}"
        check_not_negative(duration.seconds - (duration.nanos < 0), shown, part, " seconds")
        seconds = read_seconds(duration, part, most=MAX_SECONDS)
        # Only the age limit is in whole seconds.
        fraction = 0 if name == "max_retry_duration" else duration.nanos / 1e9
        values[parameter] = seconds + fraction or None
    limit = _attempts(message, field)
    retry = RetryParameters(task_retry_limit=None if limit is None else limit - 1, **values)
    shortest = retry.min_backoff_seconds or DEFAULT_MIN_BACKOFF_SECONDS
    longest = retry.max_backoff_seconds or DEFAULT_MAX_BACKOFF_SECONDS
    if shortest > longest:
        raise invalid(
            texts.BACKOFF_ORDER,
            advice=f"{field}.min_backoff is {shortest} and max_backoff is {longest} seconds: the "
            "minimum must not exceed the maximum",
        )
    return retry


def _attempts(message: Message, field: str) -> int | None:
    """Return the limit of attempts, the first one included; None: there is none."""
    attempts: int = message.max_attempts
    if not has(message, "unlimited_attempts"):
        if attempts < _UNLIMITED:
            part = f"{field}.max_attempts"
            advice = f"{part} is {attempts}: use -1 for no limit, or 1 and more"
            raise invalid(texts.ATTEMPTS, advice=advice)
        return None if attempts == _UNLIMITED else attempts or _DEFAULT_ATTEMPTS
    given = message.WhichOneof("num_attempts")
    if given == "max_attempts":
        check_range(attempts, 1, LARGEST_INT, f"{field}.max_attempts")
        return attempts
    return None if given else _DEFAULT_ATTEMPTS


def with_defaults(retry: RetryParameters) -> RetryParameters:
    """Return the retry parameters that apply where only some are set."""
    missing = {k: v for k, v in _BACKOFF_DEFAULTS.items() if getattr(retry, k) is None}
    return replace(retry, **missing)
