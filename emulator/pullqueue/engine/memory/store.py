"""The default store of an emulator: in memory, lost with the process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pullqueue.clock import Clock
from pullqueue.engine import task_errors
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.memory.queue import MemoryQueue
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import (
    Insertion,
    Lease,
    LeaseRequest,
    QueueContents,
    QueueCounts,
    QueueRecord,
    Retention,
    TaskFilter,
    TaskStore,
    ValidatedTask,
)
from pullqueue.errors import StoreFullError, is_expected_error
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, Task

__tracebackhide__ = is_expected_error


class MemoryStore(TaskStore):
    """Keeps the tasks of all queues in memory, one operation at a time."""

    def __init__(self, *, clock: Clock, limits: Limits, names: NameSource) -> None:
        self._clock = clock
        self._limits = limits
        self._names = names
        self._lock = threading.RLock()
        self._queues: dict[str, MemoryQueue] = {}
        self._records: dict[str, QueueRecord] = {}
        self._next_sequence = 1

    def now_usec(self) -> int:
        """Return the clock's time."""
        return self._clock.now_usec()

    def insert(
        self,
        queue_name: str,
        new_tasks: Sequence[ValidatedTask],
        *,
        created: bool,
        retention: Retention,
        storage_limit_bytes: int | None,
    ) -> Insertion:
        """Store tasks; see `TaskStore.insert`."""
        with self._lock:
            record = self._records.get(queue_name, QueueRecord())
            if record.deleted_usec is not None or (created and record.settings is None):
                raise task_errors.deleted_queue(queue_name)
            now_usec, queue = self._now(queue_name)
            tasks, refused = queue.prepare(new_tasks, self._names, self._next_sequence, now_usec)
            if tasks:
                self._check_storage(tasks, storage_limit_bytes)
                self._check_count(len(tasks))
                queue.insert(tasks, retention, now_usec)
                self._next_sequence += len(tasks)
            return Insertion(tasks, refused)

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks; see `TaskStore.lease`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            if not queue.lease_rate.permit(now_usec, request.calls_per_second):
                return Lease([], rate_limited=True)
            return Lease(queue.lease(request, now_usec))

    def modify_lease(
        self,
        queue_name: str,
        task_name: str,
        *,
        expected_eta_usec: int | None,
        lease_usec: int,
        retention: Retention,
    ) -> Task:
        """Change the end of a lease; see `TaskStore.modify_lease`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.modify_lease(task_name, expected_eta_usec, lease_usec, retention, now_usec)

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name; see `TaskStore.delete`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.delete(task_names, now_usec)

    def acknowledge(self, queue_name: str, task_name: str, *, expected_eta_usec: int) -> None:
        """Delete a task that is leased; see `TaskStore.acknowledge`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            queue.acknowledge(task_name, expected_eta_usec, now_usec)

    def purge(self, queue_name: str) -> int:
        """Delete every task of a queue; see `TaskStore.purge`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            self._change_record(queue_name, purged_usec=now_usec)
            return queue.purge(now_usec)

    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all (None)."""
        with self._lock:
            self._now(queue_name)[1].free_names(task_names)

    def get(self, queue_name: str, task_name: str) -> Task:
        """Return one task; see `TaskStore.get`."""
        with self._lock:
            return self._now(queue_name)[1].get(task_name)

    def list_tasks(self, queue_name: str, task_filter: TaskFilter, *, limit: int) -> list[Task]:
        """Return the first tasks that match the filter."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.list_tasks(task_filter, limit, now_usec)

    def counts(self, queue_name: str) -> QueueCounts:
        """Return the numbers of a queue."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.counts(now_usec)

    def exhausted(self, queue_name: str) -> list[Task]:
        """Return the tasks that used up their leases, oldest first."""
        with self._lock:
            return list(self._now(queue_name)[1].exhausted)

    def remove_exhausted(self, queue_name: str, task_names: Iterable[str]) -> int:
        """Delete the records of exhausted tasks by name."""
        with self._lock:
            return self._now(queue_name)[1].exhausted.remove(set(task_names))

    def events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Return what happened, oldest first."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.events.read(now_usec, task_name)

    def count_events(self, queue_name: str, *, last_usec: int) -> Counter[EventKind]:
        """Return how many events of each kind there were recently."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.events.count_since(now_usec - last_usec)

    def next_change_usec(self, queue_name: str) -> int | None:
        """Return the next time at which something changes by itself, or None."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.next_change_usec(now_usec)

    def last_lease_end_usec(self, queue_name: str) -> int | None:
        """Return the end of the current lease that ends last, or None."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.last_lease_end_usec(now_usec)

    def bytes_stored(self) -> int:
        """Return the size of all tasks of all queues together."""
        with self._lock:
            self._catch_up()
            return sum(queue.bytes_stored for queue in self._queues.values())

    def change_retention(self, queue_name: str, retention: Retention) -> None:
        """Apply another retention to the tasks of a queue."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            queue.change_retention(retention, now_usec)

    def queue_records(self) -> dict[str, QueueRecord]:
        """Return the records of all queues that have any."""
        with self._lock:
            return dict(self._records)

    def change_queue_record(
        self, queue_name: str, *, paused: bool | None = None, settings: str | None = None
    ) -> None:
        """Change the record of a queue; None leaves a part of it as it is."""
        changes = {"paused": paused, "settings": settings}
        with self._lock:
            self._change_record(
                queue_name, **{key: value for key, value in changes.items() if value is not None}
            )

    def drop_queue_record(self, queue_name: str) -> None:
        """Delete the record of a queue."""
        with self._lock:
            self._records.pop(queue_name, None)

    def delete_queue(self, queue_name: str) -> None:
        """Delete everything of a queue, and record the time."""
        with self._lock:
            self._queues.pop(queue_name, None)
            self._records[queue_name] = QueueRecord(deleted_usec=self.now_usec())

    def clear(self) -> None:
        """Delete everything."""
        with self._lock:
            self._queues.clear()
            self._records.clear()
            self._next_sequence = 1

    def export(self) -> dict[str, QueueContents]:
        """Return the contents of every queue that has any."""
        with self._lock:
            exported = {
                name: self._now(name)[1].export()._replace(record=self._records.get(name))
                for name in [*self._queues, *self._records]
            }
            return {name: contents for name, contents in exported.items() if any(contents)}

    def restore(
        self, contents: Mapping[str, QueueContents], *, retentions: Mapping[str, Retention]
    ) -> None:
        """Replace all contents; see `TaskStore.restore`."""
        with self._lock:
            self._queues.clear()
            self._records = {
                name: restored.record
                for name, restored in contents.items()
                if restored.record is not None
            }
            for name, restored in contents.items():
                queue = self._queues[name] = MemoryQueue(name, self._limits)
                queue.restore(restored)
                queue.change_retention(retentions.get(name, Retention()), self.now_usec())
            used = (task.sequence for restored in contents.values() for task in restored.tasks)
            self._next_sequence = max(used, default=0) + 1

    def _change_record(self, queue_name: str, **changes: Any) -> None:  # noqa: ANN401 - fields
        record = self._records.get(queue_name, QueueRecord())
        self._records[queue_name] = record._replace(**changes)

    def _now(self, queue_name: str) -> tuple[int, MemoryQueue]:
        """Return the time, and the queue as it is by then."""
        queue = self._queues.get(queue_name)
        if queue is None:
            queue = self._queues[queue_name] = MemoryQueue(queue_name, self._limits)
        now_usec = self._clock.now_usec()
        queue.catch_up(now_usec)
        return now_usec, queue

    def _catch_up(self) -> None:
        """Delete what is exhausted by now, in all queues."""
        now_usec = self._clock.now_usec()
        for queue in self._queues.values():
            queue.catch_up(now_usec)

    def _check_count(self, added: int) -> None:
        limit = self._limits.tasks_in_memory
        if limit is None:
            return
        stored = sum(map(len, self._queues.values()))
        if stored + added > limit:
            self._catch_up()
            stored = sum(map(len, self._queues.values()))
        if stored + added > limit:
            raise StoreFullError(
                f"{stored} tasks are stored, and adding {added} would exceed the limit of {limit}: "
                "delete tasks first, or raise it (`pullqueue serve --max-tasks`)"
            )

    def _check_storage(self, tasks: Sequence[Task], limit_bytes: int | None) -> None:
        if limit_bytes is None:
            return
        needed = self.bytes_stored() + sum(task.stored_bytes for task in tasks)
        if needed > limit_bytes:
            raise task_errors.over_quota(len(tasks), needed, limit_bytes)
