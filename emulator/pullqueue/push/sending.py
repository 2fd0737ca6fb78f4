"""Sending the requests of push tasks: to a WSGI app in this process, or over HTTP."""

from __future__ import annotations

import http.client
import os
import selectors
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from inspect import iscoroutinefunction
from io import BytesIO
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pullqueue.config.text import quoted, shorten
from pullqueue.limits import KIB, MIB
from pullqueue.push.request import (
    SOURCE_IP,
    PushRequest,
    PushResponse,
    is_success,
    origin_of,
    path_of,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_TEST_ORIGIN = "http://testserver"
"""Where an app in this process is: the only host that Django permits in tests."""

_ENVIRON = {
    "REMOTE_ADDR": SOURCE_IP,
    # The handler of `deferred` wants it to begin with "Devel". With another version the SDK's
    # client would ask the modules service for the host of a target.
    "SERVER_SOFTWARE": "Development/1.0 (testbed)",
}

_BODY_KEPT = 4 * KIB
"""Bytes of a response's body that are kept, from its beginning."""
_BODY_READ = 32 * MIB
"""Bytes of a response's body that are read: the largest response that App Engine permits."""


class WsgiSender:
    """Sends push tasks to a WSGI app in this process, such as one of Flask or Django.

    Each request is handled in a copy of the current context.
    """

    def __init__(self, app: WSGIApplication) -> None:
        """Use an app.

        Raises:
            TypeError: `app` is not a WSGI app.
        """
        _check_wsgi(app)
        self._app = app

    def __call__(self, request: PushRequest) -> PushResponse:
        """Send a request; an exception of the app is status 500 and `error` of the response."""
        return copy_context().run(self._send, request)

    def _send(self, request: PushRequest) -> PushResponse:
        from werkzeug.test import create_environ, run_wsgi_app  # noqa: PLC0415 - only in tests

        _watch_frameworks()
        hidden: _Hidden = []
        _hidden.set(hidden)
        environ = create_environ(
            path_of(request.url),
            origin_of(request.url) or _TEST_ORIGIN,
            method=request.method,
            # WSGI has bytes as text in Latin-1.
            headers={k: v.encode().decode("latin-1") for k, v in request.headers.items()},
            input_stream=BytesIO(request.body),
            environ_base=_ENVIRON,
        )
        try:
            parts, status_line, _ = run_wsgi_app(self._app, environ, buffered=True)
        except Exception as error:  # noqa: BLE001 - of the app, whatever it is
            return PushResponse(500, error=error)
        status = int(status_line.partition(" ")[0])
        body = b"".join(parts)[:_BODY_KEPT]
        if not hidden or is_success(status):
            return PushResponse(status, body)
        cause, signal = hidden[-1]
        cause.add_note(f"(the app responded with status {status}; this exception is from {signal})")
        return PushResponse(status, body, error=cause)


@contextmanager
def environ_restored() -> Iterator[None]:
    """Make `os.environ` what it was; `wrap_wsgi_app` leaves the variables of requests there."""
    before = os.environ.copy()
    try:
        yield
    finally:
        if os.environ != before:
            os.environ.clear()
            os.environ.update(before)


def _check_wsgi(app: object) -> None:
    if not callable(app):
        raise TypeError(f"app is {quoted(app)}, which is not a WSGI app: pass one, or send=")
    if iscoroutinefunction(app) or iscoroutinefunction(type(app).__call__):
        raise TypeError(
            f"app is {quoted(app)}, which is an ASGI app: pass send=, a function that uses its "
            "test client"
        )


_Hidden = list[tuple[Exception, str]]

_hidden: ContextVar[_Hidden | None] = ContextVar("hidden", default=None)
"""During a request: the exceptions for which a framework returns a response, and their sources."""

_watched: set[str] = set()


def _watch_frameworks() -> None:
    """Keep the exceptions for which Flask or Django returns a response, while a task is sent."""
    if "flask" in sys.modules and "flask" not in _watched:
        from flask import got_request_exception  # noqa: PLC0415 - only if the app uses it

        got_request_exception.connect(_flask_error, weak=False)  # or Python may end with a message
        _watched.add("flask")
    if "django" in sys.modules and "django" not in _watched:
        from django.core import signals  # noqa: PLC0415 - the same

        signals.got_request_exception.connect(_django_error)
        _watched.add("django")


def _flask_error(_: object, exception: Exception, **__: object) -> None:
    _keep(exception, "flask.got_request_exception")


def _django_error(**_: object) -> None:
    _keep(sys.exc_info()[1], "django.core.signals.got_request_exception")


def _keep(error: BaseException | None, signal: str) -> None:
    errors = _hidden.get()  # None: no task is sent here
    if errors is not None and isinstance(error, Exception):
        errors.append((error, signal))


class HttpSender:
    """Sends push tasks over HTTP; thread-safe.

    Connections are kept while the app keeps them. Redirects are not followed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._busy: dict[_Connection, float] = {}
        """The deadlines of requests under way, by `perf_counter`."""
        self._watch_at = inf
        """When the deadlines are looked at next."""
        self._closed = False
        self._watcher: threading.Thread | None = None

    def send(self, request: PushRequest, address: str) -> PushResponse:
        """Send a request to the address of a server, such as `http://localhost:8080`.

        The request's deadline is for everything, from the connection to the last byte of the
        response. A response with a status whose body is cut is complete.
        """
        connection = self._take(address, perf_counter() + request.deadline_seconds)
        try:
            response = connection.exchange(request)
        finally:
            self._return(address, connection)
        if response.status is None and connection.aborted:
            return PushResponse(None, reason=self._why_aborted(request))
        return response

    def close(self) -> None:
        """End all requests under way, without a response, and close all connections."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
            busy = list(self._busy)
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.abort()

    def _why_aborted(self, request: PushRequest) -> str:
        if self._closed:
            return "the server stopped"
        return f"no response within {request.deadline_seconds:g} s"

    def _watch(self) -> None:
        """Abort the requests whose deadline has passed, until the sender is closed."""
        with self._changed:
            while not self._closed:
                now = perf_counter()
                for connection in [each for each, end in self._busy.items() if end <= now]:
                    del self._busy[connection]
                    connection.abort()
                self._watch_at = min(self._busy.values(), default=inf)
                left = self._watch_at - now
                self._changed.wait(None if left == inf else min(left, threading.TIMEOUT_MAX))

    def _take(self, address: str, deadline: float) -> _Connection:
        with self._changed:
            connection = None
            kept = self._idle[address]
            while kept and connection is None:
                connection = kept.pop()
                if not connection.is_usable():
                    connection.close()
                    connection = None
            connection = connection or _Connection(address)
            self._busy[connection] = deadline
            if self._closed:
                connection.abort()
            elif self._watcher is None:
                name = "pullqueue deadlines"
                self._watcher = threading.Thread(target=self._watch, name=name, daemon=True)
                self._watcher.start()
            elif deadline < self._watch_at:
                self._changed.notify()
        return connection

    def _return(self, address: str, connection: _Connection) -> None:
        with self._changed:
            self._busy.pop(connection, None)
            if connection.is_kept and not self._closed:
                self._idle[address].append(connection)
                return
        connection.close()


class _Connection:
    """A connection to a server, for one request after the other."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(url.hostname or "", url.port)
        self._prefix = url.path.rstrip("/")
        self._socket: socket.socket | None = None
        """The connection drops its own reference at the end of a response."""
        self._selector = selectors.DefaultSelector()
        self.aborted = False
        self.is_kept = False
        """Whether the connection can be used for another request."""

    def exchange(self, request: PushRequest) -> PushResponse:
        """Send a request and return the response, with or without a status."""
        self.is_kept = False
        try:
            response = self._request(request)
        except ConnectionRefusedError:
            return PushResponse(None, reason="connection refused")
        except TimeoutError:
            self.aborted = True
            return PushResponse(None)
        except (OSError, http.client.HTTPException) as error:
            # It can be a line that the server has sent.
            what = shorten(str(error).strip() or type(error).__name__, limit=100)
            return PushResponse(None, reason=f"connection lost: {what}")
        return self._read(response)

    def _request(self, request: PushRequest) -> http.client.HTTPResponse:
        connection = self._connection
        if self._socket is None:
            connection.timeout = request.deadline_seconds
            connection.connect()
            self._socket = connection.sock
            self._selector.register(self._socket, selectors.EVENT_READ)
        if self.aborted:  # while it connected
            raise TimeoutError
        self._socket.settimeout(request.deadline_seconds)
        headers = {name: value.encode() for name, value in request.headers.items()}
        if origin_of(request.url) is not None:
            headers["Host"] = urlsplit(request.url).netloc.rpartition("@")[2].encode()
        # A server may respond, and close the connection, before it has read the body.
        with suppress(BrokenPipeError, ConnectionResetError):
            path = self._prefix + path_of(request.url)
            connection.request(request.method, path, request.body or None, headers)
        return connection.getresponse()

    def _read(self, response: http.client.HTTPResponse) -> PushResponse:
        body = b""
        read = 0
        # Errors: the body is cut, which changes nothing.
        with suppress(OSError, http.client.HTTPException):
            while read < _BODY_READ and (data := response.read(64 * KIB)):
                body += data[: _BODY_KEPT - len(body)]
                read += len(data)
            self.is_kept = response.isclosed() and self._connection.sock is not None
        if self.aborted:
            return PushResponse(None)
        return PushResponse(response.status, body)

    def abort(self) -> None:
        """End the request under way, from another thread."""
        self.aborted = True
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of an SSL socket, which a reader in another thread does not bear.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def is_usable(self) -> bool:
        """Return whether the server has not closed the connection meanwhile."""
        if self._socket is None:
            return False
        return not self._selector.select(0)

    def close(self) -> None:
        """Close the connection."""
        self._selector.close()
        self._connection.close()
        if self._socket is not None:
            self._socket.close()
