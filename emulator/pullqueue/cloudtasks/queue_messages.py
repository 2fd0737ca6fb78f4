"""Queues as messages: what a message shows of a queue, and what it changes in its settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue.api.resources import Project
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.access import check_service_account
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import invalid, invalid_field
from pullqueue.cloudtasks.http_target_messages import read_http_target, write_http_target
from pullqueue.cloudtasks.locations import REGION_IDS
from pullqueue.cloudtasks.messages import (
    LARGEST_INT,
    MAX_SECONDS,
    Message,
    check_not_negative,
    check_range,
    has,
    read_seconds,
)
from pullqueue.cloudtasks.retry_messages import read_retry, with_defaults, write_retry
from pullqueue.cloudtasks.versions import Version
from pullqueue.config.model import DEFAULT_CONCURRENT_REQUESTS, QueueSettings, Rate, RetryParameters
from pullqueue.engine.queue import Queue
from pullqueue.limits import BUCKET_SIZE, CONCURRENT_REQUESTS, DAY_SECONDS, RATE_PER_SECOND, Limits
from pullqueue.tasks import queue_id

_MAX_NANOS: Final = 999_999_999
_MAX_TOMBSTONE_SECONDS: Final = 9 * DAY_SECONDS
_DEFAULT_RATE: Final = 500
_BURST_SECONDS, _MIN_BURST, _MAX_BURST = 0.2, 10, 100
"""The tokens that a new queue holds: what it starts in this time, within these limits. Seen in
production are 10 with 1 a second and 100 with 500."""


def build_queue_message(call: Call, queue: Queue, paths: list[str] | None = None) -> Message:
    """Return a queue; `paths` are the fields wanted, all but the statistics when None."""
    message = call.message("Queue", name=str(call.name._replace(queue=queue_id(queue.name))))
    settings = queue.settings
    write = _write_pull_settings if settings.is_pull else _write_push_settings
    write(call, message, settings)
    message.state = message.State.Value(queue.state.name)
    if queue.purged_at is not None:
        message.purge_time.FromDatetime(queue.purged_at)
    if has(message, "type_"):
        message.type_ = message.Type.Value(settings.mode.name)
    if has(message, "task_ttl"):
        _write_ttls(message, settings, call.emulator.limits.tombstone_seconds)
    if paths is None:
        return message
    if any(path.split(".")[0] == "stats" for path in paths):
        _write_statistics(call, message.stats, queue)
    chosen = call.message("Queue")
    FieldMask(paths=["name", *paths]).MergeMessage(message, chosen)
    return chosen


def read_queue_settings(
    call: Call, message: Message, before: QueueSettings, paths: Iterable[str] = ()
) -> QueueSettings:
    """Return the settings of a queue with those that a message changes; its mode stays.

    `paths` are the fields to change; without any, all of them.
    """
    names = {path.partition(".")[0] for path in paths}
    fields = names or {field.name for field in message.DESCRIPTOR.fields}
    changes: dict[str, Any] = {}
    if "type_" in fields:
        _check_mode(message, before)
    if "task_ttl" in fields:
        changes["task_lifetime_seconds"] = _ttl(message, "task_ttl", 1, MAX_SECONDS)
    if "tombstone_ttl" in fields:
        changes["tombstone_seconds"] = _ttl(message, "tombstone_ttl", 0, _MAX_TOMBSTONE_SECONDS)
    if "retry_config" in fields:
        read = _pull_retry if before.is_pull else read_retry
        changes["retry_parameters"] = read(message.retry_config, "queue.retry_config")
    if before.is_pull:
        if "http_target" in fields and message.http_target.ByteSize():
            raise invalid_field(
                "queue.http_target", "is set, and the queue is a pull queue: leave it out"
            )
    else:
        changes |= _push_changes(message, fields, call.version, call.emulator.limits)
        target = changes.get("http_target")
        if target is not None and target.token is not None:
            field = f"queue.http_target.{target.token.kind}.service_account_email"
            check_service_account(call.emulator, target.token.email, field)
    return replace(before, **changes)


def _check_mode(message: Message, before: QueueSettings) -> None:
    values = message.Type.DESCRIPTOR.values_by_number
    name = values[message.type_].name if message.type_ in values else str(message.type_)
    if message.type_ and name.lower() != before.mode.value:
        raise invalid_field(
            "queue.type",
            f"is {name}, and the queue is a {before.mode.value} queue: leave it out, or create "
            "another queue",
        )


def _push_changes(
    message: Message, fields: set[str], version: Version, limits: Limits
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if "http_target" in fields:
        target = read_http_target(message.http_target, headers_bytes=limits.http_headers_bytes)
        changes["http_target"] = target
    routing = version.routing_override.split(".")
    if routing[0] in fields:
        changes["target"] = read_target(reduce(getattr, routing, message))
    if "rate_limits" in fields:
        changes |= _rates(message.rate_limits, version)
    if "stackdriver_logging_config" in fields:
        ratio = message.stackdriver_logging_config.sampling_ratio
        check_range(ratio, 0, 1, "queue.stackdriver_logging_config.sampling_ratio")
        given = message.HasField("stackdriver_logging_config")
        changes["log_sampling_ratio"] = ratio if given else None
    return changes


def read_target(routing: Message) -> str | None:
    """Return the service, version or instance that a routing names."""
    service = routing.service or ("default" if routing.version or routing.instance else "")
    return ".".join(filter(None, (routing.instance, routing.version, service))) or None


def write_routing(message: Message, target: str | None, name: ResourceName) -> None:
    """Write a service, version or instance into a routing, and the host that it leads to."""
    parts = ["", "", *(target or "").rsplit(".", 2)][-3:]
    message.instance, message.version, message.service = parts
    region = REGION_IDS.get(name.location)
    host = f"{Project.of(name.project).app_id}.{f'{region}.r.' if region else ''}appspot.com"
    message.host = ".".join(filter(None, (*parts, host)))


def _write_push_settings(call: Call, message: Message, settings: QueueSettings) -> None:
    version, limits = call.version, message.rate_limits
    *holders, routing = version.routing_override.split(".")
    for holder in holders:
        getattr(message, holder).SetInParent()
    if settings.target:
        override = getattr(reduce(getattr, holders, message), routing)
        write_routing(override, settings.target, call.name)
    if settings.http_target is not None:
        write_http_target(message.http_target, settings.http_target)
    setattr(limits, version.dispatch_rate, settings.effective_rate)
    limits.max_burst_size = settings.effective_bucket_size
    setattr(limits, version.max_concurrent, settings.effective_concurrent_requests)
    write_retry(message.retry_config, with_defaults(settings.retry_parameters or RetryParameters()))
    if settings.log_sampling_ratio is not None and has(message, "stackdriver_logging_config"):
        config = message.stackdriver_logging_config
        config.SetInParent()
        config.sampling_ratio = settings.log_sampling_ratio


def _rates(limits: Message, version: Version) -> dict[str, Any]:
    rate = _limit(limits, version.dispatch_rate, RATE_PER_SECOND)
    concurrent = int(_limit(limits, version.max_concurrent, CONCURRENT_REQUESTS))
    rate = rate or _DEFAULT_RATE
    burst = int(min(max(rate * _BURST_SECONDS, _MIN_BURST), _MAX_BURST))
    if version.sets_burst:
        check_range(limits.max_burst_size, 0, BUCKET_SIZE, "queue.rate_limits.max_burst_size")
        burst = limits.max_burst_size or burst
    return {
        "rate": Rate(count=rate),
        "bucket_size": burst,
        "max_concurrent_requests": concurrent or DEFAULT_CONCURRENT_REQUESTS,
    }


def _limit(limits: Message, name: str, most: int) -> float:
    value: float = getattr(limits, name)
    shown = f"RateLimits.{limits.DESCRIPTOR.fields_by_name[name].json_name}"
    field = f"queue.rate_limits.{name}"
    check_not_negative(value, shown, field)
    if not value <= most:
        advice = f"{field} is {value}: use 0 to {most}"
        raise invalid(texts.TOO_LARGE.format(field=shown, most=most), advice=advice)
    return value


def _pull_retry(message: Message, field: str) -> RetryParameters | None:
    if not has(message, "unlimited_attempts"):
        unlimited = message.max_attempts in (0, -1)
    else:
        unlimited = message.WhichOneof("num_attempts") != "max_attempts"
    if unlimited:
        return None
    check_range(message.max_attempts, 1, LARGEST_INT, f"{field}.max_attempts")
    return RetryParameters(task_retry_limit=message.max_attempts)


def _write_pull_settings(call: Call, message: Message, settings: QueueSettings) -> None:
    if has(message, "pull_target"):
        message.pull_target.SetInParent()
    setattr(message.rate_limits, call.version.dispatch_rate, RATE_PER_SECOND)
    setattr(message.rate_limits, call.version.max_concurrent, -1)
    retry = settings.retry_parameters or RetryParameters()
    write_retry(message.retry_config, retry)
    if retry.task_retry_limit is not None:
        # How often a task can be leased.
        message.retry_config.max_attempts = retry.task_retry_limit


def _write_ttls(message: Message, settings: QueueSettings, default_tombstone: int) -> None:
    message.task_ttl.seconds = settings.task_lifetime_seconds or MAX_SECONDS
    if message.task_ttl.seconds == MAX_SECONDS:
        message.task_ttl.nanos = _MAX_NANOS
    tombstone = settings.tombstone_seconds
    message.tombstone_ttl.seconds = default_tombstone if tombstone is None else tombstone


def _ttl(message: Message, field: str, least: int, most: int) -> int | None:
    if not message.HasField(field):
        return None
    return read_seconds(getattr(message, field), f"queue.{field}", least=least, most=most)


def _write_statistics(call: Call, message: Message, queue: Queue) -> None:
    statistics = queue.fetch_statistics()
    message.SetInParent()
    message.tasks_count = statistics.tasks
    message.executed_last_minute_count = statistics.leased_last_minute
    message.concurrent_dispatches_count = statistics.running
    if statistics.oldest_eta is not None:
        message.oldest_estimated_arrival_time.FromDatetime(statistics.oldest_eta)
    if queue.is_push:
        rate, delivery = queue.settings.effective_rate, call.state.delivery
        if delivery is not None:
            rate = delivery.dispatcher.enforced_rate(queue)
        message.effective_execution_rate = rate
