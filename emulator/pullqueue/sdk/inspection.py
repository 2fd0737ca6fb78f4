"""What suites ask the stub about tasks and queues, in the form of Google's own stub."""

from __future__ import annotations

import base64
import sys
from datetime import datetime, timedelta
from typing import Any

from pullqueue.clock import from_usec
from pullqueue.engine.queue import Queue
from pullqueue.sdk.imports import messages, taskqueue
from pullqueue.sdk.operators import RETRY_FIELDS, acl_message, fill_retry
from pullqueue.tasks import Task

_TIME_FORMAT = "%Y/%m/%d %H:%M:%S"
_BUCKET_SIZE = 5


def queue_dict(queue: Queue, now: datetime) -> dict[str, Any]:
    """Return a pull queue as `GetQueues` shows it."""
    numbers = queue.fetch_statistics()
    settings = queue.settings
    shown: dict[str, Any] = {
        "name": queue.name,
        "bucket_size": settings.bucket_size or _BUCKET_SIZE,
        "max_rate": "",
        "mode": queue.mode.value,
        "acl": None if settings.acl is None else acl_message(settings.acl),
        "oldest_task": "",
        "eta_delta": "",
        "tasks_in_queue": numbers.tasks,
    }
    if numbers.oldest_eta is not None:
        shown["oldest_task"] = numbers.oldest_eta.strftime(_TIME_FORMAT)
        shown["eta_delta"] = _delta(numbers.oldest_eta, now)
    if settings.retry_parameters is not None:
        retry = messages.TaskQueueRetryParameters()
        fill_retry(retry, settings.retry_parameters)
        shown["retry_parameters"] = {
            field: getattr(retry, field) for field in RETRY_FIELDS.values() if retry.HasField(field)
        }
    return shown


def task_dicts(queue: Queue, now: datetime) -> list[dict[str, Any]]:
    """Return the tasks of a pull queue as `GetTasks` shows them, in order of eta and arrival."""
    return [_task_dict(task, now) for task in queue.list_tasks(sys.maxsize)]


def sdk_task(shown: dict[str, Any]) -> Any:
    """Make a `taskqueue.Task` object of the dict of a pull task."""
    return taskqueue.Task(
        name=shown["name"],
        method="PULL",
        payload=base64.b64decode(shown["body"]),
        tag=shown["tag"],
        eta=from_usec(shown["eta_usec"]),
    )


def _task_dict(task: Task, now: datetime) -> dict[str, Any]:
    body = base64.b64encode(task.payload)
    return {
        "name": task.name,
        "queue_name": task.queue_name,
        "url": "",
        "method": "PULL",
        "eta": task.eta.strftime(_TIME_FORMAT),
        "eta_usec": task.eta_usec,
        "eta_delta": _delta(task.eta, now),
        "body": body,
        "tag": task.tag,
        "creation_time_usec": task.enqueued_usec,
        "headers": [
            ("X-AppEngine-QueueName", task.queue_name),
            ("X-AppEngine-TaskName", task.name),
            ("X-AppEngine-TaskRetryCount", str(task.retry_count)),
            ("X-AppEngine-TaskETA", str(task.eta_usec / 1e6)),
            ("X-AppEngine-Development-Payload", "1"),
            ("Content-Length", str(len(body))),
            ("Content-Type", "application/octet-stream"),
            ("X-AppEngine-TaskExecutionCount", str(task.retry_count)),
        ],
    }


def _delta(eta: datetime, now: datetime) -> str:
    if eta > now:
        return f"{_whole_seconds(eta - now)} from now"
    return f"{_whole_seconds(now - eta)} ago"


def _whole_seconds(span: timedelta) -> timedelta:
    return timedelta(days=span.days, seconds=span.seconds)
