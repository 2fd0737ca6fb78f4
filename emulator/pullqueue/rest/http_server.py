"""cheroot with the few changes the emulator needs: it stops at once and ignores moved clocks."""

from __future__ import annotations

import logging
import math
import os
import socket
from concurrent.futures import Future
from io import BufferedReader, BytesIO, RawIOBase
from typing import TYPE_CHECKING

from cheroot import wsgi
from cheroot.server import ChunkedRFile, HTTPConnection, HTTPRequest

from pullqueue.errors import ServerAddressError
from pullqueue.limits import KIB, MIB
from pullqueue.rest.answers import JSON_TYPE, pretty
from pullqueue.rest.errors import ApiError, envelope
from pullqueue.rest.workers import FREE, Workers

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_log = logging.getLogger("pullqueue.rest")

_BACKLOG = 512
"""Connections that may wait to be accepted; 200 workers that start together all get in."""
_HEADER_BYTES = 128 * KIB
"""Request line and headers of one request."""
_UNREAD_BYTES = MIB
"""How much of a body that no view has read is read, so that the connection can be kept."""
_TICK_SECONDS = 0.02
"""How often the server looks whether it is to stop."""
_NEXT_REQUEST_SECONDS = 0.002
"""How long a worker waits for the next request of the client it has answered."""


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


class _Incoming(RawIOBase):
    """What a client sends, as a file."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.pauses = False
        """Whether nothing is to be read: what was read before is all there is for now."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        return None if self.pauses else self._socket.recv_into(buffer)


class _Reader(BufferedReader):
    """Reads requests; the lines of a request one by one through cheroot's own cost far more.

    That one is written in Python, for what is sent as much as for what is read.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._incoming = _Incoming(sock)
        super().__init__(self._incoming)

    def has_data(self) -> bool:
        """Tell whether more was read than was asked for so far."""
        self._incoming.pauses = True
        try:
            return bool(self.peek(1))
        finally:
            self._incoming.pauses = False


class _Connection(HTTPConnection):
    """A connection that is never too old to be kept.

    The server compares the time of the last request with the system's clock, which tests move.
    Clients that are gone are noticed by the end of their stream.
    """

    RequestHandlerClass = _Request
    met = False
    """Whether the connection waited for its first request once."""
    requests_begun = 0

    def __init__(self, server: HttpServer, sock: socket.socket, makefile: object) -> None:
        super().__init__(server, sock, makefile)
        self.rfile = _Reader(sock)

    def communicate(self) -> bool:
        """Answer a request, and those that follow at once; tell whether to keep the connection.

        Without, a client that asks for one thing after the other would wait each time until its
        connection is handed to the thread that watches all of them, and by that to a worker.
        """
        kept = self._answer()
        while kept and self._asks_again():
            kept = self._answer()
        return kept

    def _answer(self) -> bool:
        self.requests_begun += 1
        kept: bool = super().communicate()  # type: ignore[no-untyped-call]  # cheroot has no types
        return kept

    def _asks_again(self) -> bool:
        """Wait a moment for the next request, unless others wait or the server is to stop."""
        if self.server.requests.qsize or not self.server.ready:
            return False
        if self.rfile.has_data():
            return True
        patience = self.socket.gettimeout()
        self.socket.settimeout(_NEXT_REQUEST_SECONDS)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except OSError:  # it has timed out, or is gone: which, the watching thread finds out
            return False
        finally:
            self.socket.settimeout(patience)
        return True

    @property
    def last_used(self) -> float:
        """The moment the server takes for the last use: always in the future."""
        return math.inf

    @last_used.setter
    def last_used(self, moment: float) -> None:
        """Ignore the moment."""


class HttpServer(wsgi.Server):
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
            if os.name == "posix":
                # Its connections inherit it: those that clients still hold when it stops must not
                # keep the next server from the port. Cheroot leaves it out where the port was any.
                socket_.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
