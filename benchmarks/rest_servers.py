"""The servers that the benchmarks of REST and of the bridge ask: the emulator, and an empty view.

Both run in one process of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from flask import Flask, Response, request

from benchmarks.rest_client import HOST
from pullqueue import Emulator, NewTask
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.sdk.environment import BRIDGE_PATH
from pullqueue.server.http import HttpServer
from pullqueue.server.lifecycle import Server

DEPTH = 100_000
ANSWER = "/answer"
CONFIG = QueueConfig(
    queues=tuple(
        QueueSettings(name=name, mode=QueueMode.PULL) for name in ("q", "deep", "large", "cycle")
    )
)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the two servers listen."""

    emulator: int
    empty: int


@contextmanager
def serving() -> Iterator[Address]:
    """Run an emulator and an empty view in one process of their own."""
    command = [sys.executable, "-m", "benchmarks.rest_servers"]
    process = subprocess.Popen(  # noqa: S603 - this very module
        command, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        emulator, empty = json.loads(process.stdout.readline())
        yield Address(emulator=emulator, empty=empty)
    finally:
        process.terminate()
        process.wait()


def serve() -> None:
    """Serve until terminated; the ports are the first line of output."""
    emulator = Emulator(CONFIG)
    for name, size, count in (("deep", 100, DEPTH), ("large", 1024, 1000)):
        batch = [NewTask(payload=b"x" * size)] * 100
        for _ in range(count // 100):
            emulator.queue(name).add_many(batch)
    with Server(emulator) as server, ExitStack() as stack:
        empty = HttpServer(empty_app(), host=HOST, port=0)
        empty.start()
        stack.callback(empty.stop)
        print(json.dumps([server.port, empty.address[1]]), flush=True)
        threading.Event().wait()


def empty_app() -> Flask:
    """Give an application whose view gives a constant, as long as it is asked to be.

    Another view, in the place of the bridge, repeats the bytes that were put there last.
    """
    app = Flask("empty")
    answers = [b""]

    def put() -> Response:
        answers[0] = request.get_data()
        return Response(status=204)

    def repeat() -> Response:
        return Response(answers[0], content_type="application/octet-stream")

    app.add_url_rule(ANSWER, view_func=put, methods=["PUT"])
    app.add_url_rule(BRIDGE_PATH, view_func=repeat, methods=["POST"])

    def view(size: int) -> Response:
        return Response(b'"' + b"x" * (size - 2) + b'"', content_type="application/json")

    app.add_url_rule("/constant/<int:size>", view_func=view, methods=["GET", "POST"])
    return app


if __name__ == "__main__":
    serve()
