"""Queues as messages: what a message shows of a queue, and what it changes in its settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue.cloudtasks.calls import Call
from pullqueue.cloudtasks.messages import LARGEST_INT, Message, check_range, has, whole_seconds
from pullqueue.cloudtasks.versions import Version
from pullqueue.config.model import QueueSettings, Rate, RetryParameters
from pullqueue.engine.queue import Queue

MAX_SECONDS: Final = 315_576_000_000
"""The longest `google.protobuf.Duration`; as task_ttl: tasks have no lifetime."""
_MAX_NANOS: Final = 999_999_999
_PULL_TASKS_PER_SECOND: Final = 500
_MAX_TOMBSTONE_SECONDS: Final = 9 * 86_400
_MAX_RATE: Final = 500
_MAX_BURST: Final = 500
_MAX_CONCURRENT: Final = 5000
_RETRY_DURATIONS: Final = {
    "max_retry_duration": "task_age_limit_seconds",
    "min_backoff": "min_backoff_seconds",
    "max_backoff": "max_backoff_seconds",
}


def queue_message(call: Call, queue: Queue, paths: list[str] | None = None) -> Message:
    """Return a queue; `paths` are the fields wanted, all but the statistics when None."""
    message = call.message("Queue", name=str(call.name._replace(queue=queue.name)))
    settings = queue.settings
    if settings.is_pull:
        message.pull_target.SetInParent()
        setattr(message.rate_limits, call.version.dispatch_rate, _PULL_TASKS_PER_SECOND)
        setattr(message.rate_limits, call.version.max_concurrent, -1)
    else:
        _write_push_settings(message, settings, call.version)
    _write_retry_config(message.retry_config, settings.retry_parameters or RetryParameters())
    message.state = message.State.Value(queue.state.name)
    if queue.purged is not None:
        message.purge_time.FromDatetime(queue.purged)
    if has(message, "task_ttl"):
        _write_ttls(message, settings, call.emulator.limits.tombstone_seconds)
    if paths is None:
        return message
    if any(path.split(".")[0] == "stats" for path in paths):
        _write_statistics(message.stats, queue)
    chosen = call.message("Queue")
    FieldMask(paths=["name", *paths]).MergeMessage(message, chosen)
    return chosen


def queue_settings(call: Call, message: Message, before: QueueSettings) -> QueueSettings:
    """Return the settings of a queue with those that a message changes; its mode stays."""
    parameters, changes = _pull_parameters(message.retry_config, before), {}
    if not before.is_pull:
        parameters = _push_parameters(message.retry_config)
        changes = _push_settings(message, call.version)
    if has(message, "task_ttl"):
        changes["task_lifetime_seconds"] = _ttl(message, "task_ttl", 1, MAX_SECONDS)
        changes["tombstone_seconds"] = _ttl(message, "tombstone_ttl", 0, _MAX_TOMBSTONE_SECONDS)
    retry_parameters = None if parameters == RetryParameters() else parameters
    return replace(before, retry_parameters=retry_parameters, **changes)


def _write_ttls(message: Message, settings: QueueSettings, default_tombstone: int) -> None:
    message.task_ttl.seconds = settings.task_lifetime_seconds or MAX_SECONDS
    if message.task_ttl.seconds == MAX_SECONDS:
        message.task_ttl.nanos = _MAX_NANOS
    tombstone = settings.tombstone_seconds
    message.tombstone_ttl.seconds = default_tombstone if tombstone is None else tombstone


def _write_push_settings(message: Message, settings: QueueSettings, version: Version) -> None:
    *holders, routing = version.routing_override.split(".")
    for holder in holders:
        getattr(message, holder).SetInParent()
    if settings.target:
        name, _, service = settings.target.rpartition(".")
        override = getattr(reduce(getattr, holders, message), routing)
        override.service = service
        override.version = name
    limits = message.rate_limits
    setattr(limits, version.dispatch_rate, settings.rate.per_second if settings.rate else 0)
    limits.max_burst_size = settings.bucket_size or 0
    setattr(limits, version.max_concurrent, settings.max_concurrent_requests or 0)


def _push_settings(message: Message, version: Version) -> dict[str, Any]:
    limits = message.rate_limits
    for field, most in (
        (version.dispatch_rate, _MAX_RATE),
        ("max_burst_size", _MAX_BURST),
        (version.max_concurrent, _MAX_CONCURRENT),
    ):
        check_range(getattr(limits, field), 0, most, f"queue.rate_limits.{field}")
    routing = reduce(getattr, version.routing_override.split("."), message)
    rate = getattr(limits, version.dispatch_rate)
    return {
        "rate": Rate(count=rate) if rate else None,
        "bucket_size": limits.max_burst_size or None,
        "max_concurrent_requests": getattr(limits, version.max_concurrent) or None,
        "target": ".".join(filter(None, (routing.version, routing.service))) or None,
    }


def _pull_parameters(retry: Message, before: QueueSettings) -> RetryParameters:
    parameters = before.retry_parameters or RetryParameters()
    return replace(parameters, task_retry_limit=_attempts(retry))


def _push_parameters(retry: Message) -> RetryParameters:
    check_range(retry.max_doublings, 0, LARGEST_INT, "queue.retry_config.max_doublings")
    values: dict[str, Any] = {"max_doublings": retry.max_doublings or None}
    for field, parameter in _RETRY_DURATIONS.items():
        if retry.HasField(field):
            duration = getattr(retry, field)
            seconds = whole_seconds(duration, f"queue.retry_config.{field}", most=MAX_SECONDS)
            # Only the age limit is in whole seconds.
            fraction = 0 if field == "max_retry_duration" else duration.nanos / 1e9
            values[parameter] = seconds + fraction
    return RetryParameters(task_retry_limit=_attempts(retry), **values)


def _attempts(retry: Message) -> int | None:
    """Return the limit of attempts; None: there is none."""
    if retry.WhichOneof("num_attempts") != "max_attempts":
        return None
    check_range(retry.max_attempts, 1, LARGEST_INT, "queue.retry_config.max_attempts")
    attempts: int = retry.max_attempts
    return attempts


def _ttl(message: Message, field: str, least: int, most: int) -> int | None:
    if not message.HasField(field):
        return None
    return whole_seconds(getattr(message, field), f"queue.{field}", least=least, most=most)


def _write_retry_config(message: Message, retry: RetryParameters) -> None:
    if retry.task_retry_limit is None:
        message.unlimited_attempts = True
    else:
        message.max_attempts = retry.task_retry_limit
    for duration, parameter in _RETRY_DURATIONS.items():
        seconds = getattr(retry, parameter)
        if seconds is not None:
            getattr(message, duration).FromTimedelta(timedelta(seconds=seconds))
    message.max_doublings = retry.max_doublings or 0


def _write_statistics(message: Message, queue: Queue) -> None:
    message.SetInParent()
    if queue.settings.is_pull:
        statistics = queue.fetch_statistics()
        message.tasks_count = statistics.tasks
        message.executed_last_minute_count = statistics.leased_last_minute
        if statistics.oldest_eta is not None:
            message.oldest_estimated_arrival_time.FromDatetime(statistics.oldest_eta)
