"""The latest requests and calls with their responses, and the number of each kind."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter, deque
from time import perf_counter
from typing import Annotated, Any
from urllib.parse import unquote_plus

from flask import Response, g, request
from msgspec import Meta

from pullqueue.control.models import Bytes, Count, Model, Time
from pullqueue.engine.emulator import Emulator

_VERBS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "CALL"})
"""Those that are counted by name: a client can make up any number of others."""
_KEPT = 1_000
_EXCERPT_BYTES = 4_096
_OWN_PATHS = re.compile(r"/|/favicon\.ico|/(_emulator|console)(/.*)?", re.DOTALL)
PUSH_INTERFACE = "push"
"""The interface of attempts to send push tasks."""
_SECRET_PATHS = ("/token", "/tokeninfo")
"""Paths whose bodies and responses are credentials."""
_SECRET_PARAMETERS = ("access_token", "oauth_token")
"""Parameters, in a query or in a form, that are credentials."""
_CREDENTIALS = re.compile(
    rf"""((?:{"|".join(_SECRET_PARAMETERS)})=)[^&\s"\\]*"""  # in JSON, a text goes no further
    r"""|(authorization[ \t]*:)[^\r\n"\\]*(?:\r?\n[ \t][^\r\n"\\]*)*""".encode(),
    re.IGNORECASE,
)

_HIDDEN = "(hidden)"
"""Replaces a credential."""

_log = logging.getLogger("pullqueue.requests")


class Request(Model):
    """One request to an API and its response, or one call of Google's SDK."""

    number: Count
    time: Time
    interface: Annotated[
        str, Meta(description="REST, gRPC, SDK, or push for a task that this server has sent.")
    ]
    method: Annotated[
        str, Meta(description="Such as `tasks.lease` or `taskqueue.BulkAdd`; empty if it has none.")
    ]
    queue: Annotated[str, Meta(description="Empty if it is about none.")]
    task: Annotated[str, Meta(description="The push task that was sent; else empty.")]
    verb: Annotated[str, Meta(description="That of HTTP; CALL for the SDK in process.")]
    path: str
    query: str
    client: Annotated[str, Meta(description="The address it came from, or was sent to.")]
    caller: Annotated[
        str | None, Meta(description="The owner of its token, where tokens are required.")
    ]
    status: Annotated[
        Count,
        Meta(description="That of HTTP; for a call of the SDK, that of its result; 0: none."),
    ]
    milliseconds: float
    body: Annotated[Bytes, Meta(description="The first 4 KiB of what was sent, unzipped.")]
    response: Annotated[Bytes, Meta(description="The first 4 KiB, before it was zipped.")]


class RequestLog:
    """The latest thousand requests, but for those to the control routes and the console."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._requests: deque[Request] = deque(maxlen=_KEPT)
        self._count = 0
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, int]] = Counter()
        """Requests by verb and status."""
        self.seconds = 0.0
        """Duration of all of them together."""
        emulator.call_logs.append(self.record)

    def record(
        self,
        *,
        verb: str,
        path: str,
        status: int,
        seconds: float,
        body: bytes,
        response: bytes,
        interface: str = "REST",
        method: str = "",
        queue: str = "",
        task: str = "",
        query: str = "",
        client: str = "",
        caller: str | None = None,
        body_bytes: int | None = None,
    ) -> None:
        """Record one request; `body_bytes` is its size where the body itself is not recorded."""
        secret = path.startswith(_SECRET_PATHS)
        sizes = (len(body) if body_bytes is None else body_bytes, len(response))
        excerpts = [b"" if secret else _excerpt(data) for data in (body, response)]
        shown = [Bytes.of(data, total=size) for data, size in zip(excerpts, sizes, strict=True)]
        with self._lock:
            self._count += 1
            logged = Request(
                number=self._count,
                time=self._emulator.clock.now().isoformat(),
                interface=interface,
                method=method,
                queue=queue,
                task=task,
                verb=verb,
                path=path,
                query=_without_secrets(query),
                client=client,
                caller=caller,
                status=status,
                milliseconds=round(seconds * 1000, 3),
                body=shown[0],
                response=shown[1],
            )
            self._requests.append(logged)
            if interface != PUSH_INTERFACE:
                known = verb if verb in _VERBS else "other"
                self.counts[known, status] += 1
                self.seconds += seconds
        _log.debug(
            "%s %s %d", verb, path, status, extra={"verb": verb, "path": path, "status": status}
        )

    def latest(self) -> list[Request]:
        """Return the latest requests, newest first."""
        with self._lock:
            return list(reversed(self._requests))

    def clear(self) -> int:
        """Delete the requests, but not their counts; return how many there were."""
        with self._lock:
            known = len(self._requests)
            self._requests.clear()
            return known

    def record_response(self, response: Response) -> None:
        """Record the current request, unless it is to the emulator's own routes."""
        if _OWN_PATHS.fullmatch(request.path):
            return
        sent = g.get("response_body")
        if sent is None:
            sent = b"" if response.is_streamed else response.get_data()
        recorded: dict[str, Any] = {
            "verb": request.method,
            "path": request.path,
            "query": request.query_string.decode("utf-8", "replace"),
            "client": request.remote_addr or "",
            "caller": g.get("caller"),
            "status": response.status_code,
            "seconds": perf_counter() - g.started,
            "body": g.get("body", b""),
            "response": sent,
            "body_bytes": None if "body" in g else g.get("zipped_bytes"),
        }
        self.record(**recorded | g.get("logged", {}))  # what the view knows better


def start_timing() -> None:
    """Measure the duration of the current request from now on."""
    g.started = perf_counter()


def _without_secrets(query: str) -> str:
    """Return a query without the values of its credentials."""
    parts = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        secret = unquote_plus(name) in _SECRET_PARAMETERS
        parts.append(f"{name}{equals}{_HIDDEN if secret else value}")
    return "&".join(parts)


def _excerpt(body: bytes) -> bytes:
    """Return the beginning of a body, without credentials in a form or in a batch."""
    beginning = body[:_EXCERPT_BYTES]
    # Few bodies contain any, and to search them all with the pattern costs as much as a view.
    lowered = beginning.lower()
    if b"_token=" in lowered or b"authorization" in lowered:
        return _CREDENTIALS.sub(rb"\1\2" + _HIDDEN.encode(), beginning)
    return beginning
