"""One queue in memory: its tasks, and the records of what became of them.

Nothing here is safe under threads or knows the time: `MemoryStore` holds the lock and the clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import cast

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import refusals
from pullqueue.engine.events import EventKind, EventLog
from pullqueue.engine.fields import (
    ETA_USEC,
    RETRY_COUNT,
    Fields,
    fitting,
    names_of,
    weight_of,
)
from pullqueue.engine.last_leases import LastLeases
from pullqueue.engine.names import NameSource
from pullqueue.engine.orders import TaskOrders
from pullqueue.engine.rates import CallRate, LeaseCounter
from pullqueue.engine.store import (
    DRAFT_NAME,
    Draft,
    LeaseRequest,
    QueueContents,
    QueueCounts,
    RetryLimit,
    TaskFilter,
)
from pullqueue.engine.taken_names import TakenNames
from pullqueue.errors import (
    NameTakenError,
    TaskAlreadyExistsError,
    TombstonedTaskError,
)
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, Task, TaskState, make_task, make_tasks


class MemoryQueue:
    """The tasks of one queue."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.bytes_stored = 0
        self.exhausted: deque[Task] = deque(maxlen=limits.exhausted_kept)
        self.events = EventLog(limits.events_kept)
        self.call_rate = CallRate()
        self._names = TakenNames(limits.tombstone_seconds * USEC_PER_SECOND)
        self._orders = TaskOrders()
        self._last_leases = LastLeases()
        self._leased = LeaseCounter()

    def __len__(self) -> int:
        return len(self._orders)

    # -- time ------------------------------------------------------------------------------------

    def catch_up(self, now_usec: int) -> None:
        """Let everything happen that was due by now: exhaustion, and the end of tombstones."""
        while (end_usec := self._last_leases.first_usec()) is not None and end_usec <= now_usec:
            held = self._names.held(self._last_leases.names_at(end_usec))
            self._exhaust(cast("list[Fields]", list(held.values())), end_usec)
        self._names.expire(now_usec)

    def next_change_usec(self, now_usec: int) -> int | None:
        """Give the next moment at which something changes by itself, or None."""
        moments = (self._orders.next_eta_usec(now_usec), self._last_leases.first_usec())
        return min((moment for moment in moments if moment is not None), default=None)

    def last_lease_end_usec(self, now_usec: int) -> int | None:
        """Give the end of the longest lease now held, or None."""
        return self._orders.last_lease_end_usec(now_usec)

    # -- operations ------------------------------------------------------------------------------

    def prepare(
        self, drafts: Sequence[Draft], source: NameSource, first: int, now_usec: int
    ) -> tuple[list[Fields], dict[str, type[NameTakenError]]]:
        """Make tasks of drafts, numbered from `first` on, and store nothing.

        Drafts whose names are taken are left out; also gives those names.
        """
        given = [draft[DRAFT_NAME] for draft in drafts]
        refused = self._taken(given)
        if refused:
            drafts = [draft for draft in drafts if draft[DRAFT_NAME] not in refused]
            given = [draft[DRAFT_NAME] for draft in drafts]
        tasks: list[Fields] = []
        for sequence, name, (own_name, payload, tag, given_usec, size) in zip(
            count(first), self._named(given, source), drafts, strict=False
        ):
            eta_usec = now_usec if given_usec is None else given_usec
            stored = size if own_name else size + len(name)
            tasks.append((eta_usec, sequence, name, self.name, payload, tag, 0, now_usec, stored))
        return tasks, refused

    def insert(self, tasks: Sequence[Fields], now_usec: int) -> None:
        """Store prepared tasks."""
        self._orders.put(tasks)
        self._names.put(tasks)
        self.bytes_stored += weight_of(tasks)
        self.events.record(EventKind.ADDED, now_usec, tasks)

    def lease(self, request: LeaseRequest, now_usec: int) -> list[Task]:
        """Lease the first due tasks and give them in the order they stood in."""
        due = fitting(self._due(request, now_usec), request.payload_bytes)
        if not due:
            return []
        if request.retry_limit.leases == 0:
            self._exhaust(due, now_usec)
            return []
        until_usec = now_usec + request.lease_usec
        leased = [
            (until_usec, seq, name, queue, payload, tag, retries + 1, enqueued, size)
            for _, seq, name, queue, payload, tag, retries, enqueued, size in due
        ]
        self._replace(due, leased)
        self._leased.add(now_usec, len(leased))
        self.events.record(EventKind.LEASED, now_usec, leased, until_usec)
        self._last_leases.limit(leased, request.retry_limit)
        return make_tasks(leased)

    def modify_lease(
        self,
        name: str,
        held_eta_usec: int | None,
        lease_usec: int,
        retry_limit: RetryLimit,
        now_usec: int,
    ) -> Task:
        """Give the current lease of a task another end; see `TaskStore.modify_lease`."""
        task = self.get(name)
        held = task.state_at(now_usec) is TaskState.LEASED
        if not held or held_eta_usec not in (None, task.eta_usec):
            raise refusals.not_held(task, now_usec)
        changed = task._replace(eta_usec=now_usec + lease_usec)
        self._replace([task], [changed[:]])
        if lease_usec:
            self.events.record(EventKind.EXTENDED, now_usec, [changed], changed.eta_usec)
        else:
            self.events.record(EventKind.RELEASED, now_usec, [changed])
        self._last_leases.limit([changed], retry_limit)
        return changed

    def delete(self, names: Iterable[str], now_usec: int) -> list[DeleteResult]:
        """Delete tasks by name; one result for each."""
        given = list(names)
        held = self._names.held(given)
        tasks = [task for task in held.values() if isinstance(task, tuple)]
        if tasks:
            self._drop(tasks, now_usec)
            self.events.record(EventKind.DELETED, now_usec, tasks)
        if len(tasks) == len(given):
            return [DeleteResult.DELETED] * len(tasks)
        return _told_apart(given, held)

    def purge(self, now_usec: int) -> int:
        """Delete every task."""
        purged = list(self._orders)
        if purged:
            self._drop(purged, now_usec)
            self.events.record(EventKind.PURGED, now_usec, purged)
        return len(purged)

    def free_names(self, names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all (None)."""
        self._names.free(names)

    def change_retry_limit(self, retry_limit: RetryLimit, now_usec: int) -> None:
        """Hold the tasks that are here to another limit."""
        self._last_leases.clear()
        self._last_leases.limit((task for task in self._orders if task[RETRY_COUNT]), retry_limit)
        self.catch_up(now_usec)

    # -- questions -------------------------------------------------------------------------------

    def get(self, name: str) -> Task:
        """Give one task; see `TaskStore.get`."""
        held = self._names.held([name])[name]
        if held is None:
            raise refusals.unknown_task(self.name, name)
        if isinstance(held, int):
            raise refusals.deleted_task(self.name, name)
        return make_task(held)

    def list_tasks(self, task_filter: TaskFilter, limit: int, now_usec: int) -> list[Task]:
        """Give the first tasks that pass the filter."""
        return make_tasks(islice(self._orders.passing(task_filter, now_usec), limit))

    def counts(self, now_usec: int) -> QueueCounts:
        """Give the numbers of the queue."""
        first = self._orders.first()
        return QueueCounts(
            tasks=len(self._orders),
            leased=self._orders.count_leased(now_usec),
            scheduled=self._orders.count_scheduled(now_usec),
            oldest_eta_usec=first[ETA_USEC] if first else None,
            leased_last_minute=self._leased.last_minute(now_usec),
            leased_last_hour=self._leased.last_hour(now_usec),
            bytes_stored=self.bytes_stored,
        )

    # -- snapshots -------------------------------------------------------------------------------

    def export(self) -> QueueContents:
        """Give everything but the events."""
        return QueueContents(
            tasks=make_tasks(self._orders),
            exhausted=list(self.exhausted),
            tombstones=self._names.tombstones(),
            leased=self._leased.seconds(),
        )

    def restore(self, contents: QueueContents) -> None:
        """Take what `export` gave; the queue is new and empty."""
        tasks = [task[:] for task in contents.tasks]
        self._names.restore(contents.tombstones)
        self._names.put(tasks)
        self._orders.put(tasks)
        self.bytes_stored = weight_of(tasks)
        self.exhausted.extend(contents.exhausted)
        self._leased.restore(contents.leased)

    # -- parts -----------------------------------------------------------------------------------

    def _taken(self, names: Sequence[str | None]) -> dict[str, type[NameTakenError]]:
        """Give those names that are taken, and by what."""
        return {
            name: TombstonedTaskError if isinstance(held, int) else TaskAlreadyExistsError
            for name, held in self._names.taken(names).items()
        }

    def _named(self, given: Sequence[str | None], source: NameSource) -> Sequence[str]:
        """Give a name to those that have none."""
        if None not in given:
            return cast("Sequence[str]", given)
        used = set(given)
        return [name or self._made_up(source, used) for name in given]

    def _made_up(self, source: NameSource, used: set[str | None]) -> str:
        name = source()
        while name in self._names or name in used:
            name = source()
        used.add(name)
        return name

    def _due(self, request: LeaseRequest, now_usec: int) -> list[Fields]:
        if request.group_by_tag:
            return self._orders.due_by_tag(now_usec, request.max_tasks, request.tag)
        return self._orders.due(now_usec, request.max_tasks)

    def _replace(self, old: Sequence[Fields], new: Sequence[Fields]) -> None:
        self._orders.take(old)
        self._orders.put(new)
        self._names.replace(new)

    def _drop(self, tasks: Sequence[Fields], gone_usec: int) -> None:
        self._orders.take(tasks)
        names, weight = names_of(tasks), weight_of(tasks)
        self._last_leases.lift(names)
        self._names.bury(names, gone_usec, weight)
        self.bytes_stored -= weight

    def _exhaust(self, tasks: Sequence[Fields], gone_usec: int) -> None:
        self._drop(tasks, gone_usec)
        self.exhausted.extend(make_tasks(tasks))
        self.events.record(EventKind.EXHAUSTED, gone_usec, tasks)


def _told_apart(names: Sequence[str], held: dict[str, Fields | int | None]) -> list[DeleteResult]:
    """Tell of each name what became of what it stood for; a task is deleted but once."""
    results: list[DeleteResult] = []
    deleted: set[str] = set()
    for name in names:
        if held[name] is None:
            results.append(DeleteResult.UNKNOWN)
        elif isinstance(held[name], int) or name in deleted:
            results.append(DeleteResult.TOMBSTONED)
        else:
            deleted.add(name)
            results.append(DeleteResult.DELETED)
    return results
