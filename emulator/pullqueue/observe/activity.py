"""What happened to a server: what operators did, and which requests failed."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import current_origin
from pullqueue.structs import Count, Model, Time
from pullqueue.tasks import result_text
from pullqueue.text import counted, format_span, shorten

_KEPT = 2_000
_TEXT_CHARACTERS = 1_000
"""How much of the text of an action is recorded."""
_PAUSE = timedelta(minutes=1)
"""How long nothing fails before the next failure is one of its own."""
_SECOND = timedelta(seconds=1)
_ATTEMPT = re.compile(r"attempt \d+")
_CLOUD_TASKS = "projects.locations."

_log = logging.getLogger("pullqueue.activity")


class Activity(Model):
    """An action of an operator, or what failed in the same way within a time."""

    time: Annotated[
        Time,
        Meta(
            description="Time by the emulator's clock: of failures, of the first; of exhausted "
            "tasks, the end of the minute in which they were."
        ),
    ]
    text: Annotated[str, Meta(description="What happened, such as `paused queue mail`.")]
    interface: Annotated[Interface | None, Meta(description="Null of exhausted tasks.")] = None
    client: Annotated[
        str,
        Meta(description="User-Agent of the client; empty if unknown, or if there are several."),
    ] = ""
    queue: Annotated[str, Meta(description="Queue of what failed; empty if there is none.")] = ""
    failures: Annotated[
        Count, Meta(description="Requests that failed, or tasks that were exhausted; 0: an action.")
    ] = 0
    status: Annotated[
        Count | None,
        Meta(description="Status of the requests that failed, 0: no response; null: none did."),
    ] = None
    last: Annotated[Time | None, Meta(description="Time of the last failure; null: none.")] = None


class ActivityLog:
    """The latest actions and failures. A reset of the server deletes none.

    Requests that fail in the same way are one entry, until an action, or a minute without.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._activity: deque[Activity] = deque(maxlen=_KEPT)
        self._current: dict[tuple[Interface, str, str, int], Activity] = {}
        """Those failures that may go on, by interface, method, queue and status."""
        self._lock = threading.Lock()

    def record(self, text: str, origin: Origin | None = None) -> None:
        """Record and log an action of a caller; default: the current one."""
        origin, text = origin or current_origin(), shorten(text, limit=_TEXT_CHARACTERS)
        time = self._emulator.clock.now().isoformat()
        action = Activity(time=time, text=text, interface=origin.interface, client=origin.client)
        with self._lock:
            self._activity.append(action)
            self._current.clear()
        _log.info("%s (%s)", text, origin.who)

    def record_failure(
        self, method: str, queue: str, origin: Origin, *, time: Time, status: int, reason: str
    ) -> None:
        """Record a request that has failed, or count it with those that failed in the same way."""
        is_attempt = _ATTEMPT.fullmatch(method) is not None
        method = "" if is_attempt else method.removeprefix(_CLOUD_TASKS)
        key = (origin.interface, method, queue, status)
        with self._lock:
            failure = self._current.get(key)
            if failure is None or _passed(failure.last or "", time) > _PAUSE:
                failure = Activity(
                    time=time,
                    text="",
                    interface=origin.interface,
                    client=origin.client,
                    queue=queue,
                    status=status,
                )
                self._activity.append(failure)
                if len(self._current) == _KEPT:
                    self._current.clear()
                self._current[key] = failure
            failure.failures += 1
            failure.last = time
            failure.client = origin.client if failure.client == origin.client else ""
            noun = "attempt" if is_attempt else "call" if method else "request"
            what = counted(failure.failures, noun)
            what += f" of {method}" if method else ""
            what += f" on queue {queue}" if queue else ""
            passed = _passed(failure.time, time)
            again = f" within {format_span(passed.total_seconds())}" if passed >= _SECOND else ""
            again += "; the last" if failure.failures > 1 else ""
            failure.text = f"{what} failed{again}: {result_text(status, reason)}"

    def latest(self) -> list[Activity]:
        """Return copies of all, in the order in which they began."""
        with self._lock:
            return [replace(each) for each in self._activity]


def _passed(first: Time, last: Time) -> timedelta:
    return datetime.fromisoformat(last) - datetime.fromisoformat(first)
