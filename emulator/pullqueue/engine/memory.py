"""The store of an emulator unless it is given another: in memory, gone with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from pullqueue.clock import Clock
from pullqueue.engine import refusals
from pullqueue.engine.events import Event
from pullqueue.engine.fields import Fields, weight_of
from pullqueue.engine.memory_queue import MemoryQueue
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import (
    Draft,
    Insertion,
    Lease,
    LeaseRequest,
    QueueContents,
    QueueCounts,
    RetryLimit,
    TaskFilter,
    TaskStore,
)
from pullqueue.errors import StoreFullError, is_refusal
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, Task, make_tasks

__tracebackhide__ = is_refusal


class MemoryStore(TaskStore):
    """Keeps the tasks of all queues in memory, one operation at a time."""

    def __init__(self, *, clock: Clock, limits: Limits, names: NameSource) -> None:
        self._clock = clock
        self._limits = limits
        self._names = names
        self._lock = threading.RLock()
        self._queues: dict[str, MemoryQueue] = {}
        self._next_sequence = 1

    def now_usec(self) -> int:
        """Give the clock's time."""
        return self._clock.now_usec()

    def insert(
        self, queue_name: str, drafts: Sequence[Draft], *, storage_limit_bytes: int | None
    ) -> Insertion:
        """Store tasks; see `TaskStore.insert`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            tasks, refused = queue.prepare(drafts, self._names, self._next_sequence, now_usec)
            if not tasks:
                return Insertion([], refused)
            if storage_limit_bytes is not None:
                self._check_storage(tasks, storage_limit_bytes)
            if self._limits.tasks_in_memory is not None:
                self._check_count(len(tasks), self._limits.tasks_in_memory)
            queue.insert(tasks, now_usec)
            self._next_sequence += len(tasks)
            return Insertion(make_tasks(tasks), refused)

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks; see `TaskStore.lease`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            if not queue.call_rate.admit(now_usec, request.calls_per_second):
                return Lease([], rate_limited=True)
            return Lease(queue.lease(request, now_usec))

    def modify_lease(
        self,
        queue_name: str,
        task_name: str,
        *,
        held_eta_usec: int | None,
        lease_usec: int,
        retry_limit: RetryLimit,
    ) -> Task:
        """Give a lease another end; see `TaskStore.modify_lease`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.modify_lease(task_name, held_eta_usec, lease_usec, retry_limit, now_usec)

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name; see `TaskStore.delete`."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.delete(task_names, now_usec)

    def purge(self, queue_name: str) -> int:
        """Delete every task of a queue."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.purge(now_usec)

    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all (None)."""
        with self._lock:
            self._now(queue_name)[1].free_names(task_names)

    def get(self, queue_name: str, task_name: str) -> Task:
        """Give one task; see `TaskStore.get`."""
        with self._lock:
            return self._now(queue_name)[1].get(task_name)

    def list_tasks(self, queue_name: str, task_filter: TaskFilter, *, limit: int) -> list[Task]:
        """Give the first tasks that pass the filter."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.list_tasks(task_filter, limit, now_usec)

    def counts(self, queue_name: str) -> QueueCounts:
        """Give the numbers of a queue."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.counts(now_usec)

    def exhausted(self, queue_name: str) -> list[Task]:
        """Give the tasks that used up their leases, oldest first."""
        with self._lock:
            return list(self._now(queue_name)[1].exhausted)

    def events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Give what happened, oldest first."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.events.read(now_usec, task_name)

    def next_change_usec(self, queue_name: str) -> int | None:
        """Give the next moment at which something changes by itself, or None."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.next_change_usec(now_usec)

    def last_lease_end_usec(self, queue_name: str) -> int | None:
        """Give the end of the longest lease now held, or None."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            return queue.last_lease_end_usec(now_usec)

    def bytes_stored(self) -> int:
        """Give what all tasks of all queues weigh together."""
        with self._lock:
            self._catch_up()
            return sum(queue.bytes_stored for queue in self._queues.values())

    def change_retry_limit(self, queue_name: str, retry_limit: RetryLimit) -> None:
        """Hold the leases now current to another limit."""
        with self._lock:
            now_usec, queue = self._now(queue_name)
            queue.change_retry_limit(retry_limit, now_usec)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._queues.clear()
            self._next_sequence = 1

    def export(self) -> dict[str, QueueContents]:
        """Give the contents of every queue that has any."""
        with self._lock:
            contents = {name: self._now(name)[1].export() for name in list(self._queues)}
            return {name: held for name, held in contents.items() if any(held)}

    def restore(
        self, contents: Mapping[str, QueueContents], *, retry_limits: Mapping[str, RetryLimit]
    ) -> None:
        """Keep other contents; see `TaskStore.restore`."""
        with self._lock:
            self._queues.clear()
            for name, held in contents.items():
                queue = self._queues[name] = MemoryQueue(name, self._limits)
                queue.restore(held)
                queue.change_retry_limit(retry_limits.get(name, RetryLimit()), self.now_usec())
            known = (task.sequence for held in contents.values() for task in held.tasks)
            self._next_sequence = max(known, default=0) + 1

    def _now(self, queue_name: str) -> tuple[int, MemoryQueue]:
        """Give the time, and the queue as it is by then."""
        queue = self._queues.get(queue_name)
        if queue is None:
            queue = self._queues[queue_name] = MemoryQueue(queue_name, self._limits)
        now_usec = self._clock.now_usec()
        queue.catch_up(now_usec)
        return now_usec, queue

    def _catch_up(self) -> None:
        """Let go what is exhausted by now, in all queues."""
        now_usec = self._clock.now_usec()
        for queue in self._queues.values():
            queue.catch_up(now_usec)

    def _check_count(self, added: int, limit: int) -> None:
        held = sum(map(len, self._queues.values()))
        if held + added > limit:
            self._catch_up()
            held = sum(map(len, self._queues.values()))
        if held + added > limit:
            raise StoreFullError(
                f"{held} tasks are stored, and adding {added} would pass the limit of {limit}: "
                "delete tasks first, or raise it (`pullqueue serve --max-tasks`)"
            )

    def _check_storage(self, tasks: Sequence[Fields], limit_bytes: int) -> None:
        needed = self.bytes_stored() + weight_of(tasks)
        if needed > limit_bytes:
            raise refusals.over_quota(len(tasks), needed, limit_bytes)
