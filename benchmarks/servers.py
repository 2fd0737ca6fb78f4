"""The servers that the suite `rest` measures, each a process of its own, and a client for them.

Run as a module it serves the emulator, and an application of empty views on the same HTTP server.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import requests
from flask import Flask, Response

from pullqueue import Emulator, NewTask
from pullqueue.address import DEFAULT_HOST as HOST
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.server.http import HttpServer
from pullqueue.server.lifecycle import Server

DEPTH = 100_000
LARGE = 1000
"""Number of tasks of 1 KB in the queue `large`."""
CONFIG = QueueConfig(
    queues=tuple(
        QueueSettings(name=name, mode=QueueMode.PULL) for name in ("q", "deep", "large", "cycle")
    )
)


class Served(NamedTuple):
    """A running process, and where it listens."""

    pid: int
    port: int
    """The emulator's, or moto's."""
    empty_port: int = 0
    grpc_port: int = 0


@contextmanager
def emulator_and_empty_views() -> Iterator[Served]:
    """Run the emulator, over REST and gRPC, and the empty views."""
    with running(["-m", "benchmarks.servers"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield Served(process.pid, *json.loads(process.stdout.readline()))


@contextmanager
def running(arguments: Sequence[str], *, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python with some arguments until the block ends."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=stdout, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def serve() -> None:
    """Serve until terminated; the ports are the first line of the output."""
    emulator = Emulator(CONFIG)
    for name, size, tasks in (("deep", 100, DEPTH), ("large", 1024, LARGE)):
        for _ in range(tasks // 100):
            emulator.queue(name).add_many([NewTask(b"x" * size)] * 100)
    empty = HttpServer(empty_views(), host=HOST, port=0)
    empty.start()
    with Server(emulator, grpc_port=0) as server:
        grpc_port = int(server.grpc_address.rpartition(":")[2])
        print(json.dumps([server.port, empty.address[1], grpc_port]), flush=True)
        threading.Event().wait()


def empty_views() -> Flask:
    """Return an application that answers with constants and serializes a large response."""
    app = Flask("empty")
    payload = b"x" * 1024

    @app.post("/constant/<int:size>")
    def constant(size: int) -> Response:
        return Response(b"x" * size, content_type="application/json")

    @app.post("/large")
    def large() -> Response:
        items = [
            {
                "kind": "taskqueues#task",
                "id": f"{number:016x}",
                "queueName": "projects/s~app/taskqueues/large",
                "enqueueTimestamp": "1767225600000000",
                "leaseTimestamp": "1767225600000000",
                "retry_count": 1,
                "payloadBase64": base64.urlsafe_b64encode(payload).decode(),
            }
            for number in range(LARGE)
        ]
        return Response(
            json.dumps({"kind": "taskqueue#tasks", "items": items}), content_type="application/json"
        )

    return app


# -- moto ----------------------------------------------------------------------------------------

SqsCall = Callable[..., dict[str, Any]]
"""Calls an action of SQS with its parameters."""


@contextmanager
def moto() -> Iterator[tuple[Served, SqsCall]]:
    """Run moto's server, and yield a function that calls its SQS."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    arguments = ["-m", "moto.server", "-H", HOST, "-p", str(port)]
    with running(arguments, stdout=subprocess.DEVNULL) as process, requests.Session() as session:
        # Reading the proxies from the environment takes longer than a request to the emulator.
        session.trust_env = False
        url = f"http://{HOST}:{port}/"

        def call(action: str, **parameters: object) -> dict[str, Any]:
            headers = {
                "X-Amz-Target": f"AmazonSQS.{action}",
                "Content-Type": "application/x-amz-json-1.0",
                "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/sqs/"
                "aws4_request, SignedHeaders=host, Signature=x",
            }
            parameters["QueueUrl"] = f"{url}123456789012/q"
            response = session.post(url, data=json.dumps(parameters), headers=headers)
            response.raise_for_status()
            return dict(response.json()) if response.content else {}

        _wait_until_it_listens(port, process)
        call("CreateQueue", QueueName="q")
        yield Served(process.pid, port), call


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            continue
        return
    raise SystemExit("moto_server does not start: pip install -e '.[benchmark]'")


def cpu_seconds_of(pid: int) -> float:
    """Return how many seconds of the processor a process has used, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- a client ------------------------------------------------------------------------------------


class Connection:
    """A kept connection that costs little: requests are made once, and responses hardly parsed."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests: dict[tuple[str, str], bytes] = {}

    def post(self, path: str, body: str = "") -> bytes:
        """Send a request, and return the body of the response."""
        request = self._requests.get((path, body))
        if request is None:
            request = self._requests[path, body] = (
                f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
        self._socket.sendall(request)
        data = self._socket.recv(1 << 20)
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(1 << 20)
        head, _, begun = data.partition(b"\r\n\r\n")
        assert head[9:12] == b"200", data
        missing = int(head.partition(b"Content-Length: ")[2].split(b"\r\n", 1)[0]) - len(begun)
        parts = [begun]
        while missing > 0:
            parts.append(self._socket.recv(1 << 20))
            missing -= len(parts[-1])
        return b"".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()


if __name__ == "__main__":
    serve()
