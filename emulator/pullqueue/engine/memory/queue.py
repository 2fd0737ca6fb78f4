"""One queue in memory: its tasks, and the records of what happened to them.

Nothing here is thread-safe or asks for the time: `MemoryStore` has the lock and the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind, EventLog, Origin
from pullqueue.engine.interceptors import current_origin
from pullqueue.engine.memory.exhaustion import ExhaustedTasks, ExhaustionSchedule
from pullqueue.engine.memory.index import TaskIndex
from pullqueue.engine.memory.name_index import NameIndex
from pullqueue.engine.memory.rates import LeaseCounter, RateLimiter
from pullqueue.engine.retention import Retention
from pullqueue.engine.store import NameSource, QueueContents, QueueStatistics
from pullqueue.limits import Limits
from pullqueue.tasks import (
    AttemptResult,
    NameInUseError,
    NewTask,
    Task,
    TaskAlreadyExistsError,
    TaskState,
    TombstonedTaskError,
)

_COUNTED = (TaskState.SCHEDULED, TaskState.RUNNING, TaskState.RETRYING)


class MemoryQueue:
    """The tasks of one queue, by name and in order, with everything that depends on them."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.bytes_stored = 0
        self.exhausted = ExhaustedTasks(limits)
        self.events = EventLog(limits.events_kept)
        self.lease_rate = RateLimiter()
        self.leased = LeaseCounter()
        self.schedule = ExhaustionSchedule()
        self.tasks = TaskIndex()
        self._tombstone_usec = limits.tombstone_seconds * USEC_PER_SECOND
        self.names = NameIndex(self._tombstone_usec)

    def __len__(self) -> int:
        return len(self.tasks)

    def catch_up(self, now_usec: int) -> None:
        """Apply everything that was due by now: exhaustion, and the expiry of tombstones."""
        while (end_usec := self.schedule.next_usec()) is not None and end_usec <= now_usec:
            self.exhaust([self.get(name) for name in self.schedule.due(end_usec)], end_usec)
        self.names.expire(now_usec)

    def get(self, name: str) -> Task:
        """Return one task; raise like `TaskStore.get`."""
        entry = self.names.get(name)
        if entry is None:
            raise task_errors.unknown_task(self.name, name)
        if isinstance(entry, int):
            raise task_errors.tombstoned_task(self.name, name)
        return entry

    def get_leased(self, name: str, expected_eta_usec: int | None, now_usec: int) -> Task:
        """Return a task whose current lease ends at `expected_eta_usec`, or at any time (None)."""
        task = self.get(name)
        is_leased = task.eta_usec > now_usec and task.retry_count > 0
        if not is_leased or expected_eta_usec not in (None, task.eta_usec):
            raise task_errors.lease_lost(task, now_usec)
        return task

    def get_attempted(self, name: str, expected_eta_usec: int) -> Task:
        """Return a task with an eta, of whose attempt that is the end or the start."""
        task = self.get(name)
        if task.eta_usec != expected_eta_usec:
            raise task_errors.attempt_lost(task, expected_eta_usec)
        return task

    def prepare(
        self, new_tasks: Iterable[NewTask], source: NameSource, first: int, now_usec: int
    ) -> tuple[list[Task], dict[str, type[NameInUseError]]]:
        """Make tasks, numbered from `first` on, and store nothing.

        Tasks whose names are in use are left out; their names are the second result.
        """
        refused: dict[str, type[NameInUseError]] = {}
        accepted: list[NewTask] = []
        for new in new_tasks:
            if new.name is None or (entry := self.names.get(new.name)) is None:
                accepted.append(new)
            else:
                is_tombstone = isinstance(entry, int)
                refused[new.name] = TombstonedTaskError if is_tombstone else TaskAlreadyExistsError
        used = {new.name for new in accepted}
        tasks: list[Task] = []
        for sequence, new in enumerate(accepted, first):
            name = new.name or source()
            while new.name is None and (name in used or self.names.get(name) is not None):
                name = source()
            used.add(name)
            tasks.append(new.stored(name, self.name, sequence, now_usec))
        return tasks, refused

    def insert(
        self, tasks: Sequence[Task], given: Iterable[str], retention: Retention, now_usec: int
    ) -> None:
        """Store prepared tasks; `given` are the names that were not generated."""
        self.tasks.add(tasks)
        self.names.put(tasks, given)
        self.bytes_stored += sum(task.stored_bytes for task in tasks)
        self.events.record(EventKind.ADDED, now_usec, tasks, origin=current_origin())
        self.schedule.schedule(tasks, retention)

    def replace(self, old: Sequence[Task], new: Sequence[Task]) -> None:
        """Replace tasks, in their order, by the same tasks after a lease or an attempt."""
        self.tasks.move(old, new)
        self.names.put(new)

    def remove(
        self,
        tasks: Sequence[Task],
        kind: EventKind,
        now_usec: int,
        result: AttemptResult | None = None,
        *,
        origin: Origin | None = None,
    ) -> None:
        """Remove tasks, record why, and reserve their names."""
        if not tasks:
            return
        names = tuple(task.name for task in tasks)
        self.tasks.remove(tasks)
        self.schedule.cancel(names)
        self.names.tombstone(names, now_usec)
        self.bytes_stored -= sum(task.stored_bytes for task in tasks)
        self.events.record(kind, now_usec, tasks, result=result, origin=origin)

    def exhaust(self, tasks: Sequence[Task], end_usec: int) -> None:
        """Move tasks to the exhausted ones."""
        self.remove(tasks, EventKind.EXHAUSTED, end_usec)
        self.exhausted.extend(tasks)

    def change_retention(self, retention: Retention, now_usec: int) -> None:
        """Apply another retention to all tasks, and to the names of those deleted from now on."""
        own_usec = retention.tombstone_usec
        self.names.tombstone_usec = self._tombstone_usec if own_usec is None else own_usec
        self.schedule = ExhaustionSchedule()
        self.schedule.schedule(self.tasks, retention)
        self.catch_up(now_usec)

    def collect_statistics(self, now_usec: int) -> QueueStatistics:
        """Return the statistics of the queue."""
        first = self.tasks.first()
        count = self.tasks.count_future
        future = count(now_usec)
        scheduled, running, retrying = (count(now_usec, state) for state in _COUNTED)
        return QueueStatistics(
            tasks=len(self.tasks),
            available=len(self.tasks) - future,
            leased=future - scheduled - running - retrying,
            scheduled=scheduled,
            running=running,
            retrying=retrying,
            exhausted=len(self.exhausted),
            oldest_eta_usec=first.eta_usec if first else None,
            leased_last_minute=self.leased.count(now_usec, 60),
            leased_last_hour=self.leased.count(now_usec, 3600),
            bytes_stored=self.bytes_stored,
        )

    def export(self) -> QueueContents:
        """Return everything but the events."""
        return QueueContents(
            tasks=list(self.tasks),
            exhausted=list(self.exhausted),
            tombstones=self.names.tombstones(),
            leased=self.leased.seconds(),
        )

    def restore(self, contents: QueueContents) -> None:
        """Store what `export` returned; the queue is new and empty."""
        self.names.restore(contents.tombstones)
        self.names.put(contents.tasks, [task.name for task in contents.tasks])
        self.tasks.add(task for task in contents.tasks if task.request is None)
        self.tasks.add(task for task in contents.tasks if task.request is not None)
        self.bytes_stored = sum(task.stored_bytes for task in contents.tasks)
        self.exhausted.extend(contents.exhausted)
        self.leased.restore(contents.leased)
