"""The interfaces of apps that use the SDK's client: in process, and over the wire."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Unpack

import pytest
from google.appengine.runtime import context
from interfaces import (
    PUSH,
    URL,
    Interface,
    PushInterface,
    Serving,
    Shown,
    TaskFields,
    manual_emulator,
    served,
)

from pullqueue import (
    Emulator,
    InvalidQueueModeError,
    NameInUseError,
    OverQuotaError,
    TaskLeaseExpiredError,
    UnknownQueueError,
)
from pullqueue.clock import from_usec, to_usec
from pullqueue.sdk import connect, install
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_stub_map, full_app_id, taskqueue
from pullqueue.sdk.startup import sitecustomize
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import Task

_ERRORS: dict[type[Exception], type[Exception]] = {
    taskqueue.TaskLeaseExpiredError: TaskLeaseExpiredError,
    taskqueue.TaskAlreadyExistsError: NameInUseError,
    taskqueue.TombstonedTaskError: NameInUseError,
    taskqueue.UnknownQueueError: UnknownQueueError,
    taskqueue.InvalidQueueModeError: InvalidQueueModeError,
    taskqueue.Error: ValueError,
    TypeError: ValueError,
    apiproxy_errors.OverQuotaError: OverQuotaError,
}


class SdkInterface(PushInterface):
    """`google.appengine.api.taskqueue`."""

    def error_of(self, error: Exception) -> type[Exception]:
        found = (kind for known, kind in _ERRORS.items() if isinstance(error, known))
        return next(found, type(error))

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        how = {"url": URL} if queue == PUSH else {"method": "PULL"}
        return str(taskqueue.Task(payload=payload, **how, **fields).add(queue).name)

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Shown]:
        return list(map(_leased, taskqueue.Queue(queue).lease_tasks(seconds, count)))

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Shown]:
        tasks = taskqueue.Queue(queue).lease_tasks_by_tag(seconds, count, tag)
        return list(map(_leased, tasks))

    def modify(self, held: Shown, seconds: float, *, queue: str = "pull") -> Shown:
        eta, fields = from_usec(held.eta_usec), {"name": held.name, "tag": held.tag}
        task = taskqueue.Task(payload=held.payload, eta=eta, method="PULL", **fields)
        taskqueue.Queue(queue).modify_task_lease(task, seconds)
        return held._replace(eta_usec=to_usec(task.eta))

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        return bool(taskqueue.Queue(queue).delete_tasks_by_name(name).was_deleted)

    def count(self, *, queue: str = "pull") -> int:
        return int(taskqueue.Queue(queue).fetch_statistics().tasks)

    # The client has no calls that read tasks of push queues.

    def get(self, name: str) -> Shown:
        return _waiting(self.emulator.queue(PUSH).get_task(name))

    def listed(self) -> list[Shown]:
        return list(map(_waiting, self.emulator.queue(PUSH).list_tasks()))

    def purge(self) -> None:
        taskqueue.Queue(PUSH).purge()


@contextmanager
def sdk_interface() -> Iterator[Interface]:
    """Put an emulator in the place of the service and return the interface to it."""
    emulator = manual_emulator()
    with install(emulator):
        yield SdkInterface(emulator)


@contextmanager
def bridge_interface(serve: Serving = served) -> Iterator[Interface]:
    """Serve an emulator, and send this process's calls to it."""
    with serve("my-app") as (server, emulator), _client_of(server, emulator):
        yield SdkInterface(emulator)


@contextmanager
def _client_of(server: Server, emulator: Emulator) -> Iterator[None]:
    stub_map = apiproxy_stub_map.apiproxy
    variables = dict(os.environ)
    clock = emulator.clock
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "get", context.get)  # connect() replaces these
        patch.setattr(full_app_id, "get", full_app_id.get)
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


def _leased(task: Any) -> Shown:
    return Shown(task.name, task.payload, to_usec(task.eta), task.tag, task.retry_count)


def _waiting(task: Task) -> Shown:
    request = task.require_request()
    return Shown(task.name, task.payload, task.eta_usec, request=(request.method, request.url))
