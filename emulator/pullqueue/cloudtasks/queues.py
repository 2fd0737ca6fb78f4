"""The methods on queues and locations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue.clock import to_usec
from pullqueue.cloudtasks.context import Call
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import (
    Message,
    QueueMessage,
    mask_paths,
    message_class,
    page_position,
    page_size,
    page_token,
    write_timestamp,
)
from pullqueue.cloudtasks.names import DEFAULT_LOCATION, ResourceName
from pullqueue.config.model import QueueSettings, RetryParameters
from pullqueue.engine.queue import Queue

_MOST_LISTED: Final = 9800
_PULL_TASKS_PER_SECOND: Final = 500
_MAX_DURATION: Final = (315_576_000_000, 999_999_999)
"""Seconds and nanoseconds of the longest `google.protobuf.Duration`."""
_POSITION: Final = re.compile(r"[\w.-]{1,500}", re.ASCII)
"""The name of a queue."""
_STATES: Final = dict(QueueMessage.State.items())
_FILTER: Final = re.compile(r"(\w+)\s*([=:])\s*(\"[^\"]*\"|[^\s\"]+)")


def list_queues(call: Call) -> Message:
    """ListQueues: a page of queues, in the order of their names."""
    request = call.request
    response = message_class("ListQueuesResponse")()
    size = page_size(request.page_size, most=_MOST_LISTED)
    start = page_position(request.page_token, _POSITION)
    after = start[0] if start else ""
    passes = _queue_filter(request.filter)
    paths = _read_paths(request)
    queues = sorted(
        (queue for queue in call.emulator.queues if queue.name > after and passes(queue)),
        key=lambda queue: queue.name,
    )
    for queue in queues[:size]:
        response.queues.append(_queue_message(call, queue, paths))
    if len(queues) > size:
        response.next_page_token = page_token(queues[size - 1].name)
    return response


def get_queue(call: Call) -> Message:
    """GetQueue: one queue; its statistics if the read mask names them."""
    return _queue_message(call, call.queue, _read_paths(call.request))


def purge_queue(call: Call) -> Message:
    """PurgeQueue: delete all tasks of a queue."""
    if call.queue.settings.is_pull:
        call.queue.purge()
    return _queue_message(call, call.queue)


def list_locations(call: Call) -> Message:
    """ListLocations: the one location that is listed."""
    name = call.name._replace(location=DEFAULT_LOCATION)
    return message_class("ListLocationsResponse")(locations=[_location(name)])


def get_location(call: Call) -> Message:
    """GetLocation: any location that is asked for."""
    return _location(call.name)


def _queue_message(call: Call, queue: Queue, paths: list[str] | None = None) -> Message:
    """Return a queue; `paths` are the fields wanted, all but the statistics when None."""
    message = QueueMessage(name=str(call.name._replace(queue=queue.name)))
    settings = queue.settings
    if settings.is_pull:
        message.pull_target.SetInParent()
        message.rate_limits.max_tasks_dispatched_per_second = _PULL_TASKS_PER_SECOND
        message.rate_limits.max_concurrent_tasks = -1
    else:
        _write_push_settings(message, settings)
    _write_retry_config(message.retry_config, settings.retry_parameters)
    message.state = _state(queue)
    message.task_ttl.seconds, message.task_ttl.nanos = _MAX_DURATION
    message.tombstone_ttl.seconds = call.emulator.limits.tombstone_seconds
    if paths is None:
        return message
    if any(path.split(".")[0] == "stats" for path in paths):
        _write_statistics(message.stats, queue)
    chosen = QueueMessage()
    FieldMask(paths=["name", *paths]).MergeMessage(message, chosen)
    return chosen


def _state(queue: Queue) -> int:
    return int(QueueMessage.DISABLED if queue.disabled else QueueMessage.RUNNING)


def _write_push_settings(message: Message, settings: QueueSettings) -> None:
    target = message.app_engine_http_target
    target.SetInParent()
    if settings.target:
        version, _, service = settings.target.rpartition(".")
        target.app_engine_routing_override.service = service
        target.app_engine_routing_override.version = version
    limits = message.rate_limits
    limits.max_tasks_dispatched_per_second = settings.rate.per_second if settings.rate else 0
    limits.max_burst_size = settings.bucket_size or 0
    limits.max_concurrent_tasks = settings.max_concurrent_requests or 0


def _write_retry_config(message: Message, retry: RetryParameters | None) -> None:
    retry = retry or RetryParameters()
    if retry.task_retry_limit is None:
        message.unlimited_attempts = True
    else:
        message.max_attempts = retry.task_retry_limit
    for duration, seconds in (
        ("max_retry_duration", retry.task_age_limit_seconds),
        ("min_backoff", retry.min_backoff_seconds),
        ("max_backoff", retry.max_backoff_seconds),
    ):
        if seconds is not None:
            getattr(message, duration).FromTimedelta(timedelta(seconds=seconds))
    message.max_doublings = retry.max_doublings or 0


def _write_statistics(message: Message, queue: Queue) -> None:
    message.SetInParent()
    if not queue.settings.is_pull:
        return
    statistics = queue.fetch_statistics()
    message.tasks_count = statistics.tasks
    message.executed_last_minute_count = statistics.leased_last_minute
    if statistics.oldest_eta is not None:
        write_timestamp(message.oldest_estimated_arrival_time, to_usec(statistics.oldest_eta))


def _read_paths(request: Message) -> list[str] | None:
    if not request.HasField("read_mask"):
        return None
    return mask_paths(request.read_mask, QueueMessage.DESCRIPTOR, "read_mask")


def _queue_filter(text: str) -> Callable[[Queue], bool]:
    """Return what decides whether a queue is listed."""
    if not text.strip():
        return lambda _queue: True
    match = _FILTER.fullmatch(text.strip())
    field, operator, value = match.groups() if match else ("", "", "")
    value = value.strip('"')
    if field == "name" and operator == ":":
        return lambda queue: value in queue.name
    if field == "state" and value in _STATES:
        state = _STATES[value]
        return lambda queue: _state(queue) == state
    if (field, operator, value) == ("pull_target", ":", "*"):
        return lambda queue: queue.settings.is_pull
    if (field, operator, value) == ("app_engine_http_target", ":", "*"):
        return lambda queue: not queue.settings.is_pull
    raise invalid(
        f'filter is "{text:.200}": use name:TEXT, state=RUNNING (or PAUSED, DISABLED), '
        "pull_target:* or app_engine_http_target:*",
        field="filter",
    )


def _location(name: ResourceName) -> Message:
    return message_class("Location")(
        name=str(name),
        location_id=name.location,
        labels={"cloud.googleapis.com/region": name.location},
    )
