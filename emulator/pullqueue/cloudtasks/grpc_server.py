"""The service over gRPC."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import grpc
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToJson, SerializeToJsonError
from google.protobuf.message import DecodeError

from pullqueue.api.auth import bearer_text
from pullqueue.api.encoding import encode
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.errors import CloudTasksError, as_service_error, envelope, invalid
from pullqueue.cloudtasks.messages import Message, build_status, message_class
from pullqueue.cloudtasks.methods import BUFFER_TASK, Method
from pullqueue.cloudtasks.servicer import Servicer
from pullqueue.cloudtasks.versions import VERSIONS
from pullqueue.engine.events import Interface
from pullqueue.engine.interceptors import Caller, ConnectionCut, Touched, call_deadline, called_by
from pullqueue.errors import PullQueueError, ServerAddressError
from pullqueue.observe.models import Request
from pullqueue.observe.request_log import excerpt, to_milliseconds

_WORKERS: Final = 20
_GRACE_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 10**9
"""How long a caller without a deadline waits."""
_MOST_SECONDS: Final = 30
"""The longest deadline of a call; recorded (google-cloud-go#1577, google-cloud-ruby#3941)."""
_ROUTING_HEADER: Final = "x-goog-request-params"
"""The metadata by which calls are routed, recorded as required (python-tasks#1, nodejs-tasks#106).
"""
_ROUTED: Final = {"project": "[projectname]", "location": "[location]"}
"""How the text for a call without it names the parts of a resource; the others are `[name]`."""
_SHOWN_BYTES: Final = 4096
_TEXT_BYTES: Final = 1200
"""How long a text of an error may be. Clients refuse metadata over 8 KB, which has the message,
where a byte may take three, and then message and advice in base64."""
_DETAILS_KEY: Final = "grpc-status-details-bin"
"""The metadata with the status and its details, which Google's clients read."""


FindService = Callable[[str], Servicer]
"""Returns the service of a project; an empty name is the server's own."""


class GrpcServer:
    """Serves Cloud Tasks over gRPC, without encryption, in threads of its own."""

    def __init__(self, find_service: FindService, *, host: str, port: int) -> None:
        """Listen; a port of 0 takes a free one. `find_service` returns that of a project.

        Raises:
            ServerAddressError: the port is in use, or the address not one of this machine.
        """
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pullqueue-grpc")
        handlers = [
            grpc.method_handlers_generic_handler(method.service, {method.name: rpc})
            for version in VERSIONS.values()
            for method in version.methods
            for rpc in [grpc.unary_unary_rpc_method_handler(_handler(find_service, method))]
        ]
        self._server = grpc.server(
            self._workers,
            handlers=handlers,
            options=[
                ("grpc.max_receive_message_length", find_service("").request_bytes),
                ("grpc.so_reuseport", 0),
            ],
        )
        address = f"[{host}]" if ":" in host else host
        try:
            self.port = self._server.add_insecure_port(f"{address}:{port}")
        except RuntimeError:
            raise ServerAddressError(
                f"gRPC cannot listen on {address}:{port}: stop the process using the port, or "
                "pass another --grpc-port"
            ) from None
        self._server.start()

    def stop(self) -> None:
        """Stop listening; calls that are being answered are finished, if that is done soon."""
        self._server.stop(_GRACE_SECONDS).wait()
        self._workers.shutdown()


def _handler(find_service: FindService, method: Method) -> Callable[[bytes, Any], bytes]:
    # Messages are parsed here, since grpc answers a malformed one with an INTERNAL error.
    request_class = message_class(method.version, method.request)

    def handle(data: bytes, context: Any) -> bytes:  # noqa: ANN401 - grpc has no types
        started = perf_counter()
        refused = caller = None
        touched = Touched()
        metadata = defaultdict(str, context.invocation_metadata())
        agent = metadata["user-agent"]
        message, response = request_class(), empty_pb2.Empty()
        malformed = not_found = None
        try:
            message.ParseFromString(data)
        except DecodeError:
            malformed = invalid(f"the request is not a valid {method.request}")
        try:
            service = find_service(_project(method.read_resource(message)))
        except PullQueueError as error:
            service, not_found = find_service(""), error
        origin = service.requests.origin(Interface.CLOUD_TASKS_GRPC, agent)
        try:
            if not_found is not None:
                raise not_found
            caller = service.authenticate(bearer_text(metadata["authorization"]))
            origin = origin._replace(client=caller or origin.client)
            if malformed is not None:
                raise malformed
            calling = called_by(Caller(origin, context.peer().rpartition(":")[2], touched))
            routing = metadata[_ROUTING_HEADER]
            _check_front_end(method, routing, service.now(), context.time_remaining())
            with call_deadline(compute_deadline_usec(context.time_remaining())), calling:
                response = service.call(method, message, caller=caller)
        except PullQueueError as error:
            refused = as_service_error(error)
        except ConnectionCut as cut:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(cut))
        encoded: bytes = response.SerializeToString()
        shown = encode(envelope(refused)) if refused else _format_message(response, encoded)
        request = Request(
            agent=agent,
            method=method.method_id,
            queue=service.queue_name(*method.read_queue(message)),
            verb="POST",
            path=f"/{method.service}/{method.name}",
            client=unquote(context.peer()).partition(":")[2],
            caller=caller,
            status=refused.status if refused else HTTPStatus.OK,
            milliseconds=to_milliseconds(perf_counter() - started),
            body=excerpt(_format_message(message, data)),
            response=excerpt(shown),
        )
        service.requests.record(request, origin=origin, touched=touched)
        if refused:
            _abort(context, refused)
        return encoded

    return handle


def _project(name: str) -> str:
    """Return the project in the name of a resource, or an empty text."""
    kind, _, rest = name.partition("/")
    return rest.partition("/")[0] if kind == "projects" else ""


def _check_front_end(
    method: Method, routing: str, now: datetime, remaining_seconds: float | None
) -> None:
    """Check what Google's front end checks of each call, before the service.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: its deadline is too far, or it is not routed.
    """
    # A client's timeout is rounded up on its way, by 0.1 seconds at most here.
    most = _MOST_SECONDS + 0.5
    if remaining_seconds is not None and most < remaining_seconds < _LONGEST_SECONDS:
        end = now + timedelta(seconds=remaining_seconds)
        raise invalid(
            texts.RPC_DEADLINE.format(time=texts.format_time(end)),
            advice=f"the call has a deadline of {remaining_seconds:.0f} seconds: pass a timeout of "
            f"{_MOST_SECONDS} seconds or less",
        )
    if method.mixin or not method.resource:
        return
    routed = dict(parse_qsl(routing))
    # Recorded (google-cloud-node#4799): for the queue of BufferTask the text wants `name`.
    field = "name" if method.name == BUFFER_TASK else method.field
    if not routed.get(method.field) and not routed.get(field):
        name = re.sub("<(.*?)>", lambda part: _ROUTED.get(part[1], "[name]"), method.resource)
        raise invalid(
            texts.ROUTING.format(field=field, name=name),
            advice=f"send {_ROUTING_HEADER} with {method.field}, as Google's clients do",
        )


def _abort(context: Any, error: CloudTasksError) -> None:  # noqa: ANN401 - grpc has no types
    status = build_status(_shortened(error))
    context.set_trailing_metadata(((_DETAILS_KEY, status.SerializeToString()),))
    context.abort(grpc.StatusCode[error.rpc_code], status.message)


def compute_deadline_usec(remaining_seconds: float | None) -> int:
    """Return the deadline of a call, in microseconds, of which this much time remains here.

    What was spent on the way is added, so that a fault moves the clock to the caller's deadline:
    the result is a multiple of 0.1 seconds, or of 0.01 if less than a second remains.
    """
    if remaining_seconds is None or remaining_seconds > _LONGEST_SECONDS:
        return _LONGEST_SECONDS * USEC_PER_SECOND
    step_usec = 100_000 if remaining_seconds > 1 else 10_000
    return math.ceil(remaining_seconds * USEC_PER_SECOND / step_usec) * step_usec


def _format_message(message: Message, data: bytes) -> bytes:
    """Return a message for the request log: as JSON, unless it is long or has none."""
    if len(data) <= _SHOWN_BYTES:
        # A time outside the years 1 to 9999 has none.
        with suppress(SerializeToJsonError):
            return str(MessageToJson(message, indent=None)).encode()
    return data


def _shortened(error: CloudTasksError) -> CloudTasksError:
    """Return an error that fits the metadata of a response, with its texts cut."""
    advice = error.explanation
    return CloudTasksError(
        _cut(str(error)),
        rpc_code=error.rpc_code,
        field=error.location,
        advice=advice and _cut(advice),
        details=error.own_details,
    )


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= _TEXT_BYTES:
        return data.decode()
    return data[:_TEXT_BYTES].decode(errors="ignore") + "..."
