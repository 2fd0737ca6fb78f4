"""The interfaces of apps that use the SDK's client: in process, and over the wire."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Unpack

import pytest
from google.appengine.runtime import context
from interfaces import (
    PUSH,
    URL,
    Held,
    Interface,
    Listed,
    PushInterface,
    Refusal,
    Refused,
    TaskFields,
    manual_emulator,
)

from pullqueue.clock import from_usec
from pullqueue.sdk import connect, install
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_stub_map, messages, taskqueue
from pullqueue.sdk.startup import sitecustomize
from pullqueue.server.lifecycle import Server

_REFUSALS: dict[type[Exception], Refusal] = {
    taskqueue.TaskLeaseExpiredError: Refusal.LEASE_EXPIRED,
    taskqueue.TaskAlreadyExistsError: Refusal.NAME_TAKEN,
    taskqueue.UnknownQueueError: Refusal.UNKNOWN_QUEUE,
    taskqueue.InvalidQueueModeError: Refusal.WRONG_MODE,
    apiproxy_errors.OverQuotaError: Refusal.OVER_QUOTA,
}
_CODES: dict[int, Refusal] = {
    messages.TaskQueueServiceError.UNKNOWN_TASK: Refusal.UNKNOWN_TASK,
    messages.TaskQueueServiceError.TOMBSTONED_TASK: Refusal.UNKNOWN_TASK,
}


class SdkInterface(PushInterface):
    """`google.appengine.api.taskqueue`."""

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        with _refusals(tombstoned=Refusal.NAME_TAKEN):
            task = taskqueue.Task(payload=payload, method="PULL", **fields)
            return str(task.add(queue).name)

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Held]:
        with _refusals():
            return [_held(task) for task in taskqueue.Queue(queue).lease_tasks(seconds, count)]

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Held]:
        with _refusals():
            tasks = taskqueue.Queue(queue).lease_tasks_by_tag(seconds, count, tag)
            return [_held(task) for task in tasks]

    def modify(self, held: Held, seconds: float, *, queue: str = "pull") -> Held:
        with _refusals():
            task = taskqueue.Task(
                payload=held.payload,
                name=held.name,
                tag=held.tag,
                eta=from_usec(held.eta_usec),
                method="PULL",
            )
            taskqueue.Queue(queue).modify_task_lease(task, seconds)
            return _held(task, retry_count=held.retry_count)

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        with _refusals():
            return bool(taskqueue.Queue(queue).delete_tasks_by_name(name).was_deleted)

    def count(self, *, queue: str = "pull") -> int:
        with _refusals():
            return int(taskqueue.Queue(queue).fetch_statistics().tasks)

    def add_push(
        self, payload: bytes = b"", *, name: str | None = None, eta: datetime | None = None
    ) -> str:
        with _refusals(tombstoned=Refusal.NAME_TAKEN):
            task = taskqueue.Task(url=URL, payload=payload, name=name, eta=eta)
            return str(task.add(PUSH).name)

    def get(self, name: str) -> Listed:
        request = messages.TaskQueueFetchTaskRequest(
            queue_name=PUSH.encode(), task_name=name.encode()
        )
        response = messages.TaskQueueFetchTaskResponse()
        with _refusals():
            try:
                apiproxy_stub_map.MakeSyncCall("taskqueue", "FetchTask", request, response)
            except apiproxy_errors.ApplicationError as error:
                raise Refused(_CODES[error.application_error]) from error
        return _listed(response.task.task[0])

    def listed(self) -> list[Listed]:
        request = messages.TaskQueueQueryTasksRequest(
            queue_name=PUSH.encode(), start_eta_usec=0, max_rows=100
        )
        response = messages.TaskQueueQueryTasksResponse()
        apiproxy_stub_map.MakeSyncCall("taskqueue", "QueryTasks", request, response)
        return [_listed(task) for task in response.task]

    def purge(self) -> None:
        with _refusals():
            taskqueue.Queue(PUSH).purge()


@contextmanager
def sdk_interface() -> Iterator[Interface]:
    """Put an emulator in the place of the service and return the interface to it."""
    emulator = manual_emulator()
    with install(emulator):
        yield SdkInterface(emulator)


@contextmanager
def bridge_interface() -> Iterator[Interface]:
    """Serve an emulator, and send this process's calls to it."""
    with Server(manual_emulator()) as server, _client_of(server):
        yield SdkInterface(server.emulator)


@contextmanager
def _client_of(server: Server) -> Iterator[None]:
    stub_map = apiproxy_stub_map.apiproxy
    variables = dict(os.environ)
    clock = server.emulator.clock
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "get", context.get)  # connect() replaces it
        connect(f"{server.host}:{server.port}")
        os.environ["HTTP_HOST"] = "localhost"
        # What a process of its own would have: the time of the server's machine.
        now = SimpleNamespace(time=lambda: clock.now_usec() / 1e6, mktime=time.mktime)
        patch.setattr(taskqueue.taskqueue, "time", now)
        stub = stub_map.GetStub("taskqueue")
        try:
            yield
        finally:
            stub.http.clear()
            stub.thread_pool.shutdown()
            stub_map.SetDefaultStub(None)
            sitecustomize.variables.clear()
            os.environ.clear()
            os.environ.update(variables)


@contextmanager
def _refusals(*, tombstoned: Refusal = Refusal.UNKNOWN_TASK) -> Iterator[None]:
    try:
        yield
    except taskqueue.TombstonedTaskError as error:
        raise Refused(tombstoned) from error
    except (taskqueue.Error, apiproxy_errors.Error, TypeError) as error:
        raise Refused(_refusal(error)) from error


def _refusal(error: Exception) -> Refusal:
    if type(error) is taskqueue.Error and "has no task" in str(error):
        return Refusal.UNKNOWN_TASK
    found = (refusal for kind, refusal in _REFUSALS.items() if isinstance(error, kind))
    return next(found, Refusal.INVALID)


def _held(task: Any, *, retry_count: int | None = None) -> Held:
    return Held(
        name=task.name,
        payload=task.payload,
        tag=task.tag,
        eta_usec=task._eta_usec,
        retry_count=task.retry_count if retry_count is None else retry_count,
    )


def _listed(task: Any) -> Listed:
    method = type(task).RequestMethod.Name(task.method)
    return Listed(task.task_name.decode(), task.body, method, task.url.decode(), task.eta_usec)
