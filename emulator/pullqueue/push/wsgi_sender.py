"""Sending the requests of push tasks to a WSGI app in this process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from inspect import iscoroutinefunction
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes
from wsgiref.util import setup_testing_defaults

from pullqueue.address import SplitUrl
from pullqueue.limits import KIB
from pullqueue.push.request import SOURCE_IP, PushRequest, PushResponse
from pullqueue.tasks import is_success
from pullqueue.text import quoted

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

_TEST_HOST = "testserver"
"""The host of an app where none is known: the only one that Django permits in tests."""

_ENVIRON = {
    "REMOTE_ADDR": SOURCE_IP,
    # The handler of `deferred` wants it to begin with "Devel". With another version the SDK's
    # client would ask the modules service for the host of a target.
    "SERVER_SOFTWARE": "Development/1.0 (testbed)",
}


TEST_BODY_KEPT = 64 * KIB
"""Bytes of a response's body that are kept in a test, from its beginning."""


class WsgiSender:
    """Sends push tasks to a WSGI app in this process, such as one of Flask or Django.

    Each request is handled in a copy of the current context.
    """

    def __init__(
        self,
        app: WSGIApplication,
        wrap: Callable[[WSGIApplication], WSGIApplication] | None = None,
    ) -> None:
        """Use an app, in a middleware; raise a TypeError if `app` is not a WSGI app."""
        _check_wsgi(app)
        self._app = wrap(app) if wrap else app

    def __call__(self, request: PushRequest) -> PushResponse:
        """Send a request; an exception of the app is status 500 and `error` of the response."""
        return copy_context().run(self._send, request)

    def _send(self, request: PushRequest) -> PushResponse:
        from werkzeug.test import run_wsgi_app  # noqa: PLC0415 - only in tests

        _watch_frameworks()
        hidden: _Hidden = []
        _hidden.set(hidden)
        environ = _environ(request)
        try:
            with _connections_kept(), _webapp2_watched():
                parts, status_line, received = run_wsgi_app(self._app, environ, buffered=True)
        except Exception as error:  # noqa: BLE001 - of the app, whatever it is
            return PushResponse(500, error=error)
        status = int(status_line.partition(" ")[0])
        response = PushResponse(
            status,
            b"".join(parts)[:TEST_BODY_KEPT],
            retry_after=received.get("Retry-After", ""),
            location=received.get("Location", ""),
        )
        if not hidden or is_success(status):
            return response
        cause, signal = hidden[-1]
        cause.add_note(f"(the app responded with status {status}; this exception is from {signal})")
        return response._replace(error=cause)


def _environ(request: PushRequest) -> WSGIEnvironment:
    """Return what the app gets; werkzeug's builder would take as long as a simple handler."""
    scheme = "https" if str(request.target).startswith("https:") else "http"
    host = request.headers.get("Host", _TEST_HOST)
    server = SplitUrl(f"{scheme}://{host}")
    uri = request.path
    path, _, query = uri.partition("?")
    environ: WSGIEnvironment = {
        **_ENVIRON,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": uri,
        "RAW_URI": uri,
        "SERVER_NAME": server.host,
        "SERVER_PORT": str(server.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.url_scheme": scheme,
        "wsgi.input": BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        **dict(map(_variable, request.headers.items())),
    }
    setup_testing_defaults(environ)
    return environ


def _variable(header: tuple[str, str]) -> tuple[str, str]:
    """Return a header as the variable of WSGI, which has bytes as text in Latin-1."""
    key = header[0].upper().replace("-", "_")
    value = header[1].encode().decode("latin-1")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", value


@contextmanager
def environ_restored() -> Iterator[None]:
    """Make `os.environ` what it was; `wrap_wsgi_app` leaves the variables of requests there."""
    before = os.environ.copy()
    try:
        yield
    finally:
        for name in {*os.environ} - {*before}:
            del os.environ[name]
        os.environ.update(before.items() - os.environ.items())


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


def _watch_frameworks() -> None:
    """Keep the exceptions for which Flask or Django returns a response, while a task is sent.

    A signal has a function once, however often it is connected.
    """
    if "flask" in sys.modules:
        from flask import got_request_exception  # noqa: PLC0415 - only if the app uses it

        got_request_exception.connect(_flask_error, weak=False)  # or Python may end with a message
    if "django" in sys.modules:
        from django.core import signals  # noqa: PLC0415 - only if the app uses it

        signals.got_request_exception.connect(_django_error)


def _flask_error(_: object, exception: Exception, **__: object) -> None:
    _keep(exception, "flask.got_request_exception")


def _django_error(**_: object) -> None:
    _keep(sys.exc_info()[1], "django.core.signals.got_request_exception")


@contextmanager
def _connections_kept() -> Iterator[None]:
    """Leave the database connections of Django open, as its test client does.

    They are the test's: they have its transaction, or must not be used in it.
    """
    if "django.db" not in sys.modules:
        yield
        return
    from django.core.signals import request_finished, request_started  # noqa: PLC0415 - is loaded
    from django.db import close_old_connections  # noqa: PLC0415 - is loaded

    signals = (request_started, request_finished)
    connected = [signal for signal in signals if signal.disconnect(close_old_connections)]
    try:
        yield
    finally:
        for signal in connected:
            signal.connect(close_old_connections)


@contextmanager
def _webapp2_watched() -> Iterator[None]:
    """Keep the exceptions of which webapp2 makes a response; it has no signal, but logs them."""
    if "webapp2" not in sys.modules:
        yield
        return
    watcher = _Webapp2Watcher()
    root = logging.getLogger()
    root.addHandler(watcher)
    try:
        yield
    finally:
        root.removeHandler(watcher)


class _Webapp2Watcher(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.module == "webapp2" and record.exc_info is not None:
            _keep(record.exc_info[1], "the log of webapp2")


def _keep(error: BaseException | None, signal: str) -> None:
    errors = _hidden.get()  # None: no task is sent here
    if errors is not None and isinstance(error, Exception):
        errors.append((error, signal))
