"""What happened to tasks: a bounded record, read by tests, assertions and the console."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.tasks import AttemptResult, Task


class EventKind(StrEnum):
    """What happened to a task."""

    ADDED = "added"
    LEASED = "leased"
    EXTENDED = "extended"
    """The end of its lease was changed."""
    RELEASED = "released"
    """Its holder released it."""
    LEASE_EXPIRED = "lease expired"
    DELETED = "deleted"
    PURGED = "purged"
    EXHAUSTED = "exhausted"
    """Its last permitted lease or attempt ended, or it became too old."""
    ATTEMPT_STARTED = "attempt started"
    ATTEMPT_SUCCEEDED = "attempt succeeded"
    """The task is done and deleted."""
    ATTEMPT_FAILED = "attempt failed"
    ATTEMPT_INTERRUPTED = "attempt interrupted"
    """Its result is not known: the server stopped, or its lease ended, before the next attempt."""


class Interface(StrEnum):
    """How a call reached the queues."""

    REST = "REST"
    CLOUD_TASKS_REST = "Cloud Tasks REST"
    CLOUD_TASKS_GRPC = "Cloud Tasks gRPC"
    SDK = "SDK"
    PYTHON = "Python"
    CONTROL = "control"
    CONSOLE = "console"
    PUSH = "push"
    """An attempt to send a push task."""


class Origin(NamedTuple):
    """Which call an operation was part of. Stores keep it and do not look into it."""

    interface: Interface = Interface.PYTHON
    client: str = ""
    """The e-mail address of its credentials, or what the client calls itself; empty: unknown."""
    request: int | None = None
    """Its number in the request log of a server."""
    server: str = ""
    """Which server that is."""

    @property
    def who(self) -> str:
        """The interface, and the client if it is known."""
        return ", ".join(filter(None, [self.interface, self.client]))


class Event(NamedTuple):
    """One event in the history of one task."""

    usec: int
    """When, in microseconds since the epoch."""
    kind: EventKind
    task_name: str
    retry_count: int
    """How many times the task had been leased, or its attempts started, by then, this event
    included."""
    until_usec: int | None = None
    """When the lease ends, of a task that was leased or extended; when an attempt that has started
    ends at the latest; when a task is tried again whose attempt has failed."""
    result: AttemptResult | None = None
    """How an attempt that has ended did."""
    origin: Origin | None = None
    """The call that it was part of; None: time has passed, or it is not known."""
    attempts: int = 1
    """Of how many attempts, of which `retry_count` is the last, it is the start or end: more than 1
    where they were only counted, since nothing listened while a manual clock passed time."""

    @property
    def status(self) -> int | None:
        """The status of an attempt that has ended; 0: there was no response."""
        return None if self.result is None else self.result.status

    @property
    def time(self) -> datetime:
        """When, as an aware datetime (UTC)."""
        return from_usec(self.usec)

    @property
    def until(self) -> datetime | None:
        """`until_usec` as an aware datetime (UTC)."""
        return None if self.until_usec is None else from_usec(self.until_usec)


class ClientLeases(NamedTuple):
    """How many tasks of a queue are in the hands of a client, which leased or renewed them last."""

    leased: int = 0
    """Tasks whose leases have not ended."""
    expired: int = 0
    """Tasks that are available since its lease has expired."""
    first_usec: int | None = None
    """When it leased or renewed the first of those that it has leased; None: not known."""
    until_usec: int | None = None
    """When the last of these leases ends; None: not known."""
    expired_usec: int | None = None
    """When the last of its leases has expired, of those that are counted; None: none has."""


class Operation(NamedTuple):
    """One operation on some tasks, as stores record it."""

    usec: int
    kind: EventKind
    names: tuple[str, ...]
    retry_counts: tuple[int, ...]
    until_usec: int | None = None
    result: AttemptResult | None = None
    origin: Origin | None = None
    size: int = 0
    """Number of events that a log in memory counts with it; 0: `count_failed` counts them."""


Flow: TypeAlias = Mapping[int, Mapping[EventKind, int]]
"""How many events of each kind there were in some minutes, by the start of each in microseconds."""

LEASE_KINDS = (EventKind.LEASED, EventKind.EXTENDED, EventKind.RELEASED)
"""What can happen to a lease; that it expires is not recorded."""
LeaseStep: TypeAlias = tuple[int, EventKind, Iterable[str], Origin | None]
"""What happened to leases in one operation: time in microseconds, kind, names of tasks, origin."""

_name = attrgetter("name")
_retry_count = attrgetter("retry_count")
_usec = attrgetter("usec")

MINUTE_USEC = 60 * USEC_PER_SECOND
_FLOW_MINUTES = 24 * 60
"""How many minutes with events are counted at least; those of recorded operations always are."""
_OLD_KEPT = 10_000
"""How many events are kept, if older ones are among them: what a busy queue fills of the memory is
that of a minute, in which what has happened is counted."""


class EventLog:
    """The latest events of one queue in memory; each operation is one entry."""

    def __init__(self, kept: int) -> None:
        """Keep the latest `kept` events, and the latest 10,000 if some are older than a minute.

        The latest operation is always kept whole.
        """
        self._kept = kept
        self._old_kept = min(kept, _OLD_KEPT)
        self.operations: deque[Operation] = deque()
        """What is recorded, in order of time."""
        self._count = 0
        self._flow: defaultdict[int, Counter[EventKind]] = defaultdict(Counter)

    def record(
        self,
        kind: EventKind,
        usec: int,
        tasks: Sequence[Task],
        until_usec: int | None = None,
        *,
        result: AttemptResult | None = None,
        origin: Origin | None = None,
        counted: int = 0,
    ) -> None:
        """Record that one operation did `kind` to `tasks`.

        Attempts that are `counted` are in the histories only: `count_failed` counts them.
        """
        # Names only, so that payloads are not kept alive.
        names = tuple(map(_name, tasks))
        retry_counts = tuple(map(_retry_count, tasks))
        size = 0 if counted else len(names)
        fields = (usec, kind, names, retry_counts, until_usec, result, origin, size)
        # `Operation(...)` would take 0.2 us more, in each operation on tasks.
        self.operations.append(tuple.__new__(Operation, fields))
        self._count += len(names)
        if not counted:
            self._flow[usec // MINUTE_USEC * MINUTE_USEC][kind] += size
        recent_usec = usec - MINUTE_USEC
        while (
            self._count > self._old_kept
            and len(self.operations) > 1
            and (self._count > self._kept or self.operations[0].usec < recent_usec)
        ):
            self._count -= len(self.operations.popleft().names)
        if len(self._flow) > _FLOW_MINUTES:
            first = next(iter(self._flow))
            if first + MINUTE_USEC <= self.operations[0].usec:
                del self._flow[first]

    def count_failed(self, counts: Counter[int], result: AttemptResult) -> None:
        """Count attempts that have failed, by their times: they are in the history of no task."""
        for usec, size in counts.items():
            for kind in (EventKind.ATTEMPT_STARTED, EventKind.ATTEMPT_FAILED):
                operation = Operation(usec, kind, (), (), result=result, size=size)
                insort(self.operations, operation, key=_usec)
                self._flow[usec // MINUTE_USEC * MINUTE_USEC][kind] += size

    def count_leases(self, etas: dict[str, int], now_usec: int) -> dict[str, ClientLeases]:
        """Count by client the tasks of some etas, by name; those that are found are removed."""
        steps = (
            (each.usec, each.kind, each.names, each.origin)
            for each in reversed(self.operations)
            if each.kind in LEASE_KINDS
        )
        return count_leases(steps, etas, now_usec)

    def count_since(self, usec: int) -> Counter[EventKind]:
        """Return how many events of each kind there were after a time."""
        counts: Counter[EventKind] = Counter()
        for operation in self._walk_since(usec):
            counts[operation.kind] += operation.size
        return counts

    def count_failures(self, usec: int) -> Counter[AttemptResult]:
        """Return how many attempts failed after a time, by their results."""
        counts: Counter[AttemptResult] = Counter()
        for operation in self._walk_since(usec):
            if operation.kind is EventKind.ATTEMPT_FAILED and operation.result is not None:
                counts[operation.result] += operation.size
        return counts

    def _walk_since(self, usec: int) -> Iterator[Operation]:
        for each in reversed(self.operations):
            if each.usec <= usec:
                return
            if each.size:
                yield each

    def count_flow(self, since_usec: int) -> Flow:
        """Return the events since a time, in the minutes in which there were any, in order."""
        first = since_usec // MINUTE_USEC * MINUTE_USEC
        found = sorted(self._flow.items())
        # `counts.copy()` would take ten times as long as that of a dict.
        return {minute: dict.copy(counts) for minute, counts in found if minute >= first}


def collect_events(
    operations: Iterable[Operation], now_usec: int, task_name: str | None = None
) -> list[Event]:
    """Return the events of operations until now, of all tasks or of one, oldest first.

    A lease that expires is not recorded: it follows from the end of the lease. Neither is an
    attempt that was interrupted: it follows from the start of the next one.
    """
    events: list[Event] = []
    retry_counts: dict[str, int] = {}
    attempts: dict[str, Event] = {}
    leases: dict[str, Event] = {}
    for event in _recorded(operations, task_name):
        lease = leases.pop(event.task_name, None)
        if lease is not None:
            events += _find_expiry(lease, event.usec)
        attempt, happened = attempts.pop(event.task_name, None), event
        if event.kind is EventKind.ATTEMPT_STARTED:
            if attempt is not None:
                kind = EventKind.ATTEMPT_INTERRUPTED
                events.append(Event(event.usec, kind, attempt.task_name, attempt.retry_count))
            number = event.retry_count - retry_counts.get(event.task_name, event.retry_count - 1)
            attempts[event.task_name] = happened = event._replace(attempts=number)
        elif event.kind is EventKind.ATTEMPT_FAILED and attempt is not None:
            happened = event._replace(attempts=attempt.attempts)
        retry_counts[event.task_name] = event.retry_count
        events.append(happened)
        if event.kind in (EventKind.LEASED, EventKind.EXTENDED):
            leases[event.task_name] = event
    for lease in leases.values():
        events += _find_expiry(lease, now_usec)
    events.sort(key=lambda event: event.usec)
    return events


def find_last_leases(
    latest_first: Iterable[Operation], task_names: Collection[str]
) -> dict[str, Event]:
    """Return the latest lease or renewal of some tasks among operations, which are latest first.

    The operations after the one that is found last are not read.
    """
    found: dict[str, Event] = {}
    missing = set(task_names)
    for operation in latest_first:
        if not missing:
            break
        is_lease = operation.kind in (EventKind.LEASED, EventKind.EXTENDED)
        if is_lease and not missing.isdisjoint(operation.names):
            leases = [each for each in _recorded([operation]) if each.task_name in missing]
            found |= {each.task_name: each for each in leases}
            missing.difference_update(found)
    return found


def count_leases(
    latest_first: Iterable[LeaseStep], etas: dict[str, int], now_usec: int
) -> dict[str, ClientLeases]:
    """Count the leases of each client (empty: not known) among the tasks whose etas are passed.

    Those whose leases are recorded are removed from `etas`; one that was released is not counted.
    """
    counts: dict[str, ClientLeases] = {}
    take = etas.pop
    for usec, kind, names, origin in latest_first:
        if not etas:
            break
        found = [eta for name in names if (eta := take(name, None)) is not None]
        if not found or kind is EventKind.RELEASED:
            continue
        client = "" if origin is None else origin.client
        leased, expired, first_usec, until_usec, expired_usec = counts.get(client, ClientLeases())
        if current := [eta for eta in found if eta > now_usec]:
            first_usec = usec
            until_usec = max(*current, until_usec or current[0])
        if ended := [eta for eta in found if eta <= now_usec]:
            expired_usec = max(*ended, expired_usec or ended[0])
        leased, expired = leased + len(current), expired + len(ended)
        counts[client] = ClientLeases(leased, expired, first_usec, until_usec, expired_usec)
    return counts


def _recorded(operations: Iterable[Operation], task_name: str | None = None) -> Iterator[Event]:
    for usec, kind, names, retry_counts, until_usec, result, origin, _ in operations:
        for name, retry_count in zip(names, retry_counts, strict=True):
            if task_name is None or name == task_name:
                yield Event(usec, kind, name, retry_count, until_usec, result, origin)


def _find_expiry(lease: Event, by_usec: int) -> list[Event]:
    if lease.until_usec is None or lease.until_usec > by_usec:
        return []
    return [Event(lease.until_usec, EventKind.LEASE_EXPIRED, lease.task_name, lease.retry_count)]
