"""The HTTP server: cheroot in a thread, which starts and stops at once and ignores moved clocks."""

from __future__ import annotations

import gc
import logging
import math
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from io import BytesIO
from types import TracebackType
from typing import Self

from cheroot import wsgi
from cheroot.server import ChunkedRFile, HTTPConnection, HTTPRequest
from flask import Flask

from pullqueue.address import DEFAULT_HOST
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import ServerAddressError
from pullqueue.limits import KIB, MIB
from pullqueue.rest.answers import JSON_TYPE, pretty
from pullqueue.rest.app import create_app
from pullqueue.rest.control.config_file import ConfigFile
from pullqueue.rest.control.site import Site
from pullqueue.rest.errors import ApiError, envelope
from pullqueue.rest.tokens import Tokens
from pullqueue.rest.workers import FREE, Workers

_log = logging.getLogger("pullqueue.rest")

_BACKLOG = 512
"""Connections that may wait to be accepted; 200 workers that start together all get in."""
_HEADER_BYTES = 128 * KIB
"""Request line and headers of one request."""
_UNREAD_BYTES = MIB
"""How much of a body that no view has read is read, so that the connection can be kept."""
_TICK_SECONDS = 0.02
"""How often the server looks whether it is to stop."""
_COLLECTOR = (5_000, 20, 1_000)
"""How seldom garbage is looked for: rarely, and among what has grown old hardly ever."""
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound


class Server:
    """Serves an emulator over HTTP, in threads of its own.

        with Server(emulator) as server:
            requests.get(f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/q")

    A port of 0 takes a free one.
    """

    def __init__(
        self,
        emulator: Emulator,
        *,
        host: str = DEFAULT_HOST,
        port: int = 0,
        acl: bool = False,
        config_file: ConfigFile | None = None,
        host_names: Iterable[str] = (),
        api_upstream: str | None = None,
    ) -> None:
        """Make a server that does not listen yet.

        With `acl`, the acl of queue.yaml is enforced; `tokens` gives what callers then need.
        `config_file` can be reloaded while the server runs. Requests are answered whose Host
        header has an address, localhost, this machine's name or one of `host_names`.
        See `create_app` for `api_upstream`.
        """
        self._host_names = [host, socket.gethostname(), *host_names]
        self._api_upstream = api_upstream
        self._app = self._take(emulator, acl=acl, config_file=config_file)
        self._host = host
        self._port = port
        self._http: _HttpServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Begin to listen; connections are accepted when this returns.

        Raises:
            ServerAddressError: the address is taken, or not one of this machine.
        """
        if self._http is None:
            http = _HttpServer((self._host, self._port), self._app)
            listening: Future[None] = Future()
            # A thread that ends with the program, and so do those it makes for the requests.
            thread = threading.Thread(
                target=http.serve_in_thread, args=(listening,), name="pullqueue", daemon=True
            )
            thread.start()
            listening.result()
            self._http, self._thread = http, thread
        return self

    def switch_to(self, emulator: Emulator, *, acl: bool = False) -> None:
        """Answer from another emulator from the next request on; connections stay open.

        Records, faults and tokens begin anew with it.
        """
        self._app = self._take(emulator, acl=acl)
        if self._http is not None:
            self._http.wsgi_app = self._app

    def _take(
        self, emulator: Emulator, *, acl: bool, config_file: ConfigFile | None = None
    ) -> Flask:
        self.emulator = emulator
        self.site = Site(emulator, config_file=config_file, host_names=self._host_names)
        self.tokens = Tokens(emulator.clock)
        return create_app(
            emulator,
            tokens=self.tokens,
            acl=acl,
            site=self.site,
            api_upstream=self._api_upstream,
        )

    def stop(self) -> None:
        """Stop listening and close every connection; requests being answered are finished."""
        http, self._http = self._http, None
        if http is not None:
            http.stop()
        if self._thread is not None:
            self._thread.join()

    @property
    def host(self) -> str:
        """The address a client of this machine connects to."""
        host = self._http.bind_addr[0] if self._http else self._host
        return _WILDCARDS.get(host, host)

    @property
    def port(self) -> int:
        """The port; while the server listens, never 0."""
        return int(self._http.bind_addr[1]) if self._http else self._port

    @property
    def url(self) -> str:
        """The root of every address, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def shorten_pauses() -> None:
    """Let this process stop less often to look for circles of garbage; for a server's own process.

    Tasks are many, grow old and are never part of a circle. To look through a hundred thousand of
    them takes longer than a thousand requests.
    """
    gc.set_threshold(*_COLLECTOR)


class _Request(HTTPRequest):
    """A request whose refusals by the server itself come in the envelope, too."""

    _head = b""
    """Headers that wait for the body, so that both leave as one packet."""

    def send_headers(self) -> None:
        """Close the connection where the application says so, or too much of a body is unread."""
        if (b"Connection", b"close") in self.outheaders or self._leaves_much_unread():
            self.close_connection = True
        held = BytesIO()
        wfile, self.conn.wfile = self.conn.wfile, held
        try:
            super().send_headers()
        finally:
            self.conn.wfile = wfile
        self._head = held.getvalue()
        if self.chunked_write:
            self._send(b"")

    def _leaves_much_unread(self) -> bool:
        """Tell whether what is left of the body must be neither read nor taken for a request."""
        if isinstance(self.rfile, ChunkedRFile):
            return not self.rfile.closed
        unread: int = self.rfile.remaining
        return unread > _UNREAD_BYTES

    def write(self, chunk: bytes) -> None:
        """Send a part of the body; with the first one, the headers."""
        self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.chunked_write else chunk)

    def respond(self) -> None:
        """Answer, with or without a body."""
        super().respond()
        if self._head:
            self._send(b"")

    def _send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        self.conn.socket.sendall(head + data)

    def simple_response(self, status: object, msg: str = "") -> None:
        code, _, name = str(status).partition(" ")
        refusal = ApiError(msg or name, status=int(code), reason="badRequest")
        body = pretty(envelope(refusal)).encode()
        self.close_connection = True
        head = (
            f"{self.server.protocol} {status}\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: {JSON_TYPE}\r\nConnection: close\r\n\r\n"
        )
        try:
            self.conn.wfile.write(head.encode("latin-1") + body)
        except OSError:
            _log.debug("a refused client was gone before it could be told")


class _Connection(HTTPConnection):
    """A connection that is never too old to be kept.

    The server compares the time of the last request with the system's clock, which tests move.
    Clients that are gone are noticed by the end of their stream.
    """

    RequestHandlerClass = _Request
    met = False
    """Whether the connection waited for its first request once."""

    @property
    def last_used(self) -> float:
        """The moment the server takes for the last use: always in the future."""
        return math.inf

    @last_used.setter
    def last_used(self, moment: float) -> None:
        """Ignore the moment."""


class _HttpServer(wsgi.Server):
    """cheroot with the settings and the few changes the emulator needs."""

    ConnectionClass = _Connection
    expiration_interval = _TICK_SECONDS
    max_request_header_size = _HEADER_BYTES
    keep_alive_conn_limit = None  # type: ignore[assignment]  # any number, as cheroot documents
    nodelay = True

    def __init__(self, address: tuple[str, int], app: object) -> None:
        super().__init__(
            address,
            app,
            numthreads=FREE,
            server_name="pullqueue",
            request_queue_size=_BACKLOG,
            shutdown_timeout=0,  # a request that is only half sent holds up no stop
        )
        self._workers = Workers(self.requests)

    def stop(self) -> None:
        """Stop, and let go of the workers."""
        self._workers.stop()
        super().stop()

    def serve_in_thread(self, listening: Future[None]) -> None:
        """Bind, tell whether that worked, and serve until stopped."""
        host, port = self.bind_addr
        try:
            self.prepare()
        except (OSError, OverflowError, UnicodeError) as error:
            listening.set_exception(_address_error(host, port, error))
            return
        listening.set_result(None)
        self._workers.start()
        self.serve()

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: tuple[str, int]) -> socket.socket:
        """Bind a socket, and leave none behind where that fails."""
        try:
            socket_.bind(bind_addr)
        except BaseException:
            socket_.close()
            raise
        return socket_

    def process_conn(self, conn: _Connection) -> None:
        """Let a worker answer a request, once there is one.

        A new connection that sends nothing would hold a worker, and the stop of the server.
        """
        if conn.met:
            super().process_conn(conn)
        else:
            conn.met = True
            self.put_conn(conn)

    def error_log(
        self,
        msg: str = "",
        level: int = logging.INFO,
        traceback: bool = False,  # noqa: FBT001, FBT002 - cheroot's signature
    ) -> None:
        """Log instead of writing to the standard error stream."""
        _log.log(level, "%s", msg, exc_info=traceback)


def _address_error(host: str, port: int, error: Exception) -> ServerAddressError:
    reason = str(error).lower()
    if "in use" in reason:
        advice = f"port {port} of {host} is taken: stop what listens there, or choose another port"
    else:
        advice = f"cannot listen on {host}:{port}: {error}; choose another address"
    return ServerAddressError(advice)
