"""An app that handles push tasks, and the control routes of the server that sends them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

RAW = {
    "/nonsense": (b"what?\r\n\r\n", b""),
    "/empty": (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", b""),
    "/headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
    "/line": (b"HTTP/1.1 200 OK\r\nX-More: ", b"1" * 4096),
}
"""The beginning of a response, and what follows it without end."""
_SECONDS = 60
_pause = threading.Event()


class Received(NamedTuple):
    """A request that the app got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    port: int
    """Of the client: which connection it was."""


class PushApp:
    """Records what it gets, in order.

    `/status/N` answers with this status, `/fails/N` with 500 the first N times, `/slow` once it is
    `released`; all other paths with 200. Those of `RAW` have their own responses. The body of a
    failure begins with a line that has the path.
    """

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.released = threading.Event()
        self.running: Counter[str] = Counter()
        """Requests that are being handled, by path."""
        self.locations: dict[str, str] = {}
        """Where to a path redirects, with 302."""
        self.bodies: dict[str, bytes] = {}
        """Of successes, by path; others are empty."""
        self.on_request: Callable[[Received], None] = lambda _: None
        self._failed: Counter[str] = Counter()

    def paths(self) -> list[str]:
        return [received.path for received in self.received]

    def handle(self, received: Received) -> int:
        self.received.append(received)
        self.on_request(received)
        if received.path in self.locations:
            return 302
        _, kind, *rest = received.path.split("/")
        if kind == "status":
            return int(rest[0])
        if kind == "fails" and self._failed[received.path] < int(rest[0]):
            self._failed[received.path] += 1
            return 500
        if kind == "slow":
            self.running[received.path] += 1
            self.released.wait(_SECONDS)
            self.running[received.path] -= 1
        return 200


@contextmanager
def push_app(given: PushApp | None = None) -> Iterator[PushApp]:
    """Serve an app on a free port: a new one, unless one is given."""
    app = given or PushApp()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each body waits 40 ms, since it follows its headers

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers, port = dict(self.headers), self.client_address[1]
            status = app.handle(Received(self.command, self.path, headers, body, port))
            if self.path in RAW:
                beginning, again = RAW[self.path]
                self.close_connection = True
                self.wfile.write(beginning)
                while again:
                    self.wfile.write(again)
                return
            text = app.bodies.get(self.path, b"")
            if status >= 400:
                text = f"no {self.path}\nat all\n".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            if self.path in app.locations:
                self.send_header("Location", app.locations[self.path])
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - the names of the library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Ignore clients that go away."""

    with Server(("127.0.0.1", 0), Handler) as server:
        app.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield app
        finally:  # a thread that goes on would poll the descriptors of other tests
            app.released.set()
            server.shutdown()


def until(condition: Callable[[], object]) -> None:
    """Wait until something is true; fail after a long time."""
    for _ in range(int(_SECONDS / 0.02)):
        if condition():
            return
        _pause.wait(0.02)
    raise AssertionError("it never became true")


class Control:
    """The control routes of a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.root = f"{url}/_emulator"

    def call(self, verb: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.root + path, data, method=verb), timeout=60) as response:  # noqa: S310
            return json.load(response)

    def add(self, queue: str, url: str, *, count: int = 1, **fields: object) -> None:
        task = {"request": {"url": url}, **fields}
        self.call("POST", f"/queues/{queue}/tasks", {"tasks": [task] * count})

    def queue(self, name: str) -> Any:
        return self.call("GET", f"/queues/{name}")["queue"]

    def tasks(self, queue: str, state: str = "") -> Any:
        query = f"?state={state}" if state else ""
        return self.call("GET", f"/queues/{queue}/tasks{query}")["tasks"]
