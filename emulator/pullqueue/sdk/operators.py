"""The calls of the task queue service that an operator makes: show queues, change or stop them.

The public client sends none of these; consoles and deployment tools do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    Rate,
)
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.validation import queue_name
from pullqueue.error_codes import codes_of
from pullqueue.errors import InvalidTaskError, UnknownQueueError, UnknownTaskError
from pullqueue.push.dispatcher import RunNow, make_due
from pullqueue.sdk.imports import apiproxy_errors, messages
from pullqueue.sdk.protocol import text_of
from pullqueue.sdk.task_messages import fill_retry, fill_task, given, read_retry
from pullqueue.tasks import Task

_MAX_STORAGE_BYTES = 1000 * 2**40


def query_tasks(queue: Queue, request: Any, response: Any) -> None:
    """List tasks from a position on: by eta, by tag and eta, or by name.

    The position is inclusive, and tasks of one eta are in order of their names, so that a caller
    can page.
    """
    tasks = queue.list_tasks(sys.maxsize)
    name = text_of(request.start_task_name)
    eta_usec = request.start_eta_usec
    if request.HasField("start_tag"):
        tag = text_of(request.start_tag)
        found = _from([task for task in tasks if task.tag == tag], eta_usec, name)
    elif request.HasField("start_eta_usec"):
        found = _from(tasks, eta_usec, name)
    else:
        found = sorted((task for task in tasks if task.name >= name), key=lambda task: task.name)
    for task in found[: request.max_rows]:
        fill_task(response.task.add(), task, queue.now_usec())


def fetch_task(queue: Queue, request: Any, response: Any) -> None:
    """Return one task."""
    task = queue.get_task(text_of(request.task_name))
    fill_task(response.task.task.add(), task, queue.now_usec())


def force_run(emulator: Emulator, run_now: RunNow | None, request: Any) -> int:
    """Send a push task now, or make it due, and return the code of the result.

    It is made due where nothing can send it; a running one is left alone.
    """
    codes = messages.TaskQueueServiceError
    try:
        queue = emulator.queue(text_of(request.queue_name))
        if not queue.is_push:
            return int(codes.INVALID_QUEUE_MODE)
        task = queue.get_task(text_of(request.task_name))
        if run_now is not None:
            with suppress(InvalidTaskError):  # there is no address for it
                run_now(task)
                return int(codes.OK)
        make_due(queue, task)
    except (UnknownTaskError, UnknownQueueError) as error:
        return codes_of(error).sdk_code
    return int(codes.OK)


def fetch_queues(queues: Iterable[Queue], response: Any) -> None:
    """List queues as they are configured."""
    for queue in queues:
        paused = queue.state is QueueState.PAUSED
        _fill_queue(response.queue.add(), queue.settings, paused=paused)


def pause_queue(queue: Queue, request: Any) -> None:
    """Pause a queue, or resume it."""
    if request.pause:
        queue.pause()
    else:
        queue.resume()


def acl_message(entries: Iterable[AclEntry]) -> Any:
    """Write an acl as the protocol's message."""
    acl = messages.TaskQueueAcl()
    for entry in entries:
        if entry.user_email is not None:
            acl.user_email.append(entry.user_email.encode())
        if entry.writer_email is not None:
            acl.writer_email.append(entry.writer_email.encode())
    return acl


def update_queue(emulator: Emulator, request: Any) -> None:
    """Add a queue, or change one."""
    settings = _read_queue(request)
    others = [queue for queue in emulator.config.queues if queue.name != settings.name]
    _reconfigure(emulator, queues=(*others, settings))


def add_push_queue(emulator: Emulator, name: str) -> Queue:
    """Add a push queue to the configuration, and return it.

    Raises:
        InvalidQueueNameError: the name is not valid.
    """
    settings = QueueSettings(name=queue_name(name))
    _reconfigure(emulator, queues=(*emulator.config.queues, settings))
    return emulator.queue(name)


def delete_queue(emulator: Emulator, name: str) -> None:
    """Remove a queue from the configuration; it is disabled and keeps its tasks."""
    emulator.queue(name)
    kept = tuple(queue for queue in emulator.config.queues if queue.name != name)
    _reconfigure(emulator, queues=kept)


def delete_group(emulator: Emulator) -> None:
    """Remove all queues from the configuration."""
    emulator.reconfigure(QueueConfig(file=emulator.config.file))


def update_storage_limit(emulator: Emulator, request: Any, response: Any) -> None:
    """Set the total storage limit, in bytes.

    Raises:
        ApplicationError: it is negative, or over 1000 TiB (as in Google's stub).
    """
    if not 0 <= request.limit <= _MAX_STORAGE_BYTES:
        raise apiproxy_errors.ApplicationError(
            messages.TaskQueueServiceError.INVALID_REQUEST,
            f"storage limit is {request.limit} bytes: must be 0 to {_MAX_STORAGE_BYTES}",
        )
    _reconfigure(emulator, total_storage_limit_bytes=request.limit)
    response.new_limit = request.limit


def _reconfigure(emulator: Emulator, **changes: Any) -> None:
    # Unlike the deployment of a queue.yaml, these calls leave other queues paused.
    emulator.reconfigure(replace(emulator.config, resume_paused_queues=False, **changes))


def _from(tasks: Iterable[Task], eta_usec: int, name: str) -> list[Task]:
    found = [task for task in tasks if (task.eta_usec, task.name) >= (eta_usec, name)]
    return sorted(found, key=lambda task: (task.eta_usec, task.name))


def _fill_queue(message: Any, settings: QueueSettings, *, paused: bool) -> None:
    message.queue_name = settings.name.encode()
    message.bucket_refill_per_second = settings.rate.per_second if settings.rate else 0.0
    message.bucket_capacity = settings.bucket_size or 0
    message.paused = paused
    message.mode = messages.TaskQueueMode.Mode.Value(settings.mode.name)
    if settings.rate is not None:
        message.user_specified_rate = rate_text(settings.rate)
    if settings.max_concurrent_requests is not None:
        message.max_concurrent_requests = settings.max_concurrent_requests
    if settings.retry_parameters is not None:
        fill_retry(message.retry_parameters, settings.retry_parameters)
    if settings.acl is not None:
        message.acl.CopyFrom(acl_message(settings.acl))


def rate_text(rate: Rate) -> str:
    """Write a rate as queue.yaml has it."""
    return f"{rate.count:g}/{rate.unit}"


def _read_queue(request: Any) -> QueueSettings:
    pull = request.mode == messages.TaskQueueMode.PULL
    return QueueSettings(
        name=text_of(request.queue_name),
        mode=QueueMode.PULL if pull else QueueMode.PUSH,
        rate=None if pull else Rate(count=request.bucket_refill_per_second),
        bucket_size=None if pull else int(request.bucket_capacity),
        max_concurrent_requests=given(request, "max_concurrent_requests"),
        retry_parameters=read_retry(request),
        acl=_read_acl(request),
    )


def _read_acl(request: Any) -> tuple[AclEntry, ...] | None:
    if not request.HasField("acl"):
        return None
    users = [AclEntry(user_email=text_of(email)) for email in request.acl.user_email]
    writers = [AclEntry(writer_email=text_of(email)) for email in request.acl.writer_email]
    return (*users, *writers)
