"""Cloud Tasks in this process for the SDK, which calls it if its switch says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from pullqueue.engine.emulator import Emulator
from pullqueue.sdk.startup.sitecustomize import cloud_tasks_replaced


@contextmanager
def cloud_tasks(cloudtask: Any, emulator: Emulator) -> Iterator[None]:
    """Make the SDK's clients of Cloud Tasks call an emulator; its server starts with the first."""
    with ExitStack() as stack:
        clients = _Clients(emulator, stack)
        replaced = cloud_tasks_replaced(cloudtask, clients.make)
        if emulator.location is not None:
            replaced["_CACHED_REGION"] = emulator.location
        for name, value in replaced.items():
            stack.enter_context(patch.object(cloudtask, name, value))
        yield


class _Clients:
    """Clients of an emulator, for the length of a stack.

    They use gRPC: tests replace what sends requests over HTTP.
    """

    def __init__(self, emulator: Emulator, stack: ExitStack) -> None:
        self._emulator = emulator
        self._stack = stack
        self._address = ""
        self._lock = threading.Lock()

    def make(self, module: Any) -> Any:
        """Return a client of a version of the API."""
        import grpc

        with self._lock:
            channel = grpc.insecure_channel(self._address or self._start())
            self._stack.callback(channel.close)
        transports = import_module(f"{module.__name__}.services.cloud_tasks.transports")
        return module.CloudTasksClient(
            transport=transports.CloudTasksGrpcTransport(channel=channel)
        )

    def _start(self) -> str:
        from pullqueue.cloudtasks.grpc_server import GrpcServer
        from pullqueue.cloudtasks.servicer import Servicer
        from pullqueue.runtime.state import ServerState

        service = Servicer(ServerState(self._emulator))
        server = GrpcServer(lambda _: service, host="127.0.0.1", port=0)
        self._stack.callback(server.stop)
        self._address = f"127.0.0.1:{server.port}"
        return self._address
