"""The interface of programs that use Cloud Tasks: Google's clients, over REST or gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, Unpack

import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2beta2
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
from requests import Response

from pullqueue import Emulator
from pullqueue.clock import from_usec, to_usec
from pullqueue.server.lifecycle import Server

LOCATION = "projects/app/locations/us-central1"

_REFUSALS: tuple[tuple[str, str, Refusal], ...] = (
    ("FAILED_PRECONDITION", "is a push queue", Refusal.WRONG_MODE),
    ("FAILED_PRECONDITION", "", Refusal.LEASE_EXPIRED),
    ("ALREADY_EXISTS", "", Refusal.NAME_TAKEN),
    ("NOT_FOUND", "is not in", Refusal.UNKNOWN_QUEUE),
    ("NOT_FOUND", "", Refusal.UNKNOWN_TASK),
    ("RESOURCE_EXHAUSTED", "total_storage_limit", Refusal.OVER_QUOTA),
    ("INVALID_ARGUMENT", "", Refusal.INVALID),
)


_URL_FIELDS = {"v2beta2": "relative_url", "v2": "relative_uri"}
_BODY_FIELDS = {"v2beta2": "payload", "v2": "body"}


class CloudTasksInterface(PushInterface):
    """Google's client for Cloud Tasks v2beta2; for push tasks that of any version."""

    zero_tasks_means_one = True

    def __init__(
        self, emulator: Emulator, client: tasks_v2beta2.CloudTasksClient, push_client: Any = None
    ) -> None:
        super().__init__(emulator)
        self._client = client
        self._push_client = push_client or client
        self._version = "v2beta2" if push_client is None else "v2"

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        message = {"payload": payload, "tag": fields.get("tag")}
        return self._add(queue, fields.get("name"), fields.get("eta"), pull_message=message)

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Held]:
        return self._lease(queue, seconds, count, "")

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Held]:
        chosen = "tag_function=oldest_tag()" if tag is None else f'tag="{tag}"'
        return self._lease(queue, seconds, count, chosen)

    def modify(self, held: Held, seconds: float, *, queue: str = "pull") -> Held:
        request: dict[str, Any] = {
            "name": _task_path(queue, held.name),
            "schedule_time": from_usec(held.eta_usec),
            "response_view": "FULL",
        }
        with _refusals():
            if seconds == 0:
                return _held(self._client.cancel_lease(request=request))
            request["lease_duration"] = timedelta(seconds=seconds)
            return _held(self._client.renew_lease(request=request))

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        client = self._push_client if queue == PUSH else self._client
        try:
            with _refusals():
                client.delete_task(name=_task_path(queue, name))
        except Refused as refused:
            if refused.refusal is Refusal.UNKNOWN_TASK:
                return False
            raise
        return True

    def count(self, *, queue: str = "pull") -> int:
        request = {"name": _queue_path(queue), "read_mask": "stats"}
        with _refusals():
            return int(self._client.get_queue(request=request).stats.tasks_count)

    def add_push(
        self, payload: bytes = b"", *, name: str | None = None, eta: datetime | None = None
    ) -> str:
        message = {_URL_FIELDS[self._version]: URL, _BODY_FIELDS[self._version]: payload}
        return self._add(PUSH, name, eta, app_engine_http_request=message)

    def get(self, name: str) -> Listed:
        request = {"name": _task_path(PUSH, name), "response_view": "FULL"}
        with _refusals():
            return self._listed(self._push_client.get_task(request=request))

    def listed(self) -> list[Listed]:
        request = {"parent": _queue_path(PUSH), "response_view": "FULL"}
        with _refusals():
            return [self._listed(task) for task in self._push_client.list_tasks(request=request)]

    def purge(self) -> None:
        with _refusals():
            self._push_client.purge_queue(name=_queue_path(PUSH))

    def _add(self, queue: str, name: str | None, eta: datetime | None, **message: Any) -> str:
        task = {"schedule_time": eta, **message}
        if name is not None:
            task["name"] = _task_path(queue, name)
        with _refusals():
            request = {"parent": _queue_path(queue), "task": task}
            added = (self._push_client if queue == PUSH else self._client).create_task(request)
        return str(added.name.rpartition("/")[2])

    def _listed(self, task: Any) -> Listed:
        request = task.app_engine_http_request
        url = getattr(request, _URL_FIELDS[self._version])
        body = getattr(request, _BODY_FIELDS[self._version])
        name, eta_usec = task.name.rpartition("/")[2], to_usec(task.schedule_time)
        return Listed(name, body, request.http_method.name, url, eta_usec)

    def _lease(self, queue: str, seconds: float, count: int, chosen: str) -> list[Held]:
        request = {
            "parent": _queue_path(queue),
            "max_tasks": count,
            "lease_duration": timedelta(seconds=seconds),
            "filter": chosen,
            "response_view": "FULL",
        }
        with _refusals():
            return [_held(task) for task in self._client.lease_tasks(request=request).tasks]


def rest_client(url: str, credentials: Any = None, module: Any = tasks_v2beta2) -> Any:
    """Return Google's client for a version on the REST interface of a server."""
    return module.CloudTasksClient(
        transport="rest",
        client_options={"api_endpoint": url},
        credentials=credentials or AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )


@contextmanager
def grpc_client(address: str, module: Any = tasks_v2beta2) -> Iterator[Any]:
    """Yield Google's client for a version on a gRPC address."""
    options = [("grpc.max_receive_message_length", -1)]
    transports = import_module(f"{module.__name__}.services.cloud_tasks.transports")
    with grpc.insecure_channel(address, options=options) as channel:
        transport = transports.CloudTasksGrpcTransport(channel=channel)
        yield module.CloudTasksClient(transport=transport)


@contextmanager
def cloudtasks_rest_interface(push_module: ModuleType | None = None) -> Iterator[Interface]:
    """Serve an emulator and yield Google's client on its REST interface."""
    with Server(manual_emulator()) as server:
        push_client = push_module and rest_client(server.url, module=push_module)
        yield CloudTasksInterface(server.emulator, rest_client(server.url), push_client)


@contextmanager
def cloudtasks_grpc_interface(push_module: ModuleType | None = None) -> Iterator[Interface]:
    """Serve an emulator and yield Google's client on its gRPC interface."""
    with ExitStack() as stack:
        server = stack.enter_context(Server(manual_emulator(), grpc_port=0))
        clients = [
            stack.enter_context(grpc_client(server.grpc_address, module))
            for module in (tasks_v2beta2, push_module)
            if module is not None
        ]
        yield CloudTasksInterface(server.emulator, *clients)


def code_of(error: exceptions.GoogleAPICallError) -> str:
    """Return the status code that the server sent, such as `NOT_FOUND`."""
    if error.grpc_status_code is not None and not isinstance(error.response, Response):
        return str(error.grpc_status_code.name)
    return str(error.response.json()["error"]["status"])


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except exceptions.GoogleAPICallError as error:
        code = code_of(error)
        for known, text, refusal in _REFUSALS:
            if code == known and text in str(error):
                raise Refused(refusal) from error
        raise


def _queue_path(queue: str) -> str:
    return f"{LOCATION}/queues/{queue}"


def _task_path(queue: str, name: str) -> str:
    return f"{_queue_path(queue)}/tasks/{name}"


def _held(task: tasks_v2beta2.Task) -> Held:
    return Held(
        name=task.name.rpartition("/")[2],
        payload=task.pull_message.payload,
        tag=task.pull_message.tag or None,
        eta_usec=to_usec(task.schedule_time),
        retry_count=task.status.attempt_dispatch_count,
    )
