"""The methods on queues and locations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue import config as queue_yaml
from pullqueue.clock import to_usec
from pullqueue.cloudtasks.access import check_permission
from pullqueue.cloudtasks.calls import DEFAULT_LOCATION, Call, ResourceName
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import (
    Empty,
    Message,
    QueueMessage,
    mask_paths,
    message_class,
    page_position,
    page_size,
    page_token,
    whole_seconds,
    write_timestamp,
)
from pullqueue.config.model import QueueMode, QueueSettings, Rate, RetryParameters
from pullqueue.engine.queue import Queue
from pullqueue.errors import UnknownQueueError

_MOST_LISTED: Final = 9800
_PULL_TASKS_PER_SECOND: Final = 500
_MAX_DURATION: Final = (315_576_000_000, 999_999_999)
"""Seconds and nanoseconds of the longest `google.protobuf.Duration`."""
_MAX_TOMBSTONE_SECONDS: Final = 9 * 86_400
_LARGEST: Final = {
    "max_tasks_dispatched_per_second": 500,
    "max_burst_size": 500,
    "max_concurrent_tasks": 5000,
}
"""The limits of a push queue."""
_RETRY_DURATIONS: Final = {
    "max_retry_duration": "task_age_limit_seconds",
    "min_backoff": "min_backoff_seconds",
    "max_backoff": "max_backoff_seconds",
}
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


def create_queue(call: Call) -> Message:
    """CreateQueue: make a queue at run time."""
    message = call.request.queue
    name = ResourceName.parse(message.name, field="queue.name", depth=3)
    if name.parent != call.name:
        raise invalid(
            f'queue.name is "{name}": it must begin with "{call.name}", the parent',
            field="queue.name",
        )
    return _created(call, name)


def update_queue(call: Call) -> Message:
    """UpdateQueue: change the fields of the mask, or all; a queue that is missing is created."""
    request = call.request
    paths = mask_paths(request.update_mask, QueueMessage.DESCRIPTOR, "update_mask")
    try:
        queue = call.queue
    except UnknownQueueError:
        return _created(call, call.name)
    check_permission(queue, call.caller, "queues.update")
    message = request.queue
    if paths:
        message = _queue_message(call, queue)
        FieldMask(paths=paths).MergeMessage(request.queue, message, replace_message_field=True)
    call.emulator.update_queue(_settings(message, queue.settings))
    return _queue_message(call, queue)


def delete_queue(call: Call) -> Message:
    """DeleteQueue: delete a queue and its tasks."""
    call.emulator.delete_queue(call.name.queue)
    return Empty()


def pause_queue(call: Call) -> Message:
    """PauseQueue: let no task be leased."""
    call.queue.pause()
    return _queue_message(call, call.queue)


def resume_queue(call: Call) -> Message:
    """ResumeQueue: let tasks be leased again."""
    call.queue.resume()
    return _queue_message(call, call.queue)


def upload_queue_yaml(call: Call) -> Message:
    """UploadQueueYaml: apply a queue.yaml, as a deployment does."""
    file = call.state.config_file
    profile = {} if file is None else {"profile": file.profile}
    call.emulator.reconfigure(queue_yaml.loads(call.request.http_body.data, **profile))
    return Empty()


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
    message.state = _STATES[queue.state.name]
    if queue.purged is not None:
        write_timestamp(message.purge_time, to_usec(queue.purged))
    lifetime_seconds = settings.task_lifetime_seconds
    if lifetime_seconds in (None, _MAX_DURATION[0]):
        message.task_ttl.seconds, message.task_ttl.nanos = _MAX_DURATION
    else:
        message.task_ttl.seconds = lifetime_seconds
    tombstone = settings.tombstone_seconds
    message.tombstone_ttl.seconds = (
        call.emulator.limits.tombstone_seconds if tombstone is None else tombstone
    )
    if paths is None:
        return message
    if any(path.split(".")[0] == "stats" for path in paths):
        _write_statistics(message.stats, queue)
    chosen = QueueMessage()
    FieldMask(paths=["name", *paths]).MergeMessage(message, chosen)
    return chosen


def _created(call: Call, name: ResourceName) -> Message:
    message = call.request.queue
    targets = {"pull_target": QueueMode.PULL, "app_engine_http_target": QueueMode.PUSH}
    mode = targets.get(message.WhichOneof("target_type"))
    if mode is None:
        raise invalid(
            "the queue has no pull_target or app_engine_http_target: set one", field="queue"
        )
    settings = _settings(message, QueueSettings(name=name.queue, mode=mode))
    created = call.emulator.create_queue(settings)
    return _queue_message(call._replace(name=name), created)


def _settings(message: Message, before: QueueSettings) -> QueueSettings:
    """Return the settings of a queue with those that a message changes; its mode stays."""
    retry = before.retry_parameters or RetryParameters()
    attempts = None
    if message.retry_config.WhichOneof("num_attempts") == "max_attempts":
        attempts = message.retry_config.max_attempts
        if attempts <= 0:
            field = "queue.retry_config.max_attempts"
            raise invalid(f"max_attempts is {attempts}: give 1 or more", field=field)
    retry = replace(retry, task_retry_limit=attempts)
    settings = replace(
        before,
        task_lifetime_seconds=_ttl(message, "task_ttl", 1, _MAX_DURATION[0]),
        tombstone_seconds=_ttl(message, "tombstone_ttl", 0, _MAX_TOMBSTONE_SECONDS),
    )
    if not before.is_pull:
        settings = replace(settings, **_push_settings(message))
        retry = _push_retry(message.retry_config, retry)
    return replace(settings, retry_parameters=None if retry == RetryParameters() else retry)


def _ttl(message: Message, field: str, least: int, most: int) -> int | None:
    if not message.HasField(field):
        return None
    seconds = whole_seconds(getattr(message, field), f"queue.{field}")
    if not least <= seconds <= most:
        raise invalid(
            f"{field} is {seconds} seconds: give {least} to {most}", field=f"queue.{field}"
        )
    return seconds


def _push_settings(message: Message) -> dict[str, Any]:
    limits = message.rate_limits
    for field, most in _LARGEST.items():
        value = getattr(limits, field)
        if not 0 <= value <= most:
            path = f"queue.rate_limits.{field}"
            raise invalid(f"{path} is {value}: give 0 to {most}", field=path)
    routing = message.app_engine_http_target.app_engine_routing_override
    rate = limits.max_tasks_dispatched_per_second
    return {
        "rate": Rate(count=rate) if rate else None,
        "bucket_size": limits.max_burst_size or None,
        "max_concurrent_requests": limits.max_concurrent_tasks or None,
        "target": ".".join(filter(None, (routing.version, routing.service))) or None,
    }


def _push_retry(message: Message, retry: RetryParameters) -> RetryParameters:
    seconds: dict[str, Any] = {}
    for field, parameter in _RETRY_DURATIONS.items():
        if message.HasField(field):
            duration = getattr(message, field)
            seconds[parameter] = whole_seconds(duration, f"queue.retry_config.{field}")
            if field != "max_retry_duration":
                seconds[parameter] += duration.nanos / 1e9
    if message.max_doublings < 0:
        field = "queue.retry_config.max_doublings"
        raise invalid(f"max_doublings is {message.max_doublings}: give 0 or more", field=field)
    return RetryParameters(
        task_retry_limit=retry.task_retry_limit,
        max_doublings=message.max_doublings or None,
        **seconds,
    )


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
    for duration, parameter in _RETRY_DURATIONS.items():
        seconds = getattr(retry, parameter)
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
        return lambda queue: _STATES[queue.state.name] == state
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
