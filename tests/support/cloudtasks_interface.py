"""The interface of programs that use Cloud Tasks: Google's clients, over REST or gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, Unpack

import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2beta2
from interfaces import (
    CONFIG,
    LIMITS,
    OTHER_LOCATION,
    PUSH,
    URL,
    Interface,
    PushInterface,
    Serving,
    Shown,
    TaskFields,
    served,
)
from requests import Response

from pullqueue import (
    Emulator,
    InvalidQueueModeError,
    ManualClock,
    NameInUseError,
    OverQuotaError,
    TaskLeaseExpiredError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.address import DEFAULT_LOCATION
from pullqueue.clock import from_usec, to_usec
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import Task

LOCATIONS = "projects/app/locations"

_ERRORS: tuple[tuple[str, str, type[Exception]], ...] = (
    ("FAILED_PRECONDITION", "is a push queue", InvalidQueueModeError),
    ("FAILED_PRECONDITION", "", TaskLeaseExpiredError),
    ("ALREADY_EXISTS", "", NameInUseError),
    ("NOT_FOUND", "is not in", UnknownQueueError),
    ("NOT_FOUND", "", UnknownTaskError),
    ("RESOURCE_EXHAUSTED", "total_storage_limit", OverQuotaError),
    ("INVALID_ARGUMENT", "", ValueError),
)
"""By the code and a part of the message."""
_URL_FIELDS = {"v2beta2": "relative_url", "v2": "relative_uri"}
_BODY_FIELDS = {"v2beta2": "payload", "v2": "body"}


class CloudTasksInterface(PushInterface):
    """Google's client for Cloud Tasks v2beta2; for push tasks that of any version."""

    zero_tasks_means_one = True

    location = DEFAULT_LOCATION

    def __init__(
        self, emulator: Emulator, client: tasks_v2beta2.CloudTasksClient, push_client: Any = None
    ) -> None:
        super().__init__(emulator)
        self._client, self._push_client = client, push_client or client
        version = "v2beta2" if push_client is None else "v2"
        self._url, self._body = _URL_FIELDS[version], _BODY_FIELDS[version]

    def error_of(self, error: Exception) -> type[Exception]:
        if not isinstance(error, exceptions.GoogleAPICallError):
            return type(error)
        code, text = _code_of(error), str(error)
        return next(kind for known, part, kind in _ERRORS if code == known and part in text)

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        task: dict[str, Any] = {"schedule_time": fields.get("eta")}
        if queue == PUSH:
            task["app_engine_http_request"] = {self._url: URL, self._body: payload}
        else:
            task["pull_message"] = {"payload": payload, "tag": fields.get("tag")}
        if name := fields.get("name"):
            task["name"] = self._task_path(queue, name)
        added = self._client_for(queue).create_task(parent=self._queue_path(queue), task=task)
        return _id(added)

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Shown]:
        return self._lease(queue, seconds, count, "")

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Shown]:
        chosen = "tag_function=oldest_tag()" if tag is None else f'tag="{tag}"'
        return self._lease(queue, seconds, count, chosen)

    def modify(self, held: Shown, seconds: float, *, queue: str = "pull") -> Shown:
        request: dict[str, Any] = {
            "name": self._task_path(queue, held.name),
            "schedule_time": from_usec(held.eta_usec),
            "response_view": "FULL",
        }
        if seconds == 0:
            return _leased(self._client.cancel_lease(request=request))
        request["lease_duration"] = timedelta(seconds=seconds)
        return _leased(self._client.renew_lease(request=request))

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        try:
            self._client_for(queue).delete_task(name=self._task_path(queue, name))
        except exceptions.NotFound as error:
            if self.error_of(error) is UnknownTaskError:
                return False
            raise
        return True

    def count(self, *, queue: str = "pull") -> int:
        request = {"name": self._queue_path(queue), "read_mask": "stats"}
        return int(self._client.get_queue(request=request).stats.tasks_count)

    def get(self, name: str) -> Shown:
        request = {"name": self._task_path(PUSH, name), "response_view": "FULL"}
        return self._waiting(self._push_client.get_task(request=request))

    def listed(self) -> list[Shown]:
        request = {"parent": self._queue_path(PUSH), "response_view": "FULL"}
        return list(map(self._waiting, self._push_client.list_tasks(request=request)))

    def purge(self) -> None:
        self._push_client.purge_queue(name=self._queue_path(PUSH))

    def _queue_path(self, queue: str) -> str:
        return f"{LOCATIONS}/{self.location}/queues/{queue}"

    def _task_path(self, queue: str, name: str) -> str:
        return f"{self._queue_path(queue)}/tasks/{name}"

    def _client_for(self, queue: str) -> Any:
        return self._push_client if queue == PUSH else self._client

    def _lease(self, queue: str, seconds: float, count: int, chosen: str) -> list[Shown]:
        request = {
            "parent": self._queue_path(queue),
            "max_tasks": count,
            "lease_duration": timedelta(seconds=seconds),
            "filter": chosen,
            "response_view": "FULL",
        }
        return list(map(_leased, self._client.lease_tasks(request=request).tasks))

    def _waiting(self, task: Any) -> Shown:
        request = task.app_engine_http_request
        target = request.http_method.name, getattr(request, self._url)
        body = getattr(request, self._body)
        return Shown(_id(task), body, to_usec(task.schedule_time), request=target)


def rest_client(url: str, module: Any = tasks_v2beta2) -> Any:
    """Return Google's client for a version on the REST interface of a server."""
    return module.CloudTasksClient(
        transport="rest",
        client_options={"api_endpoint": url},
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )


@contextmanager
def grpc_client(address: str, module: Any = tasks_v2beta2) -> Iterator[Any]:
    """Yield Google's client for a version on a gRPC address."""
    options = [("grpc.max_receive_message_length", -1)]
    transports = import_module(f"{module.__name__}.services.cloud_tasks.transports")
    with grpc.insecure_channel(address, options=options) as channel:
        transport = transports.CloudTasksGrpcTransport(channel=channel)
        yield module.CloudTasksClient(transport=transport)


class LocatedInterface(CloudTasksInterface):
    """The same with queues in another location, which were created there."""

    location = OTHER_LOCATION

    def reset(self) -> None:
        super().reset()
        week = 7 * 86_400
        for each in CONFIG.queues:
            name = self.emulator.name_at(self.location, each.name)
            self.emulator.create_queue(replace(each, name=name, tombstone_seconds=week))

    def exhausted(self, queue: str) -> list[Task]:
        return super().exhausted(self.emulator.name_at(self.location, queue))


@contextmanager
def cloudtasks_rest_interface(
    push_module: ModuleType | None = None, serve: Serving = served
) -> Iterator[Interface]:
    """Serve an emulator and yield Google's client on its REST interface."""
    with serve("app") as (server, emulator):
        push_client = push_module and rest_client(server.url, push_module)
        yield CloudTasksInterface(emulator, rest_client(server.url), push_client)


@contextmanager
def cloudtasks_grpc_interface(
    push_module: ModuleType | None = None, serve: Serving = served
) -> Iterator[Interface]:
    """Serve an emulator and yield Google's client on its gRPC interface."""
    with serve("app") as (server, emulator), _grpc_clients(server, push_module) as clients:
        yield CloudTasksInterface(emulator, *clients)


@contextmanager
def located_interface(push_module: ModuleType | None = None) -> Iterator[Interface]:
    """Serve an emulator and yield Google's client for queues in another location, over gRPC."""
    config = replace(CONFIG, queues=())
    emulator = Emulator(config, clock=ManualClock(), limits=LIMITS)
    with Server(emulator) as server, _grpc_clients(server, push_module) as clients:
        interface = LocatedInterface(emulator, *clients)
        interface.reset()
        yield interface


@contextmanager
def _grpc_clients(server: Server, push_module: ModuleType | None) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(grpc_client(server.start_grpc(), module))
            for module in (tasks_v2beta2, push_module)
            if module is not None
        ]


def _code_of(error: exceptions.GoogleAPICallError) -> str:
    """Return the status code that the server sent, such as `NOT_FOUND`."""
    if error.grpc_status_code is not None and not isinstance(error.response, Response):
        return str(error.grpc_status_code.name)
    return str(error.response.json()["error"]["status"])


def _id(task: Any) -> str:
    return str(task.name.rpartition("/")[2])


def _leased(task: tasks_v2beta2.Task) -> Shown:
    message = task.pull_message
    attempts = task.status.attempt_dispatch_count
    eta_usec = to_usec(task.schedule_time)
    return Shown(_id(task), message.payload, eta_usec, message.tag or None, attempts)
