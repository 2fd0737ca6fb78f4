"""The route by which App Engine's runtimes reach bundled services: `POST /rpc_http`.

A second-generation runtime (Python 3, Go, Java, PHP) sends each call to API_HOST and API_PORT: a
serialized `remote_api` Request, answered by a Response. With these set to a server of pullqueue,
an app shares its queues with every other process and with REST workers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Blueprint, Response, g, request
from werkzeug.exceptions import RequestEntityTooLarge

from pullqueue.api.requests import SERVED_KEY, served
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import PullQueueError
from pullqueue.limits import MIB
from pullqueue.sdk import SdkMissingError
from pullqueue.sdk.environment import BRIDGE_PATH
from pullqueue.services.hosting import Services

if TYPE_CHECKING:
    from pullqueue.services.wire import CallServer

_CONTENT_TYPE = "application/octet-stream"
_DEADLINE_HEADER = "X-Google-RPC-Service-Deadline"
_BODY_BYTES = 33 * MIB
"""The SDK's own limit on a request, 32 MiB, and room for what is around it."""
_UNKNOWN = 0
_REQUEST_TOO_LARGE = 5
_CAPABILITY_DISABLED = 6

_log = logging.getLogger("pullqueue.sdk")


class Bridge:
    """Answers calls to the task queue service from an emulator.

    The SDK is imported by the first call. Where it is missing, the response to every call says so.
    """

    def __init__(
        self, emulator: Emulator, *, services: Services | None, upstream: str | None
    ) -> None:
        """Answer calls to `services`, too; pass others on to `upstream`, a `host:port`."""
        self._emulator = emulator
        self._services = services
        self._upstream = upstream
        self._call_server: CallServer | None = None
        self._lock = threading.Lock()

    def add_committed_tasks(self) -> None:
        """Add the tasks whose transaction was committed before a crash, if there are any."""
        if self._services is not None and self._services.tasks():
            self.server()

    def reset(self) -> None:
        """Drop the tasks of transactions that are not committed."""
        with self._lock:
            self._call_server = None

    def server(self) -> CallServer:
        """Return what answers; raise an SdkMissingError if the SDK is not installed."""
        with self._lock:
            if self._call_server is None:
                from pullqueue.services.wire import CallServer

                self._call_server = CallServer(
                    self._emulator, services=self._services, upstream=self._upstream
                )
            return self._call_server


class ProjectOfApp(NamedTuple):
    """Finds the project of an app that calls."""

    find: Callable[[bytes], dict[type, Any] | None]
    """Returns what a serialized request is answered from; None: from the server's own project."""


blueprint = Blueprint("bridge", __name__)


@blueprint.post(BRIDGE_PATH)
def rpc_http() -> Response:
    """Answer a call that a runtime makes to a bundled service."""
    request.max_content_length = _BODY_BYTES
    try:
        data = request.get_data(cache=False)
        g.logged = {}
        deadline = request.headers.get(_DEADLINE_HEADER)
        if objects := served(ProjectOfApp).find(data):
            request.environ[SERVED_KEY] = objects
        answer = served(Bridge).server().answer(data, g.logged, deadline)
    except RequestEntityTooLarge:
        answer = _failure(_REQUEST_TOO_LARGE, f"the maximum size of a call is {_BODY_BYTES} bytes")
    except SdkMissingError as error:
        _log.warning("%s", error)
        answer = _failure(_CAPABILITY_DISABLED, f"where the server runs, {error}")
    except PullQueueError as error:  # the project has ended, or the database does not respond
        answer = _failure(_UNKNOWN, str(error).replace("%", "%%"))  # the SDK formats it
    return Response(answer, content_type=_CONTENT_TYPE)


def _failure(code: int, detail: str) -> bytes:
    """Write a `remote_api` Response with an error of the call, without the SDK's messages."""
    text = detail.encode()
    error = b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text
    return b"\x2a" + _varint(len(error)) + error


def _varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])
