"""The service over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from pullqueue.cloudtasks.errors import StatusError, invalid
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import METHODS, Method
from pullqueue.cloudtasks.service import Service
from pullqueue.errors import ServerAddressError

_WORKERS: Final = 20
_GRACE_SECONDS: Final = 0.5
_DETAILS_BYTES: Final = 4096
"""How long the message of an error may be: clients refuse metadata over 8 KB."""


class GrpcServer:
    """Serves Cloud Tasks over gRPC, without encryption, in threads of its own."""

    def __init__(self, service: Callable[[], Service], *, host: str, port: int) -> None:
        """Listen; `service` is asked for at each call, and a port of 0 takes a free one.

        Raises:
            ServerAddressError: the port is in use, or the address not one of this machine.
        """
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pullqueue-grpc")
        self._server = grpc.server(
            self._workers,
            handlers=[
                grpc.method_handlers_generic_handler(name, _handlers(service, name))
                for name in {method.service for method in METHODS}
            ],
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", service().request_bytes),
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


def _handlers(service: Callable[[], Service], name: str) -> dict[str, Any]:
    return {
        method.name: grpc.unary_unary_rpc_method_handler(_handler(service, method))
        for method in METHODS
        if method.service == name
    }


def _handler(service: Callable[[], Service], method: Method) -> Callable[[bytes, Any], bytes]:
    # Messages are parsed here, since grpc answers a malformed one with an INTERNAL error.
    request_class = message_class(method.request)

    def handle(data: bytes, context: Any) -> bytes:  # noqa: ANN401 - grpc has no types
        try:
            try:
                message = request_class.FromString(data)
            except DecodeError:
                raise invalid(f"the request is not a valid {method.request}") from None
            response = service().call(method, message, caller=None)
        except StatusError as error:
            context.abort(grpc.StatusCode[error.code], _shortened(str(error)))
        return bytes(response.SerializeToString())

    return handle


def _shortened(message: str) -> str:
    """Return a message cut to what fits the metadata of a response, where a byte may take three."""
    if len(message.encode("utf-8", "replace")) * 3 <= _DETAILS_BYTES:
        return message
    return (
        message.encode("utf-8", "replace")[: _DETAILS_BYTES // 3].decode("utf-8", "ignore") + "..."
    )
