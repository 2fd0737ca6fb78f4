"""The latest requests and calls with their responses, and the number of each kind."""

from __future__ import annotations

import logging
import re
import secrets
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping
from itertools import count
from operator import attrgetter
from time import perf_counter
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote_plus

from flask import Response, g, request
from msgspec import Meta

from pullqueue.config.text import shorten
from pullqueue.control.models import Bytes, Count, Model, Time
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import Touched, current_caller
from pullqueue.limits import MIB

_VERBS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "CALL"})
"""Those that are counted by name: a client can make up any number of others."""
_KEPT = 10_000
_KEPT_BYTES = 16 * MIB
"""Size of all requests together; beyond it bodies are dropped, the oldest first."""
_ENTRY_BYTES = 700
"""Size of a request without its texts (measured)."""
_EXCERPT_BYTES = 4_096
_SHOWN_CHARACTERS = 2_000
"""How much of a path or a query is recorded."""
_HEADER_CHARACTERS = 200
"""How much of a header of an attempt is recorded."""
_CLIENT_CHARACTERS = 200
"""How much is recorded of what a client calls itself."""
_OWN_PATHS = re.compile(r"/|/favicon\.ico|/(_emulator|console)(/.*)?", re.DOTALL)
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

_UNKNOWN = Origin(Interface.REST)

_log = logging.getLogger("pullqueue.requests")


class Request(Model):
    """One request to an API and its response, or one call of Google's SDK."""

    number: Count
    time: Time
    interface: Annotated[
        Interface,
        Meta(description="Interface of the request; push: a task that this server has sent."),
    ]
    method: Annotated[
        str,
        Meta(description="Method, such as `tasks.lease` or `taskqueue.BulkAdd`; empty if none."),
    ]
    queue: Annotated[str, Meta(description="Name of the queue; empty if the request has none.")]
    tasks: Annotated[
        list[str], Meta(description="Names of the first 20 tasks of the queue that were concerned.")
    ]
    task_count: Annotated[
        Count,
        Meta(description="Number of tasks added, leased, changed, deleted or read."),
    ]
    verb: Annotated[str, Meta(description="HTTP method; CALL for a call of the SDK in process.")]
    path: str
    query: str
    client: Annotated[
        str,
        Meta(
            description="Address of the client; of the app, for a push task, or that a fault "
            "answered the attempt."
        ),
    ]
    agent: Annotated[str, Meta(description="User-Agent of the client; empty if unknown.")]
    caller: Annotated[
        str | None, Meta(description="E-mail address of the token's owner, if tokens are required.")
    ]
    status: Annotated[
        Count,
        Meta(
            description="HTTP status, or the status of a call's result; 0 if there was no response."
        ),
    ]
    milliseconds: float
    headers: Annotated[
        list[str],
        Meta(description="Headers of an attempt to send a push task; none of other requests."),
    ]
    body: Annotated[Bytes, Meta(description="First 4 KiB of the body, decompressed.")]
    response: Annotated[Bytes, Meta(description="First 4 KiB of the response, before compression.")]


class LoggedRequest(NamedTuple):
    """A request as it is recorded."""

    number: int
    time: str
    interface: Interface
    method: str
    queue: str
    tasks: tuple[str, ...]
    task_count: int
    verb: str
    path: str
    query: str
    client: str
    agent: str
    caller: str | None
    status: int
    milliseconds: float
    headers: str
    """One on each line."""
    body: bytes
    body_bytes: int
    response: bytes
    response_bytes: int

    @property
    def size(self) -> int:
        """How much memory it takes, approximately."""
        texts = len(self.path) + len(self.query) + sum(map(len, self.tasks)) + 60 * len(self.tasks)
        return _ENTRY_BYTES + texts + len(self.headers) + len(self.body) + len(self.response)

    @property
    def resource(self) -> Request:
        """The request as the control routes show it."""
        fields = self._asdict()
        sizes = fields.pop("body_bytes"), fields.pop("response_bytes")
        fields["tasks"] = list(self.tasks)
        fields["headers"] = self.headers.splitlines()
        fields["body"] = Bytes.of(self.body, total=sizes[0])
        fields["response"] = Bytes.of(self.response, total=sizes[1])
        return Request(**fields)


class RequestLog:
    """The latest ten thousand requests, but for those to the control routes and the console."""

    def __init__(self, emulator: Emulator) -> None:
        self.server = secrets.token_hex(4)
        """Identifies this log among those of all servers: each has its own numbers."""
        self._emulator = emulator
        self._numbers = count(1)
        self._requests: dict[int, LoggedRequest] = {}
        """By number, in the order in which they ended."""
        self._with_bodies: deque[int] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, int]] = Counter()
        """Requests by verb and status."""
        self.seconds = 0.0
        """Duration of all of them together."""
        emulator.call_logs.append(self)

    def origin(self, interface: Interface, client: str = "") -> Origin:
        """Return the origin of a request that begins, with a number of its own."""
        return Origin(interface, _named(client), next(self._numbers), self.server)

    def record(
        self,
        *,
        origin: Origin = _UNKNOWN,
        touched: Touched | None = None,
        verb: str,
        path: str,
        status: int,
        seconds: float,
        body: bytes,
        response: bytes,
        method: str = "",
        queue: str = "",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        client: str = "",
        agent: str = "",
        caller: str | None = None,
        body_bytes: int | None = None,
    ) -> None:
        """Record a request that has ended; `body_bytes` is its size if its body is not recorded."""
        number = origin.request
        if number is None or origin.server != self.server:
            number = next(self._numbers)
        secret = path.startswith(_SECRET_PATHS)
        excerpts = [b"" if secret else _excerpt(data) for data in (body, response)]
        touched = touched or Touched()
        logged = LoggedRequest(
            number=number,
            time=self._emulator.clock.now().isoformat(),
            interface=origin.interface,
            method=method,
            queue=queue or touched.queue_name,
            tasks=tuple(touched.names),
            task_count=touched.count,
            verb=verb,
            path=path[:_SHOWN_CHARACTERS],
            query=_without_secrets(query)[:_SHOWN_CHARACTERS],
            client=client,
            agent=_named(agent),
            caller=caller,
            status=status,
            milliseconds=round(seconds * 1000, 3),
            headers=_header_lines(headers or {}),
            body=excerpts[0],
            body_bytes=len(body) if body_bytes is None else body_bytes,
            response=excerpts[1],
            response_bytes=len(response),
        )
        with self._lock:
            self._keep(logged)
            if origin.interface is not Interface.PUSH:
                known = verb if verb in _VERBS else "other"
                self.counts[known, status] += 1
                self.seconds += seconds
        _log.debug(
            "%s %s %d", verb, path, status, extra={"verb": verb, "path": path, "status": status}
        )

    def _keep(self, logged: LoggedRequest) -> None:
        """Add a request, and drop what is too old or too much."""
        kept, with_bodies = self._requests, self._with_bodies
        kept[logged.number] = logged
        self._bytes += logged.size
        if logged.headers or logged.body or logged.response:
            with_bodies.append(logged.number)
        while self._bytes > _KEPT_BYTES and with_bodies:
            oldest = kept.get(with_bodies.popleft())
            if oldest is not None:
                bare = oldest._replace(headers="", body=b"", response=b"")
                kept[oldest.number] = bare
                self._bytes += bare.size - oldest.size
        while len(kept) > _KEPT or self._bytes > _KEPT_BYTES:
            self._bytes -= kept.pop(next(iter(kept))).size

    def latest(self) -> list[LoggedRequest]:
        """Return the latest requests that have ended, the one that began last first."""
        with self._lock:
            found = list(self._requests.values())
        return sorted(found, key=attrgetter("number"), reverse=True)

    def get(self, number: int) -> LoggedRequest | None:
        """Return a request; None: it is not recorded, or has not ended."""
        return self._requests.get(number)

    def clear(self) -> int:
        """Delete the requests, but not their counts; return how many there were."""
        with self._lock:
            known = len(self._requests)
            self._requests.clear()
            self._with_bodies.clear()
            self._bytes = 0
            return known

    def begin(self, path: str, agent: str) -> Origin:
        """Return the origin of a request of HTTP; to the emulator's own routes it has no number."""
        if _OWN_PATHS.fullmatch(path):
            return Origin(Interface.CONTROL, _named(agent))
        return self.origin(Interface.REST, agent)

    def record_response(self, response: Response) -> None:
        """Record the current request, unless it is to the emulator's own routes."""
        caller = current_caller()
        if caller is None or caller.origin.request is None:
            return
        email = g.get("caller")
        sent = g.get("response_body")
        if sent is None:
            sent = b"" if response.is_streamed else response.get_data()
        recorded: dict[str, Any] = {
            "verb": request.method,
            "path": request.path,
            "query": request.query_string.decode("utf-8", "replace"),
            "client": request.remote_addr or "",
            "agent": request.headers.get("User-Agent", "") if email else caller.origin.client,
            "caller": email,
            "status": response.status_code,
            "seconds": perf_counter() - g.started,
            "body": g.get("body", b""),
            "response": sent,
            "body_bytes": None if "body" in g else g.get("zipped_bytes"),
        }
        recorded |= g.get("logged", {})  # what the view knows better
        self.record(origin=caller.origin, touched=caller.touched, **recorded)


def _named(client: str) -> str:
    """Return what a client calls itself, cut; many events and requests share it."""
    return sys.intern(client[:_CLIENT_CHARACTERS])


def _header_lines(headers: Mapping[str, str]) -> str:
    """Return headers on one line each, without credentials and the rest of long values."""
    shown = {
        name: _HIDDEN
        if name.lower() == "authorization"
        else shorten(value, limit=_HEADER_CHARACTERS)
        for name, value in headers.items()
    }
    return "\n".join(f"{name}: {value}" for name, value in shown.items())[:_EXCERPT_BYTES]


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
