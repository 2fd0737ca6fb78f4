"""A client that costs next to nothing: requests made beforehand, over plain kept sockets."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from typing import Self

HOST = "127.0.0.1"


def request_bytes(verb: str, path: str, body: str | bytes = "") -> bytes:
    """Give a request as it is sent."""
    data = body.encode() if isinstance(body, str) else body
    kind = "application/json" if isinstance(body, str) else "application/octet-stream"
    head = (
        f"{verb} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class Connection:
    """A kept connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self.socket = socket.create_connection((HOST, self._port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> bytes:
        """Read one answer and give its body."""
        data = self.socket.recv(1 << 20)
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(1 << 20)
        head, _, body = data.partition(b"\r\n\r\n")
        assert head[9:12] in (b"200", b"204"), data  # noqa: S101 - a benchmark of successes
        missing = length_of(head) - len(body)
        parts = [body]
        while missing > 0:
            part = self.socket.recv(1 << 20)
            parts.append(part)
            missing -= len(part)
        if b"Connection: close" in head:  # as waitress answers without a body
            self.socket.close()
            self._connect()
        return b"".join(parts)

    def ask(self, request: bytes) -> bytes:
        """Make a request and give the body of the answer."""
        self.socket.sendall(request)
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


def length_of(head: bytes) -> int:
    """Give the length of a body from the headers before it."""
    _, _, rest = head.partition(b"Content-Length: ")
    return int(rest.split(b"\r\n", 1)[0]) if rest else 0


def seconds_per_request(port: int, request: bytes, *, connections: int, seconds: float) -> float:
    """Ask over a number of connections, each as soon as it was answered."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(connections):
            connection = stack.enter_context(Connection(port))
            connection.ask(request)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.socket.sendall(request)
        begin = time.perf_counter()
        answered = 0
        while time.perf_counter() - begin < seconds:
            for key, _ in selector.select():
                key.data.read()
                key.data.socket.sendall(request)
                answered += 1
        taken = time.perf_counter() - begin
        for key in list(selector.get_map().values()):
            key.data.read()
        return taken / answered
