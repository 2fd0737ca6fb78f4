"""cheroot with the few changes the emulator needs: it stops at once and ignores moved clocks."""

from __future__ import annotations

import logging
import math
import os
import socket
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING

from cheroot import wsgi
from cheroot.server import HTTPConnection

from pullqueue.api.answers import AT_ONCE_KEY
from pullqueue.errors import ServerAddressError
from pullqueue.limits import KIB
from pullqueue.server.http_request import Gateway, Request
from pullqueue.server.http_streams import stream
from pullqueue.server.workers import FREE, Workers

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_log = logging.getLogger("pullqueue.rest")

_BACKLOG = 512
"""Connections that may wait to be accepted; 200 workers that start together all get in."""
_HEADER_BYTES = 128 * KIB
"""Request line and headers of one request."""
_TICK_SECONDS = 0.02
"""How often the server looks whether it is to stop."""
_NEXT_REQUEST_SECONDS = 0.005
"""How long a worker waits for the next request of the client it has answered."""


class _Connection(HTTPConnection):
    """A connection that is never too old to be kept.

    The server compares the time of the last request with the system's clock, which tests move.
    Clients that are gone are noticed by the end of their stream.
    """

    RequestHandlerClass = Request
    met = False
    """Whether the connection waited for its first request once."""
    requests_begun = 0

    def __init__(self, server: HttpServer, sock: socket.socket, _makefile: object) -> None:
        super().__init__(server, sock, stream)

    @cached_property
    def environ(self) -> WSGIEnvironment:
        """What the environments of all its requests have in common."""
        return {
            AT_ONCE_KEY: True,
            "ACTUAL_SERVER_PROTOCOL": self.server.protocol,
            "REMOTE_ADDR": self.remote_addr,
            "REMOTE_PORT": str(self.remote_port),
            "SCRIPT_NAME": "",
            "SERVER_NAME": self.server.server_name,
            "SERVER_PORT": str(self.server.bind_addr[1]),
            "SERVER_SOFTWARE": self.server.software,
            "wsgi.multiprocess": False,
            "wsgi.multithread": True,
            "wsgi.run_once": False,
            "wsgi.url_scheme": "http",
            "wsgi.version": Gateway.version,
        }

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
        self.socket.settimeout(_NEXT_REQUEST_SECONDS)
        try:
            self.rfile.peek()
        except OSError:  # it has timed out, or is gone: which, the watching thread finds out
            return False
        finally:
            self.socket.settimeout(self.server.timeout)
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
        self.gateway = Gateway
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
