"""The methods on queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from pullqueue import config as queue_yaml
from pullqueue.cloudtasks import messages, texts
from pullqueue.cloudtasks.access import check_permission, find_changed_queues
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import CloudTasksError, invalid, invalid_field
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.methods import QUEUE
from pullqueue.cloudtasks.queue_messages import build_queue_message, read_queue_settings
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.model import DEFAULT_QUEUE, AclEntry, QueueMode, QueueSettings
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.errors import QueueNameInUseError, UnknownQueueError
from pullqueue.tasks import queue_id, split_queue_name

_MAX_LISTED: Final = 9800
_POSITION: Final = re.compile(r"[\w.-]{1,500}", re.ASCII)
"""The name of a queue."""
_TARGETS: Final = {
    "pull_target": QueueMode.PULL,
    "app_engine_http_target": QueueMode.PUSH,
    "http_target": QueueMode.PUSH,
}
_IMPLICIT: Final = QueueSettings(name=DEFAULT_QUEUE)
_FILTER: Final = re.compile(r"(\w+)\s*([=:])\s*(\"[^\"]*\"|[^\s\"]+)")


def list_queues(call: Call) -> Message:
    """ListQueues: a page of the queues of a location, in the order of their names."""
    size, start = messages.parse_page(call.request, _POSITION, most=_MAX_LISTED)
    passes = _queue_filter(call.request.filter)
    paths = _read_paths(call)
    found = {
        queue_id(queue.name): queue
        for queue in call.emulator.queues
        if call.emulator.name_at(call.name.location, queue_id(queue.name)) == queue.name
        and passes(queue)
        and call.shows(queue)
        and not _is_unused(queue)
    }
    queues = [found[name] for name in sorted(found) if not start or name > start[0]]
    response = call.message("ListQueuesResponse")
    response.queues.extend(build_queue_message(call, queue, paths) for queue in queues[:size])
    if len(queues) > size:
        response.next_page_token = messages.encode_page_token(queue_id(queues[size - 1].name))
    return response


def get_queue(call: Call) -> Message:
    """GetQueue: one queue; its statistics if the read mask names them."""
    return build_queue_message(call, call.queue, _read_paths(call))


def create_queue(call: Call) -> Message:
    """CreateQueue: make a queue at run time."""
    name = call.request.queue.name
    return _create(call, ResourceName.parse(name, QUEUE, field="queue.name", parent=call.name))


def update_queue(call: Call) -> Message:
    """UpdateQueue: change the fields of the mask, or all; a queue that is missing is created."""
    request = call.request
    paths = messages.parse_mask(request.update_mask, request.queue.DESCRIPTOR, "update_mask")
    try:
        queue = call.queue
    except UnknownQueueError:
        return _create(call, call.name)
    message = request.queue
    if paths:
        message = build_queue_message(call, queue)
        FieldMask(paths=paths).MergeMessage(request.queue, message, replace_message_field=True)
    call.emulator.update_queue(read_queue_settings(call, message, queue.settings, paths))
    return build_queue_message(call, queue)


def delete_queue(call: Call) -> Message:
    """DeleteQueue: delete a queue and its tasks."""
    call.emulator.delete_queue(call.queue.name)
    return messages.Empty()


def pause_queue(call: Call) -> Message:
    """PauseQueue: prevent leases until the queue is resumed."""
    call.queue.pause()
    return build_queue_message(call, call.queue)


def resume_queue(call: Call) -> Message:
    """ResumeQueue: permit leases again."""
    call.queue.resume()
    return build_queue_message(call, call.queue)


def upload_queue_yaml(call: Call) -> Message:
    """UploadQueueYaml: apply a queue.yaml, as a deployment does."""
    file = call.state.config_file
    profile = {} if file is None else {"profile": file.profile}
    try:
        config = queue_yaml.loads(call.request.http_body.data, **profile)
    except InvalidQueueConfigError as error:
        raise invalid(str(error)) from None
    for queue in find_changed_queues(call.emulator, config):
        _, location, name = split_queue_name(queue.name)
        resource = str(call.name._replace(location=location or call.own_location, queue=name))
        check_permission(queue, call.caller, call.method.permission, resource=resource)
    call.emulator.reconfigure(config, disable_created=file is None or not file.keep_created)
    return messages.Empty()


def purge_queue(call: Call) -> Message:
    """PurgeQueue: delete all tasks of a queue."""
    call.queue.purge()
    return build_queue_message(call, call.queue)


def _create(call: Call, name: ResourceName) -> Message:
    message = call.request.queue
    acl = (AclEntry(user_email=call.caller),) if call.caller else None
    tombstone_seconds = getattr(call.emulator.limits, call.version.tombstone_limit)
    new = QueueSettings(
        name=call.emulator.name_at(name.location, name.queue, creates=True),
        mode=_read_mode(message),
        acl=acl,
    )
    settings = read_queue_settings(call, message, new)
    if settings.tombstone_seconds is None:
        settings = replace(settings, tombstone_seconds=tombstone_seconds)
    for queue in call.emulator.queues:
        if queue.name == settings.name and _is_implicit(queue) and not settings.is_pull:
            return build_queue_message(call, call.emulator.update_queue(settings))
    try:
        return build_queue_message(call, call.emulator.create_queue(settings))
    except QueueNameInUseError as error:
        exists = any(queue.name == settings.name for queue in call.emulator.queues)
        raise CloudTasksError(
            texts.QUEUE_EXISTS if exists else texts.QUEUE_DELETED,
            rpc_code="ALREADY_EXISTS" if exists else call.version.deleted_queue_code,
            advice=str(error),
        ) from None


def _is_implicit(queue: Queue) -> bool:
    """Return True for `default` as every app has it: neither queue.yaml nor a call has set it."""
    return queue.settings == _IMPLICIT and not queue.settings.line


@bypass_interceptors()
def _is_unused(queue: Queue) -> bool:
    """Return True for the implicit `default` without tasks: Cloud Tasks has it once it is used."""
    return _is_implicit(queue) and not queue.list_tasks(1)


def _read_mode(message: Message) -> QueueMode:
    """Return the mode of a new queue, for which each version has a field of its own."""
    if messages.has(message, "type_"):
        return QueueMode.PULL if message.type_ == message.PULL else QueueMode.PUSH
    if not messages.has(message, "pull_target"):
        return QueueMode.PUSH
    mode = _TARGETS.get(message.WhichOneof("target_type"))
    if mode is None:
        raise invalid_field(
            "queue", "has no pull_target, app_engine_http_target or http_target: set one"
        )
    return mode


def _read_paths(call: Call) -> list[str] | None:
    if not messages.has(call.request, "read_mask") or not call.request.HasField("read_mask"):
        return None
    return messages.parse_mask(
        call.request.read_mask, call.message("Queue").DESCRIPTOR, "read_mask"
    )


def _queue_filter(text: str) -> Callable[[Queue], bool]:
    if not text.strip():
        return lambda _queue: True
    match = _FILTER.fullmatch(text.strip())
    if match is not None:
        field, operator, value = match[1], match[2], match[3].strip('"')
        if field == "name" and operator == ":":
            return lambda queue: value in queue_id(queue.name)
        if field == "state" and value in QueueState.__members__:
            return lambda queue: queue.state.name == value
        if field in _TARGETS and (operator, value) == (":", "*"):
            return lambda queue: queue.mode is _TARGETS[field]
    raise invalid_field(
        "filter",
        f'is "{text:.200}": use name:TEXT, state=RUNNING (or PAUSED, DISABLED), pull_target:* or '
        "app_engine_http_target:*",
    )
