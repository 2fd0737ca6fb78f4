"""What suites ask the stub about tasks and queues, in the form of Google's own stub."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pullqueue.clock import from_usec
from pullqueue.config.model import AclEntry
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.sdk.calls import DELETE_CODES
from pullqueue.sdk.imports import messages, taskqueue, taskqueue_stub
from pullqueue.sdk.task_messages import RETRY_FIELDS, fill_task
from pullqueue.tasks import Task
from pullqueue.text import decode_name

_TIME_FORMAT = "%Y/%m/%d %H:%M:%S"


class Names:
    """The names of a queue that cannot be used again yet, as far as Google's stub changes them."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def discard(self, name: str) -> None:
        """Free a name."""
        self._queue.free_names([name])

    def clear(self) -> None:
        """Free all names."""
        self._queue.free_names()


class GroupQueue:
    """A queue as Google's stub, and suites, use those of their own."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.task_name_archive = Names(queue)

    def GetTasksAsDicts(self) -> list[dict[str, Any]]:
        """Return the tasks in order of eta and arrival."""
        return [_task_dict(task, self._queue.now_usec()) for task in self._tasks()]

    def GetTaskAsDict(self, name: str) -> dict[str, Any] | None:
        """Return a task; None: there is none."""
        found = (task for task in self.GetTasksAsDicts() if task["name"] == decode_name(name))
        return next(found, None)

    @bypass_interceptors()
    def Delete(self, name: str) -> int:
        """Delete a task, whose name cannot be used again; return the code of the result."""
        (result,) = self._queue.delete_tasks([decode_name(name)])
        return int(DELETE_CODES[result])

    @bypass_interceptors()
    def PurgeQueue(self) -> None:
        """Delete all tasks."""
        self._queue.purge()

    @bypass_interceptors()
    def Count(self) -> int:
        """Return the number of tasks."""
        return self._queue.fetch_statistics().tasks

    @bypass_interceptors()
    def Oldest(self) -> int | None:
        """Return the first eta in microseconds; None: there is no task."""
        return self._queue.fetch_statistics().oldest_eta_usec

    @bypass_interceptors()
    def _tasks(self) -> list[Task]:
        return self._queue.list_tasks(sys.maxsize)


class Group:
    """The queues of an emulator as Google's stub, and suites, use those of their own."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def HasQueue(self, name: str) -> bool:
        """Return whether there is a queue of a name."""
        return decode_name(name) in self.GetQueues()

    def GetQueue(self, name: str) -> GroupQueue:
        """Return a queue; a KeyError says that there is none, as in Google's stub."""
        return self.GetQueues()[decode_name(name)]

    def GetQueues(self) -> dict[str, GroupQueue]:
        """Return the queues by name."""
        return {
            queue.name: GroupQueue(queue)
            for queue in self._emulator.queues
            if queue.state is not QueueState.DISABLED
        }

    @bypass_interceptors()
    def GetQueuesAsDicts(self) -> list[dict[str, Any]]:
        """Return the queues in order of their names."""
        now = from_usec(self._emulator.now_usec())
        names = sorted(self.GetQueues())
        return [_queue_dict(self._emulator.queue(name), now) for name in names]

    def _ChooseTaskName(self) -> str:
        return self._emulator.names()


def sdk_task(shown: dict[str, Any]) -> Any | None:
    """Make a `taskqueue.Task` object of the dict of a task; None: the SDK has no such task."""
    if shown["method"] != "PULL":
        try:
            return taskqueue_stub.ConvertTaskDictToTaskObject(shown)
        except (taskqueue.InvalidTaskError, taskqueue.InvalidUrlError):
            return None
    return taskqueue.Task(
        name=shown["name"],
        method="PULL",
        payload=base64.b64decode(shown["body"]),
        tag=shown["tag"],
        eta=from_usec(shown["eta_usec"]),
    )


def _queue_dict(queue: Queue, now: datetime) -> dict[str, Any]:
    numbers = queue.fetch_statistics()
    settings = queue.settings
    shown: dict[str, Any] = {
        "name": queue.name,
        "bucket_size": settings.effective_bucket_size,
        "max_rate": str(settings.rate or ""),
        "mode": queue.mode.value,
        "acl": None if settings.acl is None else _acl_message(settings.acl),
        "oldest_task": "",
        "eta_delta": "",
        "tasks_in_queue": numbers.tasks,
    }
    if numbers.oldest_eta is not None:
        shown["oldest_task"] = numbers.oldest_eta.strftime(_TIME_FORMAT)
        shown["eta_delta"] = _delta(numbers.oldest_eta, now)
    if (retry := settings.retry_parameters) is not None:
        shown["retry_parameters"] = {
            field: value
            for name, field in RETRY_FIELDS.items()
            if (value := getattr(retry, name)) is not None
        }
    return shown


def _acl_message(entries: Iterable[AclEntry]) -> Any:
    acl = messages.TaskQueueAcl()
    for entry in entries:
        if entry.user_email is not None:
            acl.user_email.append(entry.user_email.encode())
        if entry.writer_email is not None:
            acl.writer_email.append(entry.writer_email.encode())
    return acl


def _task_dict(task: Task, now_usec: int) -> dict[str, Any]:
    message = messages.TaskQueueQueryTasksResponse.Task()
    fill_task(message, task, now_usec)
    now = from_usec(now_usec).replace(tzinfo=None)
    shown: dict[str, Any] = taskqueue_stub.QueryTasksResponseToDict(task.queue_name, message, now)
    if task.request is None:
        return shown | {"method": "PULL", "tag": task.tag}
    return shown | {"method": task.request.method}


def _delta(eta: datetime, now: datetime) -> str:
    span = abs(eta - now)
    return f"{timedelta(span.days, span.seconds)} {'from now' if eta > now else 'ago'}"
