"""One queue in memory: its tasks, and the records of what happened to them.

Nothing here is thread-safe or asks for the time: `MemoryStore` has the lock and the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind, EventLog
from pullqueue.engine.memory.exhaustion import ExhaustedTasks, ExhaustionSchedule
from pullqueue.engine.memory.index import TaskIndex
from pullqueue.engine.memory.names import NameIndex
from pullqueue.engine.memory.rates import LeaseCounter, RateLimiter
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import (
    LeaseRequest,
    QueueContents,
    QueueCounts,
    Retention,
    TaskFilter,
    ValidatedTask,
    fitting,
    leased_until,
)
from pullqueue.errors import NameInUseError, TaskAlreadyExistsError, TombstonedTaskError
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, Task, TaskState


class MemoryQueue:
    """The tasks of one queue."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.bytes_stored = 0
        self.exhausted = ExhaustedTasks(limits)
        self.events = EventLog(limits.events_kept)
        self.lease_rate = RateLimiter()
        self._tombstone_usec = limits.tombstone_seconds * USEC_PER_SECOND
        self._names = NameIndex(self._tombstone_usec)
        self._tasks = TaskIndex()
        self._schedule = ExhaustionSchedule()
        self._leased = LeaseCounter()

    def __len__(self) -> int:
        return len(self._tasks)

    # -- time ------------------------------------------------------------------------------------

    def catch_up(self, now_usec: int) -> None:
        """Apply everything that was due by now: exhaustion, and the expiry of tombstones."""
        while (end_usec := self._schedule.next_usec()) is not None and end_usec <= now_usec:
            self._exhaust([self.get(name) for name in self._schedule.due(end_usec)], end_usec)
        self._names.expire(now_usec)

    def next_change_usec(self, now_usec: int) -> int | None:
        """Return the next time at which something changes by itself, or None."""
        times = (self._tasks.next_eta_usec(now_usec), self._schedule.next_usec())
        return min((usec for usec in times if usec is not None), default=None)

    def last_lease_end_usec(self, now_usec: int) -> int | None:
        """Return the end of the current lease that ends last, or None."""
        return self._tasks.last_lease_end_usec(now_usec)

    # -- operations ------------------------------------------------------------------------------

    def prepare(
        self, new_tasks: Iterable[ValidatedTask], source: NameSource, first: int, now_usec: int
    ) -> tuple[list[Task], dict[str, type[NameInUseError]]]:
        """Make tasks, numbered from `first` on, and store nothing.

        Tasks whose names are in use are left out; their names are the second result.
        """
        refused: dict[str, type[NameInUseError]] = {}
        accepted: list[ValidatedTask] = []
        for new in new_tasks:
            entry = None if new.name is None else self._names.get(new.name)
            if entry is None or new.name is None:
                accepted.append(new)
            else:
                is_tombstone = isinstance(entry, int)
                refused[new.name] = TombstonedTaskError if is_tombstone else TaskAlreadyExistsError
        used = {new.name for new in accepted}
        tasks: list[Task] = []
        for sequence, new in enumerate(accepted, first):
            name = new.name or self._generated(source, used)
            size = new.size if new.name else new.size + len(name)
            eta_usec = now_usec if new.eta_usec is None else new.eta_usec
            tasks.append(
                Task(eta_usec, sequence, name, self.name, new.payload, new.tag, 0, now_usec, size)
            )
        return tasks, refused

    def insert(self, tasks: Sequence[Task], retention: Retention, now_usec: int) -> None:
        """Store prepared tasks."""
        self._tasks.add(tasks)
        self._names.put(tasks)
        self.bytes_stored += sum(task.stored_bytes for task in tasks)
        self.events.record(EventKind.ADDED, now_usec, tasks)
        self._schedule.schedule(tasks, retention)

    def lease(self, request: LeaseRequest, now_usec: int) -> list[Task]:
        """Lease the first due tasks and return them in the order they had."""
        due = self._due(request, now_usec)
        if request.retention.leases == 0:
            self._exhaust(sorted(due, key=lambda task: task.sequence), now_usec)
            return []
        due = fitting(due, request.payload_bytes)
        if not due:
            return []
        until_usec = now_usec + request.lease_usec
        leased = leased_until(until_usec, due)
        self._tasks.move(due, leased)
        self._names.put(leased)
        self._leased.add(now_usec, len(leased))
        self.events.record(EventKind.LEASED, now_usec, leased, until_usec)
        self._schedule.schedule(leased, request.retention)
        return leased

    def modify_lease(
        self,
        name: str,
        expected_eta_usec: int | None,
        lease_usec: int,
        retention: Retention,
        now_usec: int,
    ) -> Task:
        """Change the end of the current lease of a task; see `TaskStore.modify_lease`."""
        task = self._leased_task(name, expected_eta_usec, now_usec)
        changed = task._replace(eta_usec=now_usec + lease_usec)
        self._tasks.move([task], [changed])
        self._names.put([changed])
        if lease_usec:
            self.events.record(EventKind.EXTENDED, now_usec, [changed], changed.eta_usec)
        else:
            self.events.record(EventKind.RELEASED, now_usec, [changed])
        self._schedule.schedule([changed], retention)
        return changed

    def delete(self, names: Iterable[str], now_usec: int) -> list[DeleteResult]:
        """Delete tasks by name; one result for each."""
        results: list[DeleteResult] = []
        deleted: dict[str, Task] = {}
        for name in names:
            entry = self._names.get(name)
            if entry is None:
                results.append(DeleteResult.UNKNOWN)
            elif isinstance(entry, int) or name in deleted:
                results.append(DeleteResult.TOMBSTONED)
            else:
                deleted[name] = entry
                results.append(DeleteResult.DELETED)
        self._remove(list(deleted.values()), EventKind.DELETED, now_usec)
        return results

    def acknowledge(self, name: str, expected_eta_usec: int, now_usec: int) -> None:
        """Delete a task that is leased; see `TaskStore.acknowledge`."""
        task = self._leased_task(name, expected_eta_usec, now_usec)
        self._remove([task], EventKind.DELETED, now_usec)

    def purge(self, now_usec: int) -> int:
        """Delete every task."""
        purged = list(self._tasks)
        self._remove(purged, EventKind.PURGED, now_usec)
        self.exhausted.drop_payloads()
        return len(purged)

    def free_names(self, names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all (None)."""
        self._names.free(names)

    def change_retention(self, retention: Retention, now_usec: int) -> None:
        """Apply another retention to all tasks, and to the names of those deleted from now on."""
        tombstone_usec = retention.tombstone_usec
        self._names.tombstone_usec = (
            self._tombstone_usec if tombstone_usec is None else tombstone_usec
        )
        self._schedule = ExhaustionSchedule()
        self._schedule.schedule(self._tasks, retention)
        self.catch_up(now_usec)

    # -- questions -------------------------------------------------------------------------------

    def get(self, name: str) -> Task:
        """Return one task; see `TaskStore.get`."""
        entry = self._names.get(name)
        if entry is None:
            raise task_errors.unknown_task(self.name, name)
        if isinstance(entry, int):
            raise task_errors.tombstoned_task(self.name, name)
        return entry

    def list_tasks(self, task_filter: TaskFilter, limit: int, now_usec: int) -> list[Task]:
        """Return the first tasks that match the filter."""
        return list(islice(self._tasks.matching(task_filter, now_usec), limit))

    def counts(self, now_usec: int) -> QueueCounts:
        """Return the numbers of the queue."""
        first = self._tasks.first()
        return QueueCounts(
            tasks=len(self._tasks),
            leased=self._tasks.count_leased(now_usec),
            scheduled=self._tasks.count_scheduled(now_usec),
            exhausted=len(self.exhausted),
            oldest_eta_usec=first.eta_usec if first else None,
            leased_last_minute=self._leased.count(now_usec, 60),
            leased_last_hour=self._leased.count(now_usec, 3600),
            bytes_stored=self.bytes_stored,
        )

    # -- snapshots -------------------------------------------------------------------------------

    def export(self) -> QueueContents:
        """Return everything but the events."""
        return QueueContents(
            tasks=list(self._tasks),
            exhausted=list(self.exhausted),
            tombstones=self._names.tombstones(),
            leased=self._leased.seconds(),
        )

    def restore(self, contents: QueueContents) -> None:
        """Store what `export` returned; the queue is new and empty."""
        self._names.restore(contents.tombstones)
        self._names.put(contents.tasks)
        self._tasks.add(contents.tasks)
        self.bytes_stored = sum(task.stored_bytes for task in contents.tasks)
        self.exhausted.extend(contents.exhausted)
        self._leased.restore(contents.leased)

    # -- parts -----------------------------------------------------------------------------------

    def _leased_task(self, name: str, expected_eta_usec: int | None, now_usec: int) -> Task:
        """Return a task whose current lease ends at `expected_eta_usec`, or at any time (None)."""
        task = self.get(name)
        is_leased = task.state_at(now_usec) is TaskState.LEASED
        if not is_leased or expected_eta_usec not in (None, task.eta_usec):
            raise task_errors.lease_lost(task, now_usec)
        return task

    def _generated(self, source: NameSource, used: set[str | None]) -> str:
        """Return a name that is not in use, and add it to those `used` in the batch."""
        name = source()
        while name in self._names or name in used:
            name = source()
        used.add(name)
        return name

    def _due(self, request: LeaseRequest, now_usec: int) -> list[Task]:
        if request.group_by_tag:
            return self._tasks.due_by_tag(now_usec, request.max_tasks, request.tag)
        return self._tasks.due(now_usec, request.max_tasks)

    def _remove(self, tasks: Sequence[Task], kind: EventKind, now_usec: int) -> None:
        if not tasks:
            return
        names = tuple(task.name for task in tasks)
        self._tasks.remove(tasks)
        self._schedule.cancel(names)
        self._names.tombstone(names, now_usec)
        self.bytes_stored -= sum(task.stored_bytes for task in tasks)
        self.events.record(kind, now_usec, tasks)

    def _exhaust(self, tasks: Sequence[Task], end_usec: int) -> None:
        self._remove(tasks, EventKind.EXHAUSTED, end_usec)
        self.exhausted.extend(tasks)
