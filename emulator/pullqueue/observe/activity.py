"""Who did what to a server: actions of operators, failures, and the clients of the queues."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter, deque
from collections.abc import MutableMapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind, Interface, Origin
from pullqueue.engine.interceptors import current_origin
from pullqueue.observe.models import Action, Failure, Request, Worker, is_failure
from pullqueue.observe.patterns import find_pattern
from pullqueue.tasks import result_text
from pullqueue.text import counted, shorten

_KEPT = 2_000
"""Actions, failures, and kinds of failures that go on."""
_KEPT_CLIENTS = 1_000
"""Clients that are known; those that did nothing for the longest time are dropped first."""
_KEPT_QUEUES = 100
_TEXT_CHARACTERS = 1_000
"""How much of the text of an action is recorded."""
_REASON_CHARACTERS = 200
_PAUSE = timedelta(minutes=1)
"""How long after its last request a failure goes on if others succeed meanwhile."""
_ATTEMPT = re.compile(r"attempt \d+")
_CLOUD_TASKS = "projects.locations."
_QUEUE_CHANGE = re.compile(
    r"(projects\.locations\.)?(?P<name>queues\.(create|patch|delete|pause|resume|purge)"
    r"|taskqueue\.(Update|Delete|Pause|Purge)Queue)"
)
"""Methods of Cloud Tasks and of the SDK that change a queue."""
IN_PROCESS: Final = "this process"
"""The name of a client that calls without a server, or that is not known."""


class ProjectLog(logging.LoggerAdapter[logging.Logger]):
    """Logs what happens in a project, with its name: a server has many."""

    def __init__(self, name: str, emulator: Emulator) -> None:
        super().__init__(logging.getLogger(name))
        self._project = emulator.project

    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, Any]:
        """Return what is logged."""
        return (f"project {self._project}: {msg}" if self._project else msg), kwargs


_Kind = tuple[Interface, str, str]
"""What requests have in common: interface, method and queue."""


class ActivityLog:
    """The latest actions and failures, which a reset of the server does not delete; and clients.

    Requests that fail in the same way are one failure. Another begins more than a minute after the
    last of them, if a request of the same kind succeeded meanwhile.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._log = ProjectLog("pullqueue.activity", emulator)
        self._actions: deque[Action] = deque(maxlen=_KEPT)
        self._failures: deque[Failure] = deque(maxlen=_KEPT)
        self._numbers = count(1)
        self._current: dict[_Kind, dict[tuple[int, str], Failure]] = {}
        """Failures that may go on, by their kind, status and the pattern of the reason."""
        self._interrupted: dict[_Kind, set[tuple[int, str]]] = {}
        """Those of them after which requests of their kind succeeded."""
        self._changes: deque[tuple[int, str, EventKind, int]] = deque(maxlen=_KEPT)
        """When operators did what to tasks of which queue, and to how many."""
        self._workers: dict[str, Worker] = {}
        """By name, in the order of their last calls."""
        self._lock = threading.Lock()

    def record(
        self, text: str, origin: Origin | None = None, *, begun: Action | None = None
    ) -> Action:
        """Record and log an action of a caller; default: the current one.

        The text of one that has begun before is replaced; its time stays.
        """
        origin, text = origin or current_origin(), shorten(text, limit=_TEXT_CHARACTERS)
        if begun is None:
            time = self._emulator.clock.now().isoformat()
            begun = Action(time, text, origin.interface, origin.client)
            with self._lock:
                self._actions.append(begun)
        begun.text = text
        self._log.info("%s (%s)", text, origin.who)
        return begun

    def count(self, request: Request, origin: Origin, *, times: int = 1) -> None:
        """Count a request that has ended, or several: as a failure, and for its client."""
        change = _QUEUE_CHANGE.fullmatch(request.method)
        if change and not is_failure(request.status):
            text = " ".join((request.body.text or "").split())
            is_empty = text in ("", "{}")
            options = "" if is_empty else f": {shorten(text, limit=_REASON_CHARACTERS)}"
            self.record(f"called {change['name']} on queue {request.queue}{options}", origin)
        with self._lock:
            self._count_failure(request, origin, times)
            if request.interface is not Interface.PUSH:
                self._count_call(request, origin)

    def _count_failure(self, request: Request, origin: Origin, times: int) -> None:
        """Add a request to the failure that goes on, or begin another; or end failures."""
        is_attempt = _ATTEMPT.fullmatch(request.method) is not None
        method = "" if is_attempt else request.method.removeprefix(_CLOUD_TASKS)
        kind = request.interface, method, request.queue
        if not is_failure(request.status):
            if kind in self._current:
                self._interrupted[kind] = {*self._current[kind]}
            return
        called = shorten(f"{request.verb} {request.path}", limit=_REASON_CHARACTERS)
        reason = request.reason if request.method else called
        key = request.status, find_pattern(reason)
        if len(self._current) == _KEPT and kind not in self._current:
            self._current.clear()
            self._interrupted.clear()
        of_kind = self._current.setdefault(kind, {})
        interrupted = self._interrupted.get(kind, set())
        found = of_kind.get(key)
        if found is None or (
            key in interrupted
            and datetime.fromisoformat(request.time) - datetime.fromisoformat(found.last) > _PAUSE
        ):
            found = Failure(request.time, request.time, 0, request.queue)
            found.number, found.status = next(self._numbers), request.status
            found.interface, found.client = request.interface, origin.client
            self._failures.append(found)
            if len(of_kind) == _KEPT_QUEUES:
                of_kind.clear()
            of_kind[key] = found
        interrupted.discard(key)
        request.failure = found.number
        found.count, found.last = found.count + times, request.time
        found.client = origin.client if found.client == origin.client else ""
        noun = "attempt" if is_attempt else "call" if method else "request"
        what = f"{counted(found.count, noun)}{f' of {method}' if method else ''}"
        what += f" on queue {request.queue}" if request.queue else ""
        result = result_text(request.status, reason)
        if found.text and not found.text.endswith(f" failed: {result}"):  # reasons differ
            result = result_text(request.status, key[1])
        found.text = f"{what} failed: {result}"

    def _count_call(self, request: Request, origin: Origin) -> None:
        name = request.caller or request.agent or origin.client or IN_PROCESS
        worker = self._workers.pop(name, None) or Worker(name)
        self._workers[name] = worker
        worker.last, worker.address = request.time, request.client
        worker.last_method = request.method or f"{request.verb} {request.path}"
        worker.calls += 1
        worker.failed += is_failure(request.status)
        if request.interface not in worker.interfaces:
            worker.interfaces.append(request.interface)
        if request.queue not in ("", *worker.queues) and len(worker.queues) < _KEPT_QUEUES:
            worker.queues.append(request.queue)
        if len(self._workers) > _KEPT_CLIENTS:
            del self._workers[next(iter(self._workers))]

    def count_tasks(self, kind: EventKind, queue: str, tasks: int) -> None:
        """Count tasks that an operator has leased or deleted, who is not a worker."""
        with self._lock:
            self._changes.append((self._emulator.clock.now_usec(), queue, kind, tasks))

    def tasks_of_operators(self, queue: str, *, last: timedelta) -> Counter[EventKind]:
        """Return how many tasks of a queue operators have changed within the last time span."""
        since_usec = self._emulator.clock.now_usec() - last // timedelta(microseconds=1)
        counts: Counter[EventKind] = Counter()
        with self._lock:
            for usec, of, kind, tasks in self._changes:
                counts[kind] += tasks if of == queue and usec > since_usec else 0
        return counts

    def actions(self) -> list[Action]:
        """Return what operators did, the first action first."""
        with self._lock:
            return list(self._actions)

    def failures(self) -> list[Failure]:
        """Return copies of the failures, in the order in which they began."""
        with self._lock:
            return [replace(each) for each in self._failures]

    def workers(self) -> dict[str, Worker]:
        """Return copies of the clients by name, the one that called last first."""
        with self._lock:
            return {name: replace(self._workers[name]) for name in reversed(self._workers)}

    def clear_clients(self) -> None:
        """Delete the clients."""
        with self._lock:
            self._workers.clear()
