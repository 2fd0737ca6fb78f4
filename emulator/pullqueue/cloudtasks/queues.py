"""The methods on queues and locations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue import config as queue_yaml
from pullqueue.cloudtasks.access import changed_queues, check_permission
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import (
    LARGEST_INT,
    Empty,
    Message,
    QueueMessage,
    check_range,
    mask_paths,
    message_class,
    page_of,
    page_token,
    whole_seconds,
)
from pullqueue.cloudtasks.methods import QUEUE
from pullqueue.config.model import AclEntry, QueueMode, QueueSettings, Rate, RetryParameters
from pullqueue.engine.queue import Queue, QueueState
from pullqueue.errors import InvalidQueueConfigError, UnknownQueueError

_DEFAULT_LOCATION: Final = "us-central1"
"""The one location that is listed; callers may use any."""
_MAX_LISTED: Final = 9800
_PULL_TASKS_PER_SECOND: Final = 500
_MAX_SECONDS, _MAX_NANOS = 315_576_000_000, 999_999_999
"""The longest `google.protobuf.Duration`, as task_ttl: tasks have no lifetime."""
_MAX_TOMBSTONE_SECONDS: Final = 9 * 86_400
_PUSH_LIMITS: Final = {
    "max_tasks_dispatched_per_second": 500,
    "max_burst_size": 500,
    "max_concurrent_tasks": 5000,
}
_RETRY_DURATIONS: Final = {
    "max_retry_duration": "task_age_limit_seconds",
    "min_backoff": "min_backoff_seconds",
    "max_backoff": "max_backoff_seconds",
}
_POSITION: Final = re.compile(r"[\w.-]{1,500}", re.ASCII)
"""The name of a queue."""
_TARGETS: Final = {"pull_target": QueueMode.PULL, "app_engine_http_target": QueueMode.PUSH}
_FILTER: Final = re.compile(r"(\w+)\s*([=:])\s*(\"[^\"]*\"|[^\s\"]+)")


def list_queues(call: Call) -> Message:
    """ListQueues: a page of queues, in the order of their names."""
    size, start = page_of(call.request, _POSITION, most=_MAX_LISTED)
    after = start[0] if start else ""
    passes = _queue_filter(call.request.filter)
    paths = _read_paths(call.request)
    queues = sorted(
        (queue for queue in call.emulator.queues if queue.name > after and passes(queue)),
        key=lambda queue: queue.name,
    )
    response = message_class("ListQueuesResponse")()
    response.queues.extend(_queue_message(call, queue, paths) for queue in queues[:size])
    if len(queues) > size:
        response.next_page_token = page_token(queues[size - 1].name)
    return response


def get_queue(call: Call) -> Message:
    """GetQueue: one queue; its statistics if the read mask names them."""
    return _queue_message(call, call.queue, _read_paths(call.request))


def create_queue(call: Call) -> Message:
    """CreateQueue: make a queue at run time."""
    name = call.request.queue.name
    return _created(call, ResourceName.parse(name, QUEUE, field="queue.name", parent=call.name))


def update_queue(call: Call) -> Message:
    """UpdateQueue: change the fields of the mask, or all; a queue that is missing is created."""
    request = call.request
    paths = mask_paths(request.update_mask, QueueMessage.DESCRIPTOR, "update_mask")
    try:
        queue = call.queue
    except UnknownQueueError:
        return _created(call, call.name)
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
    """PauseQueue: prevent leases until the queue is resumed."""
    call.queue.pause()
    return _queue_message(call, call.queue)


def resume_queue(call: Call) -> Message:
    """ResumeQueue: permit leases again."""
    call.queue.resume()
    return _queue_message(call, call.queue)


def upload_queue_yaml(call: Call) -> Message:
    """UploadQueueYaml: apply a queue.yaml, as a deployment does."""
    file = call.state.config_file
    profile = {} if file is None else {"profile": file.profile}
    try:
        config = queue_yaml.loads(call.request.http_body.data, **profile)
    except InvalidQueueConfigError as error:
        raise invalid(str(error)) from None
    for queue in changed_queues(call.emulator, config):
        check_permission(queue, call.caller, call.permission)
    call.emulator.reconfigure(config)
    return Empty()


def purge_queue(call: Call) -> Message:
    """PurgeQueue: delete all tasks of a queue."""
    if call.queue.settings.is_pull:
        call.queue.purge()
    return _queue_message(call, call.queue)


def list_locations(call: Call) -> Message:
    """ListLocations: the one location that is listed."""
    name = call.name._replace(location=_DEFAULT_LOCATION)
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
    _write_retry_config(message.retry_config, settings.retry_parameters or RetryParameters())
    message.state = QueueMessage.State.Value(queue.state.name)
    if queue.purged is not None:
        message.purge_time.FromDatetime(queue.purged)
    message.task_ttl.seconds = settings.task_lifetime_seconds or _MAX_SECONDS
    if message.task_ttl.seconds == _MAX_SECONDS:
        message.task_ttl.nanos = _MAX_NANOS
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
    mode = _TARGETS.get(message.WhichOneof("target_type"))
    if mode is None:
        raise invalid(
            "the queue has no pull_target or app_engine_http_target: set one", field="queue"
        )
    acl = (AclEntry(user_email=call.caller),) if call.caller else None
    settings = _settings(message, QueueSettings(name=name.queue, mode=mode, acl=acl))
    return _queue_message(call._replace(name=name), call.emulator.create_queue(settings))


def _settings(message: Message, before: QueueSettings) -> QueueSettings:
    """Return the settings of a queue with those that a message changes; its mode stays."""
    retry = message.retry_config
    attempts = retry.max_attempts if retry.WhichOneof("num_attempts") == "max_attempts" else None
    if attempts is not None:
        check_range(attempts, 1, LARGEST_INT, "queue.retry_config.max_attempts")
    parameters = before.retry_parameters or RetryParameters()
    changes: dict[str, Any] = {}
    if not before.is_pull:
        changes = _push_settings(message)
        parameters = _push_retry(retry)
    parameters = replace(parameters, task_retry_limit=attempts)
    return replace(
        before,
        task_lifetime_seconds=_ttl(message, "task_ttl", 1, _MAX_SECONDS),
        tombstone_seconds=_ttl(message, "tombstone_ttl", 0, _MAX_TOMBSTONE_SECONDS),
        retry_parameters=None if parameters == RetryParameters() else parameters,
        **changes,
    )


def _ttl(message: Message, field: str, least: int, most: int) -> int | None:
    if not message.HasField(field):
        return None
    return whole_seconds(getattr(message, field), f"queue.{field}", least=least, most=most)


def _push_settings(message: Message) -> dict[str, Any]:
    limits = message.rate_limits
    for field, most in _PUSH_LIMITS.items():
        check_range(getattr(limits, field), 0, most, f"queue.rate_limits.{field}")
    routing = message.app_engine_http_target.app_engine_routing_override
    rate = limits.max_tasks_dispatched_per_second
    return {
        "rate": Rate(count=rate) if rate else None,
        "bucket_size": limits.max_burst_size or None,
        "max_concurrent_requests": limits.max_concurrent_tasks or None,
        "target": ".".join(filter(None, (routing.version, routing.service))) or None,
    }


def _push_retry(message: Message) -> RetryParameters:
    check_range(message.max_doublings, 0, LARGEST_INT, "queue.retry_config.max_doublings")
    values: dict[str, Any] = {"max_doublings": message.max_doublings or None}
    for field, parameter in _RETRY_DURATIONS.items():
        if message.HasField(field):
            duration = getattr(message, field)
            seconds = whole_seconds(duration, f"queue.retry_config.{field}", most=_MAX_SECONDS)
            # Only the age limit is in whole seconds.
            fraction = 0 if field == "max_retry_duration" else duration.nanos / 1e9
            values[parameter] = seconds + fraction
    return RetryParameters(**values)


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
    if field == "state" and value in QueueState.__members__:
        return lambda queue: queue.state.name == value
    if field in _TARGETS and (operator, value) == (":", "*"):
        return lambda queue: queue.mode is _TARGETS[field]
    raise invalid(
        f'filter is "{text:.200}": use name:TEXT, state=RUNNING (or PAUSED, DISABLED), '
        "pull_target:* or app_engine_http_target:*",
        field="filter",
    )


def _location(name: ResourceName) -> Message:
    labels = {"cloud.googleapis.com/region": name.location}
    return message_class("Location")(name=str(name), location_id=name.location, labels=labels)
