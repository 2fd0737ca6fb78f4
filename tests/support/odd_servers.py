"""Servers that do not answer as they should."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve one client with an answer that is sent as it is, and return the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


@contextmanager
def silent() -> Iterator[str]:
    """Take connections, answer nothing, and return the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def always_answering(
    answer: object, status: int = 200, *, seen: list[bytes] | None = None
) -> Iterator[str]:
    """Serve every request with the same bytes or JSON, and yield the address.

    If it is a function, it is called with verb and path. The bodies of the requests are added to
    `seen`.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if seen is not None:
                seen.append(data)
            path = self.path.partition("?")[0]
            body = answer(self.command, path) if callable(answer) else answer
            if not isinstance(body, bytes):
                body = json.dumps(body, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names of the library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
