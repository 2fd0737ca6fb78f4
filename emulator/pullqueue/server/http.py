"""The HTTP server: waitress, with the settings that the emulator needs."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from waitress.channel import ClientDisconnected
from waitress.server import create_server
from waitress.wasyncore import dispatcher

from pullqueue.engine.interceptors import ConnectionCut
from pullqueue.errors import ServerAddressError
from pullqueue.limits import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from waitress.server import BaseWSGIServer

MAX_BODY_BYTES: Final = 512 * MIB
"""Body of any request; each route has a limit of its own, up to this."""

THREADS: Final = 16
"""Requests that a server answers at the same time."""
_MAX_CONNECTIONS = 4096
_RECEIVED_BYTES = 64 * KIB
"""Read from a socket at once: large bodies need few turns of the loop."""
_UNSENT_BYTES = 1 << 40
"""A response of any size is buffered, in a file where it is large: no thread waits for a client."""
_FOREVER_SECONDS = 10**12
"""Idle time after which a connection is closed; it is measured by the clock that tests move."""
_LOG_SECONDS = 60.0


class HttpServer:
    """Serves a WSGI application on one address, in threads of its own."""

    def __init__(
        self, app: WSGIApplication, *, host: str, port: int, threads: int = THREADS
    ) -> None:
        """Bind the address; nothing is answered before `start`.

        `threads` answer requests. Reading and sending happen in one more thread, so clients that
        send or read slowly do not occupy these.
        """
        logging.getLogger("waitress").addFilter(_sparse_log)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._app = app
        self._threads = threads
        self._listener = _listener(host, port)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._channels: dict[int, Any] = {}
        self._stopper = _Stopper(self._channels)
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Answer requests from now on, those that wait already included."""
        server = create_server(
            self._respond,
            self._channels,
            sockets=[self._listener],
            ident="pullqueue",
            threads=self._threads,
            connection_limit=_connection_limit(),
            channel_timeout=_FOREVER_SECONDS,
            recv_bytes=_RECEIVED_BYTES,
            outbuf_high_watermark=_UNSENT_BYTES,
            max_request_body_size=MAX_BODY_BYTES + 1,
            asyncore_use_poll=True,
        )
        self._server = cast("BaseWSGIServer", server)  # the other class is for several sockets
        self._thread = threading.Thread(
            target=_run, args=(self._server,), name="pullqueue", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests that are being answered, and close every connection."""
        if self._server is not None and self._thread is not None:
            self._stopper.stop()
            self._thread.join()
            self._server.close()
        self._listener.close()
        for channel in list(self._channels.values()):
            channel.handle_close()

    def _respond(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return self._app(environ, start_response)
        except ConnectionCut:
            raise ClientDisconnected from None


def _run(server: BaseWSGIServer) -> None:
    """Run a server until it is stopped."""
    while True:
        try:
            server.run()
        except IndexError:
            # freezegun, which a test ends in another thread while this one asks for the time.
            continue
        return


class _Stopper(dispatcher):
    """Ends the loop of a server that has it among its channels.

    waitress has no method to stop it from another thread. Its `run` ends the worker threads and
    returns when a channel raises SystemExit, as this one does once something can be read from it.
    """

    def __init__(self, channels: dict[int, Any]) -> None:
        read_end, self._write_end = socket.socketpair()
        super().__init__(read_end, channels)

    def writable(self) -> bool:
        """Return False: nothing is written."""
        return False

    def handle_read(self) -> None:
        """End the loop, in its thread."""
        raise SystemExit

    def handle_close(self) -> None:
        """Close the sockets."""
        self._write_end.close()
        self.close()

    def stop(self) -> None:
        """End the loop, from any thread."""
        self._write_end.send(b"x")


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, dualstack_ipv6=both)
    except (OSError, OverflowError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            advice = f"port {port} is in use: stop the process using it, or pass --port"
        else:
            # `create_server` adds the address in parentheses.
            reason = str(getattr(error, "strerror", None) or error).partition(" (")[0]
            advice = f"cannot listen on {host}:{port}: {reason}; choose another address"
        raise ServerAddressError(advice) from None


def _connection_limit() -> int:
    """Return how many connections may be open: half of the files that the process may open.

    A connection with a large request or response has a file for it; stores have theirs, too.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return 200  # select() takes 512 sockets there
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_CONNECTIONS if files < 0 else min(files // 2, _MAX_CONNECTIONS)


class _SparseLog(logging.Filter):
    """Passes one message of a kind a minute, without the traceback of a failed connection."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record of waitress's."""
        if record.exc_info and isinstance(record.exc_info[1], OSError):
            record.msg = f"{record.getMessage()}: {record.exc_info[1]}"
            record.args = record.exc_info = None
        kind = str(record.msg)[:30]
        now = perf_counter()
        if now - self._logged.get(kind, -_LOG_SECONDS) < _LOG_SECONDS:
            return False
        self._logged[kind] = now
        return True


_sparse_log = _SparseLog()
