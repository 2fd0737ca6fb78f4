"""Checks of a queue's settings where no queue.yaml was checked: those of queues of run time."""

from __future__ import annotations

from collections.abc import Mapping

from pullqueue.config.model import HttpTarget, QueueSettings
from pullqueue.engine.request_validation import check_request, check_retry, is_target
from pullqueue.errors import InvalidQueueSettingsError, InvalidTaskError
from pullqueue.limits import BUCKET_SIZE, CONCURRENT_REQUESTS, DAY_SECONDS, RATE_PER_SECOND, Limits
from pullqueue.tasks import HttpRequest
from pullqueue.text import SECONDS_PER_UNIT, is_number, quoted

_LONGEST_SECONDS = 10_000 * 366 * DAY_SECONDS
_LARGEST: Mapping[str, int] = {
    "bucket_size": BUCKET_SIZE,
    "max_concurrent_requests": CONCURRENT_REQUESTS,
    "task_lifetime_seconds": _LONGEST_SECONDS,
    "tombstone_seconds": _LONGEST_SECONDS,
    "log_sampling_ratio": 1,
}
"""The largest value of each number; the smallest is 0."""


def check_settings(settings: QueueSettings) -> None:
    """Check the settings of a queue, apart from its name.

    Raises:
        InvalidQueueSettingsError: one of them is not valid.
    """
    for name, largest in _LARGEST.items():
        value: object = getattr(settings, name)
        if value is not None and not (is_number(value) and 0 <= value <= largest):
            raise _invalid(settings, f"{name} is {quoted(value)}: use a number from 0 to {largest}")
    rate, target = settings.rate, settings.target
    if rate is not None and not (
        rate.unit in SECONDS_PER_UNIT and 0 <= rate.per_second <= RATE_PER_SECOND
    ):
        raise _invalid(
            settings,
            f"rate is {quoted(rate.count)}/{rate.unit:.9}: use a number, a slash and s, m, h or d; "
            f"the maximum is {RATE_PER_SECOND}/s",
        )
    if target is not None and not is_target(target):
        raise _invalid(settings, f"target is {quoted(target)}: use service or version.service")
    part = ""
    try:
        if settings.retry_parameters is not None:
            check_retry(settings.retry_parameters)
        if settings.http_target is not None:
            part = "http_target: "
            check_request(_any_request(settings.http_target), Limits(), absolute_urls=True)
    except InvalidTaskError as error:
        raise _invalid(settings, f"{part}{error}") from None


def _any_request(target: HttpTarget) -> HttpRequest:
    port = f":{target.port}" if target.port else ""
    query = f"?{target.query}" if target.query else ""
    path = (target.path or "").removeprefix("/")
    return HttpRequest(
        f"{target.scheme or 'http'}://{target.host or 'localhost'}{port}/{path}{query}",
        method=target.method or "POST",
        headers=target.headers,
        token=target.token,
    )


def _invalid(settings: QueueSettings, problem: str) -> InvalidQueueSettingsError:
    return InvalidQueueSettingsError(
        f"queue {quoted(settings.name)}: {problem}", queue_name=settings.name
    )
