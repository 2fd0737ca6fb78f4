"""The last requests and what they were answered, and how many there were of each kind."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter, deque
from time import perf_counter
from typing import NamedTuple
from urllib.parse import unquote_plus

from flask import Flask, Request, Response, request

from pullqueue.api.auth import CALLER_KEY
from pullqueue.api.bodies import BODY_KEY, ZIPPED_KEY
from pullqueue.engine.emulator import Emulator

_KEPT = 1_000
_EXCERPT_BYTES = 4_096
_OWN_PATHS = ("/_emulator", "/console")
_SECRET_PATHS = ("/token", "/tokeninfo")
"""Paths whose bodies and answers are credentials."""
_SECRET_PARAMETERS = ("access_token", "oauth_token")
"""Parameters, in a query or in a form, that are credentials."""
_CREDENTIALS = re.compile(
    rf"""((?:{"|".join(_SECRET_PARAMETERS)})=)[^&\s"\\]*"""  # in JSON, a text goes no further
    r"""|(authorization[ \t]*:)[^\r\n"\\]*(?:\r?\n[ \t][^\r\n"\\]*)*""".encode(),
    re.IGNORECASE,
)

STARTED_KEY = "pullqueue.started"
"""Where the WSGI environment holds when the request came in."""
PLAIN_ANSWER_KEY = "pullqueue.plain_answer"
"""Where the WSGI environment holds an answer as it was before it was zipped."""
_HIDDEN = "(hidden)"
"""Stands where a credential was."""

_log = logging.getLogger("pullqueue.requests")


class LoggedRequest(NamedTuple):
    """One request to the API."""

    number: int
    """Counted from 1 since the server started."""
    usec: int
    """When it was answered, by the emulator's clock, in microseconds since the epoch."""
    verb: str
    path: str
    query: str
    client: str
    """The address it came from."""
    caller: str | None
    """Whose token it was made with, where tokens are asked for."""
    status: int
    seconds: float
    """How long it took."""
    body_bytes: int
    body: bytes
    """The first 4 KiB of what was sent, unzipped."""
    answer_bytes: int
    answer: bytes
    """The first 4 KiB of what was answered, before it was zipped."""


class RequestLog:
    """The latest thousand requests, but for those to the control routes and the console."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._requests: deque[LoggedRequest] = deque(maxlen=_KEPT)
        self._count = 0
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, int]] = Counter()
        """Requests by verb and status."""
        self.seconds = 0.0
        """What all of them took together."""

    def install(self, app: Flask) -> None:
        """Record every request of an app."""
        app.after_request(self._record)

    def latest(self, limit: int, *, before: int | None = None) -> list[LoggedRequest]:
        """Give the latest requests, newest first; `before` is the number of one."""
        with self._lock:
            known = [
                one for one in reversed(self._requests) if before is None or one.number < before
            ]
        return known[:limit]

    def get(self, number: int) -> LoggedRequest | None:
        """Give one request; None where it is forgotten or never was."""
        with self._lock:
            return next((one for one in self._requests if one.number == number), None)

    def clear(self) -> int:
        """Forget the requests, but not their counts, and tell how many there were."""
        with self._lock:
            known = len(self._requests)
            self._requests.clear()
            return known

    def _record(self, response: Response) -> Response:
        # The request itself: each use of Flask's stand-in for it would look it up again.
        current: Request = request._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001
        path, environ = current.path, current.environ
        if path.startswith(_OWN_PATHS):
            return response
        seconds = perf_counter() - environ[STARTED_KEY]
        secret = path.startswith(_SECRET_PATHS)
        body = environ.get(BODY_KEY, b"")
        answer = environ.get(PLAIN_ANSWER_KEY)
        if answer is None:
            answer = b"" if response.is_streamed else b"".join(response.iter_encoded())
        with self._lock:
            self._count += 1
            logged = LoggedRequest(
                number=self._count,
                usec=self._emulator.clock.now_usec(),
                verb=current.method,
                path=path,
                query=_shown_query(environ["QUERY_STRING"]),
                client=environ.get("REMOTE_ADDR", ""),
                caller=environ.get(CALLER_KEY),
                status=response.status_code,
                seconds=seconds,
                body_bytes=len(body),
                body=b"" if secret or ZIPPED_KEY in environ else _excerpt(body),
                answer_bytes=len(answer),
                answer=b"" if secret else _excerpt(answer),
            )
            self._requests.append(logged)
            self.counts[logged.verb, logged.status] += 1
            self.seconds += seconds
        if _log.isEnabledFor(logging.DEBUG):
            facts = {"verb": logged.verb, "path": path, "status": logged.status}
            _log.debug("%s %s %d", *facts.values(), extra=facts)
        return response


def _shown_query(query: str) -> str:
    """Give a query as text, without the values of its credentials."""
    text = query.encode("latin-1").decode("utf-8", "replace")
    if "token" not in text and "%" not in text:
        return text
    parts = []
    for part in text.split("&"):
        name, equals, value = part.partition("=")
        secret = unquote_plus(name) in _SECRET_PARAMETERS
        parts.append(f"{name}{equals}{_HIDDEN if secret else value}")
    return "&".join(parts)


def _excerpt(body: bytes) -> bytes:
    """Give the beginning of a body, without credentials in a form or in the calls of a batch."""
    beginning = body[:_EXCERPT_BYTES]
    # Few bodies hold any, and to search them all by the pattern would cost as much as a view.
    lowered = beginning.lower()
    if b"_token=" in lowered or b"authorization" in lowered:
        return _CREDENTIALS.sub(rb"\1\2" + _HIDDEN.encode(), beginning)
    return beginning
