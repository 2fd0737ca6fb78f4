"""The latest requests and calls with their responses, and the number of each kind."""

from __future__ import annotations

import logging
import re
import secrets
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count, takewhile
from operator import attrgetter
from time import perf_counter
from typing import Any
from urllib.parse import unquote_plus

from flask import Request as HttpRequest
from flask import Response, g
from msgspec.structs import replace

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import NAMED_TASKS, Touched, current_caller
from pullqueue.errors import PullQueueError
from pullqueue.limits import MIB
from pullqueue.observe.activity import ActivityLog
from pullqueue.observe.models import Request, is_failure
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.structs import Bytes
from pullqueue.text import shorten

_VERBS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "CALL"})
"""Those that are counted by name: a client can make up any number of others."""
_KEPT = 10_000
_KEPT_BYTES = 16 * MIB
"""Size of all requests together; beyond it bodies are dropped, the oldest first."""
_EXCERPT_BYTES = 4_096
_SHOWN_CHARACTERS = 2_000
"""How much of a path or a query is recorded."""
_HEADER_CHARACTERS = 200
"""How much of a header of an attempt is recorded."""
_NAME_CHARACTERS = 200
"""How much of a name is recorded, which a client can make up; those of tasks can be longer."""
_UNANSWERED = 1_000
"""Apps whose last attempt is known."""
_OWN_PATHS = re.compile(r"/|/favicon\.ico|/(_emulator|console)(/.*)?", re.DOTALL)
_SECRET_PATHS = ("/token", "/tokeninfo")
"""Paths whose bodies and responses are credentials."""
_SECRET_PARAMETERS = ("access_token", "oauth_token")
"""Parameters, in a query or in a form, that are credentials."""
_CREDENTIALS = re.compile(
    rf"""((?:{"|".join(_SECRET_PARAMETERS)})=)[^&\s"\\]*"""  # in JSON, a text goes no further
    r"""|(authorization[ \t]*:)[^\r\n"\\]*(?:\r?\n[ \t][^\r\n"\\]*)*"""
    r"""|-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*""".encode(),
    re.IGNORECASE,
)

_HIDDEN = "(hidden)"
"""Replaces a credential."""

_UNKNOWN = Origin(Interface.REST)
_log = logging.getLogger("pullqueue.requests")


class RequestLog:
    """The latest ten thousand requests, but for those to the control routes and the console.

    The first to be dropped are those of the queue that has most. Attempts that get no response for
    the same reason, one after the other, are one.
    """

    def __init__(self, emulator: Emulator, activity: ActivityLog) -> None:
        self._activity = activity
        self.server = secrets.token_hex(4)
        """Identifies this log among those of all servers: each has its own numbers."""
        self._emulator = emulator
        self._numbers = count(1)
        self._requests: dict[int, Request] = {}
        """By number, in the order in which they ended."""
        self._of_queue: defaultdict[str, dict[int, None]] = defaultdict(dict)
        """The numbers of the requests on each queue, in the same order. Failed ones on queues that
        do not exist are under "": a client can make up any number of names."""
        self._unanswered: dict[tuple[str, str], int] = {}
        """By queue and client, the last attempt, if it got no response."""
        self._with_bodies: dict[int, None] = {}
        self._collected: list[list[Request]] = []
        """Where attempts are added, each on its own, while somebody collects them."""
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
        self, request: Request, *, origin: Origin = _UNKNOWN, touched: Touched | None = None
    ) -> None:
        """Record a request that has ended, of an origin, without credentials and long texts.

        Its number, time and interface, the tasks, why it failed, and the queue if it names none
        are filled in.
        """
        number = origin.request
        if number is None or origin.server != self.server:
            number = next(self._numbers)
        request.number = number
        request.time = self._emulator.clock.now().isoformat()
        request.interface = origin.interface
        if touched is not None:
            request.queue = request.queue or touched.queue_name
            longest = self._emulator.limits.task_name_characters
            request.tasks = [name[:longest] for name in touched.names]
            request.task_count = touched.count
            request.lease_tags, request.fault = touched.lease_tags, touched.fault
            request.rate_limited = touched.rate_limited
        if request.path.startswith(_SECRET_PATHS):
            request.body, request.response = _sizes(request)
        if is_failure(request.status):
            response = request.response
            summary = response.text and PushResponse(None, response.data).summary
            request.reason = summary or ""
        elif request.rate_limited:
            request.reason = "no tasks because of the lease rate"
        request.path = request.path[:_SHOWN_CHARACTERS]
        request.query = _without_secrets(request.query)[:_SHOWN_CHARACTERS]
        request.agent, request.method = _named(request.agent), _named(request.method)
        request.queue = _named(request.queue)
        request.caller = request.caller and _named(request.caller)
        verb, status = request.verb, request.status
        self._activity.count(request, origin)
        is_of_queue = not is_failure(status) or self._is_queue(request.queue)
        with self._lock:
            self._keep(request, is_of_queue=is_of_queue)
            if origin.interface is not Interface.PUSH:
                known = verb if verb in _VERBS else "other"
                self.counts[known, status] += 1
                self.seconds += request.milliseconds / 1000
        extra = {"verb": verb, "path": request.path, "status": status}
        _log.debug("%s %s %d", verb, request.path, status, extra=extra)

    def _is_queue(self, name: str) -> bool:
        try:
            return any(each.name == name for each in self._emulator.queues)
        except PullQueueError:
            return True  # the store does not respond: this is not the time to look at its queues

    def record_call(
        self, call: Mapping[str, Any], *, seconds: float, origin: Origin, touched: Touched | None
    ) -> None:
        """Record a call of the SDK in process: some fields of a request, with bodies in bytes."""
        request = Request(
            **_excerpts(call),
            verb="CALL",
            path=call["method"],
            milliseconds=to_milliseconds(seconds),
        )
        self.record(request, origin=origin, touched=touched)

    def record_sent(
        self,
        request: PushRequest,
        response: PushResponse,
        *,
        method: str,
        seconds: float,
        origin: Origin,
    ) -> None:
        """Record a request that this server has sent, of an origin whose client is the app."""
        touched = Touched(fault=response.fault)
        if request.task_name:
            touched.add(request.queue_name, [request.task_name])
        path, _, query = request.url.partition("?")
        logged = Request(
            verb=request.method,
            path=path,
            query=query,
            headers=_header_lines(request.headers),
            status=response.status or 0,
            milliseconds=to_milliseconds(seconds),
            body=excerpt(request.body),
            response=excerpt(response.body or (response.reason or "").encode()),
            method=method,
            queue=request.queue_name,
            client=origin.client,
        )
        self.record(logged, origin=origin, touched=touched)

    def _keep(self, request: Request, *, is_of_queue: bool) -> None:
        """Add a request, and drop what is too old or too much."""
        kept, with_bodies = self._requests, self._with_bodies
        if request.interface is Interface.PUSH:
            for collected in self._collected:
                collected.append(replace(request))
            if request.queue:
                self._join_unanswered(request)
        kept[request.number] = request
        name = request.queue if is_of_queue or request.queue in self._of_queue else ""
        self._of_queue[name][request.number] = None
        self._bytes += request.memory
        if request.headers or request.body.data or request.response.data:
            with_bodies[request.number] = None
        while self._bytes > _KEPT_BYTES and with_bodies:
            number = next(iter(with_bodies))
            del with_bodies[number]
            oldest = kept[number]
            body, response = _sizes(oldest)
            # Another object: somebody may be reading this one.
            bare = replace(oldest, headers=[], body=body, response=response)
            kept[number] = bare
            self._bytes += bare.memory - oldest.memory
        while len(kept) > _KEPT or self._bytes > _KEPT_BYTES:
            largest = max(self._of_queue.values(), key=len)
            self._drop(next(iter(largest)))

    def _join_unanswered(self, request: Request) -> None:
        """Make an attempt without a response replace the last one that had none, and count both."""
        place = request.queue, request.client
        last = self._requests.get(self._unanswered.pop(place, 0))
        if request.status:
            return
        self._unanswered[place] = request.number
        if len(self._unanswered) > _UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        if last is not None and (last.reason, last.fault) == (request.reason, request.fault):
            self._drop(last.number)
            request.times, request.first = last.times + 1, last.first or last.time
            request.tasks = list(dict.fromkeys((*request.tasks, *last.tasks)))[:NAMED_TASKS]

    def count_unanswered(self, queue: str, client: str, count: int) -> None:
        """Count further attempts that got no response, for the reason of the last one."""
        with self._lock:
            number = self._unanswered.get((queue, _named(client)), 0)
            if (last := self._requests.get(number)) is None:
                return
            # Another object: somebody may be reading this one.
            latest = self._requests[number] = replace(
                last,
                times=last.times + count,
                first=last.first or last.time,
                time=self._emulator.clock.now().isoformat(),
            )
        self._activity.count(latest, Origin(Interface.PUSH, client), times=count)

    def _drop(self, number: int) -> None:
        dropped = self._requests.pop(number)
        self._bytes -= dropped.memory
        self._with_bodies.pop(number, None)
        name = dropped.queue if number in self._of_queue.get(dropped.queue, ()) else ""
        del self._of_queue[name][number]
        if not self._of_queue[name]:
            del self._of_queue[name]

    @contextmanager
    def collected_attempts(self) -> Iterator[list[Request]]:
        """Yield a list of the attempts that end in the block: all of them, none joined."""
        collected: list[Request] = []
        with self._lock:
            self._collected.append(collected)
        try:
            yield collected
        finally:
            with self._lock:
                self._collected = [each for each in self._collected if each is not collected]

    def latest(self) -> list[Request]:
        """Return the latest requests that have ended, the one that began last first."""
        with self._lock:
            found = list(self._requests.values())
        return sorted(found, key=attrgetter("number"), reverse=True)

    def latest_of(self, queue: str, *, last: timedelta) -> list[Request]:
        """Return the requests on a queue within the last time span, the latest first."""
        now = self._emulator.clock.now()
        with self._lock:
            found = [self._requests[number] for number in reversed(self._of_queue.get(queue, {}))]
        return list(takewhile(lambda each: now - datetime.fromisoformat(each.time) < last, found))

    def get(self, number: int) -> Request | None:
        """Return a request; None: it is not recorded, or has not ended."""
        return self._requests.get(number)

    def number_of(self, origin: Origin | None) -> int | None:
        """Return the number of the request of an origin; None: it is not recorded here."""
        if origin is None or origin.server != self.server:
            return None
        return origin.request if origin.request in self._requests else None

    def clear(self) -> int:
        """Delete the requests, but not their counts; return how many there were."""
        with self._lock:
            known = len(self._requests)
            self._requests.clear()
            self._of_queue.clear()
            self._unanswered.clear()
            self._with_bodies.clear()
            self._bytes = 0
            return known

    def begin(self, path: str, agent: str) -> Origin:
        """Return the origin of a request of HTTP; to the emulator's own routes it has no number."""
        if _OWN_PATHS.fullmatch(path):
            return Origin(Interface.CONTROL, _named(agent))
        return self.origin(Interface.REST, agent)

    def record_response(self, request: HttpRequest, response: Response) -> None:
        """Record the current request, unless it is to the emulator's own routes."""
        caller = current_caller()
        if caller is None or caller.origin.request is None:
            return
        facts = vars(g)
        email = facts.get("caller")
        sent = facts.get("response_body")
        if sent is None:
            sent = b"" if response.is_streamed else response.get_data()
        recorded = Request(
            verb=request.method,
            path=request.path,
            query=request.query_string.decode("utf-8", "replace"),
            client=request.remote_addr or "",
            agent=request.headers.get("User-Agent", "") if email else caller.origin.client,
            caller=email,
            status=response.status_code,
            milliseconds=to_milliseconds(perf_counter() - facts["started"]),
            body=excerpt(
                facts.get("body", b""), total=None if "body" in facts else facts.get("zipped_bytes")
            ),
            response=excerpt(sent),
        )
        for name, value in _excerpts(facts.get("logged", {})).items():  # what the view knows better
            setattr(recorded, name, value)
        self.record(recorded, origin=caller.origin, touched=caller.touched)


def excerpt(data: bytes, *, total: int | None = None) -> Bytes:
    """Return the beginning of a body, without credentials in a form or in a batch.

    `total` is its size, if only a part of it, or none, is recorded.
    """
    beginning = data[:_EXCERPT_BYTES]
    # Few bodies contain any, and to search them all with the pattern costs as much as a view.
    lowered = beginning.lower()
    if b"_token=" in lowered or b"authorization" in lowered or b"private key" in lowered:
        beginning = _CREDENTIALS.sub(rb"\1\2" + _HIDDEN.encode(), beginning)
    return Bytes.of(beginning, total=len(data) if total is None else total)


def to_milliseconds(seconds: float) -> float:
    """Return a duration as requests have it."""
    return round(seconds * 1000, 3)


def _header_lines(headers: Mapping[str, str]) -> list[str]:
    """Return headers on one line each, without credentials and the rest of long values."""
    shown = {
        name: _HIDDEN
        if name.lower() == "authorization"
        else shorten(value, limit=_HEADER_CHARACTERS)
        for name, value in headers.items()
    }
    lines = "\n".join(f"{name}: {value}" for name, value in shown.items())
    return lines[:_EXCERPT_BYTES].splitlines()


def _excerpts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: excerpt(value) if isinstance(value, bytes) else value
        for name, value in fields.items()
    }


def _sizes(request: Request) -> list[Bytes]:
    """Return the sizes of what was sent and answered, without the content."""
    return [Bytes.of(b"", total=part.size) for part in (request.body, request.response)]


def _named(name: str) -> str:
    """Return a name, cut; many events and requests share it."""
    return sys.intern(name[:_NAME_CHARACTERS])


def _without_secrets(query: str) -> str:
    parts = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        secret = unquote_plus(name) in _SECRET_PARAMETERS
        parts.append(f"{name}{equals}{_HIDDEN if secret else value}")
    return "&".join(parts)
