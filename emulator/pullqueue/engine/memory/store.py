"""The default store of an emulator: in memory, lost with the process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from pullqueue.clock import Clock
from pullqueue.config.model import QueueSettings
from pullqueue.engine import store, task_errors
from pullqueue.engine.events import (
    ClientLeases,
    Event,
    EventKind,
    Flow,
    collect_events,
    find_last_leases,
)
from pullqueue.engine.interceptors import current_origin
from pullqueue.engine.memory.queue import MemoryQueue
from pullqueue.engine.retention import Retention
from pullqueue.errors import StoreFullError, is_expected_error
from pullqueue.limits import Limits
from pullqueue.tasks import (
    AttemptRecord,
    AttemptResult,
    DeleteResult,
    NewTask,
    Task,
    fitting,
    leased_until,
)

__tracebackhide__ = is_expected_error


class MemoryStore(store.TaskStore):
    """Keeps the tasks of all queues in memory, one operation at a time."""

    def __init__(self, *, clock: Clock, limits: Limits, names: store.NameSource) -> None:
        self._clock = clock
        self._limits = limits
        self._names = names
        self._lock = threading.RLock()
        self._queues: dict[str, MemoryQueue] = {}
        self._records: dict[str, store.QueueRecord] = {}
        self._next_sequence = 1

    def now_usec(self) -> int:
        return self._clock.now_usec()

    # -- operations ------------------------------------------------------------------------------

    def insert(self, target: store.Target, new_tasks: Sequence[NewTask]) -> store.Insertion:
        with self._lock:
            record = self._records.get(target.queue, store.QueueRecord())
            if record.deleted_usec is not None or (target.is_runtime and record.settings is None):
                raise task_errors.deleted_queue(target.queue)
            queue, now_usec = self._now(target.queue)
            tasks, refused = queue.prepare(new_tasks, self._names, self._next_sequence, now_usec)
            if tasks:
                self._check_storage(tasks, target.storage_limit_bytes)
                self._check_count(len(tasks))
                given = filter(None, (new.name for new in new_tasks))
                queue.insert(tasks, given, target.retention, now_usec)
                self._next_sequence += len(tasks)
            return store.Insertion(tasks, refused)

    def lease(self, queue_name: str, request: store.LeaseRequest) -> store.Lease:
        with self._lock:
            queue, now_usec = self._now(queue_name)
            if not queue.lease_rate.permit(now_usec, self._limits.leases_per_second):
                return store.Lease([], rate_limited=True)
            if request.group_by_tag:
                due = queue.tasks.due_by_tag(now_usec, request.max_tasks, request.tag)
            else:
                due = queue.tasks.due(now_usec, request.max_tasks)
            if request.retention.leases == 0:
                queue.exhaust(sorted(due, key=lambda task: task.sequence), now_usec)
                return store.Lease([])
            due = fitting(due, request.payload_bytes)
            if not due:
                return store.Lease([])
            until_usec = now_usec + request.lease_usec
            leased = leased_until(until_usec, due)
            queue.replace(due, leased)
            queue.schedule.schedule(leased, request.retention)
            queue.leased.add(now_usec, len(leased))
            queue.events.record(
                EventKind.LEASED, now_usec, leased, until_usec, origin=current_origin()
            )
            return store.Lease(leased)

    def modify_lease(self, queue_name: str, task_name: str, change: store.LeaseChange) -> Task:
        with self._lock:
            queue, now_usec = self._now(queue_name)
            task = queue.get_leased(task_name, change.expected_eta_usec, now_usec)
            changed = task._replace(eta_usec=now_usec + change.lease_usec)
            queue.replace([task], [changed])
            queue.schedule.schedule([changed], change.retention)
            kind = EventKind.EXTENDED if change.lease_usec else EventKind.RELEASED
            until_usec = changed.eta_usec if change.lease_usec else None
            queue.events.record(kind, now_usec, [changed], until_usec, origin=current_origin())
            return changed

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        results: list[DeleteResult] = []
        deleted: dict[str, Task] = {}
        with self._lock:
            queue, now_usec = self._now(queue_name)
            for name in task_names:
                entry = queue.names.get(name)
                if entry is None:
                    results.append(DeleteResult.UNKNOWN)
                elif isinstance(entry, int) or name in deleted:
                    results.append(DeleteResult.TOMBSTONED)
                else:
                    deleted[name] = entry
                    results.append(DeleteResult.DELETED)
            kind = EventKind.DELETED
            queue.remove(list(deleted.values()), kind, now_usec, origin=current_origin())
        return results

    def acknowledge(self, queue_name: str, task_name: str, *, expected_eta_usec: int) -> None:
        with self._lock:
            queue, now_usec = self._now(queue_name)
            task = queue.get_leased(task_name, expected_eta_usec, now_usec)
            queue.remove([task], EventKind.DELETED, now_usec, origin=current_origin())

    def start_attempt(
        self, task: Task, *, lease_usec: int, attempts: AttemptRecord, counted: int
    ) -> Task:
        with self._lock:
            queue, now_usec = self._now(task.queue_name)
            task = queue.get_attempted(task.name, task.eta_usec)
            started = task._replace(
                eta_usec=now_usec + lease_usec,
                retry_count=task.retry_count + (counted or 1),
                attempts=attempts,
            )
            queue.replace([task], [started])
            queue.leased.add(now_usec, 0 if counted else 1)
            kind, end_usec, origin = EventKind.ATTEMPT_STARTED, started.eta_usec, current_origin()
            queue.events.record(kind, now_usec, [started], end_usec, origin=origin, counted=counted)
            return started

    def renew_attempt(self, task: Task, *, lease_usec: int) -> Task:
        with self._lock:
            queue, now_usec = self._now(task.queue_name)
            task = queue.get_attempted(task.name, task.eta_usec)
            renewed = task._replace(eta_usec=now_usec + lease_usec)
            queue.replace([task], [renewed])
            return renewed

    def finish_attempt(
        self, task: Task, *, attempts: AttemptRecord, backoff_usec: int | None, counted: int
    ) -> Task:
        kind, result, origin = EventKind.ATTEMPT_FAILED, attempts.result, current_origin()
        with self._lock:
            queue, now_usec = self._now(task.queue_name)
            task = queue.get_attempted(task.name, task.eta_usec)
            ended = task._replace(attempts=attempts)
            if attempts.succeeded:
                kind = EventKind.ATTEMPT_SUCCEEDED
                queue.remove([task], kind, now_usec, result, origin=origin)
                return ended
            until_usec = None
            if backoff_usec is not None:
                until_usec = now_usec + backoff_usec
                ended = ended._replace(eta_usec=until_usec)
                queue.replace([task], [ended])
            queue.events.record(
                kind, now_usec, [ended], until_usec, result=result, origin=origin, counted=counted
            )
            if backoff_usec is None:
                queue.remove([task], EventKind.EXHAUSTED, now_usec, origin=origin)
                queue.exhausted.extend([ended])
            return ended

    def count_failed(self, queue_name: str, counts: Counter[int], result: AttemptResult) -> None:
        with self._locked(queue_name) as (queue, _):
            queue.events.count_failed(counts, result)

    def purge(self, queue_name: str) -> int:
        with self._locked(queue_name) as (queue, now_usec):
            self._change_record(queue_name, purged_usec=now_usec)
            purged = list(queue.tasks)
            queue.remove(purged, EventKind.PURGED, now_usec, origin=current_origin())
            queue.exhausted.drop_payloads()
            return len(purged)

    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        with self._locked(queue_name) as (queue, _):
            queue.names.free(task_names)

    def remove_exhausted(self, queue_name: str, task_names: Iterable[str]) -> int:
        with self._locked(queue_name) as (queue, _):
            return queue.exhausted.remove(set(task_names))

    def change_retention(self, queue_name: str, retention: Retention) -> None:
        with self._locked(queue_name) as (queue, now_usec):
            queue.change_retention(retention, now_usec)

    # -- questions -------------------------------------------------------------------------------

    def get(self, queue_name: str, task_name: str) -> Task:
        with self._locked(queue_name) as (queue, _):
            return queue.get(task_name)

    def list_tasks(
        self, queue_name: str, task_filter: store.TaskFilter, *, limit: int
    ) -> list[Task]:
        with self._locked(queue_name) as (queue, now_usec):
            return list(islice(queue.tasks.matching(task_filter, now_usec), limit))

    def count_tags(self, queue_name: str, *, limit: int) -> dict[str, int]:
        with self._locked(queue_name) as (queue, _):
            return queue.tasks.count_tags(limit)

    def collect_statistics(self, queue_name: str) -> store.QueueStatistics:
        with self._locked(queue_name) as (queue, now_usec):
            return queue.collect_statistics(now_usec)

    def list_exhausted(self, queue_name: str) -> list[Task]:
        with self._locked(queue_name) as (queue, _):
            return list(queue.exhausted)

    def list_events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        with self._locked(queue_name) as (queue, now_usec):
            return collect_events(queue.events.operations, now_usec, task_name)

    def find_last_leases(self, queue_name: str, task_names: Collection[str]) -> dict[str, Event]:
        with self._locked(queue_name) as (queue, _):
            return find_last_leases(reversed(queue.events.operations), task_names)

    def count_leases(self, queue_name: str) -> dict[str, ClientLeases]:
        with self._locked(queue_name) as (queue, now_usec):
            etas = {task.name: task.eta_usec for task in queue.tasks if task.retry_count}
            return queue.events.count_leases(etas, now_usec)

    def count_events(self, queue_name: str, *, last_usec: int) -> Counter[EventKind]:
        with self._locked(queue_name) as (queue, now_usec):
            return queue.events.count_since(now_usec - last_usec)

    def count_failures(self, queue_name: str, *, last_usec: int) -> Counter[AttemptResult]:
        with self._locked(queue_name) as (queue, now_usec):
            return queue.events.count_failures(now_usec - last_usec)

    def count_flow(self, queue_name: str, *, since_usec: int) -> Flow:
        with self._locked(queue_name) as (queue, _):
            return queue.events.count_flow(since_usec)

    def next_change_usec(self, queue_name: str) -> int | None:
        with self._locked(queue_name) as (queue, now_usec):
            times = (queue.tasks.next_eta_usec(now_usec), queue.schedule.next_usec())
            return min((usec for usec in times if usec is not None), default=None)

    def last_lease_end_usec(self, queue_name: str) -> int | None:
        with self._locked(queue_name) as (queue, now_usec):
            return queue.tasks.last_lease_end_usec(now_usec)

    def count_tasks(self) -> dict[str, int]:
        with self._lock:
            self._catch_up()
            return {name: len(queue) for name, queue in self._queues.items() if len(queue)}

    def count_bytes(self) -> int:
        with self._lock:
            self._catch_up()
            return sum(queue.bytes_stored for queue in self._queues.values())

    # -- records and whole stores ----------------------------------------------------------------

    def read_queue_records(self) -> dict[str, store.QueueRecord]:
        with self._lock:
            return dict(self._records)

    def change_queue_record(
        self, queue_name: str, *, paused: bool | None = None, settings: QueueSettings | None = None
    ) -> None:
        changes = {"paused": paused, "settings": settings}
        given = {key: value for key, value in changes.items() if value is not None}
        with self._lock:
            self._change_record(queue_name, **given)

    def create_queue(self, queue_name: str, *, settings: QueueSettings, reserved_usec: int) -> bool:
        with self._lock:
            record = self._records.get(queue_name, store.QueueRecord())
            deleted_usec = record.deleted_usec
            if record.settings is not None or (
                deleted_usec is not None and deleted_usec + reserved_usec > self.now_usec()
            ):
                return False
            self._records[queue_name] = store.QueueRecord(settings=settings)
            return True

    def drop_queue_record(self, queue_name: str) -> None:
        with self._lock:
            del self._records[queue_name]

    def delete_queue(self, queue_name: str) -> None:
        with self._lock:
            self._queues.pop(queue_name, None)
            self._records[queue_name] = store.QueueRecord(deleted_usec=self.now_usec())

    def check(self) -> None:
        with self._lock:
            self._check_count(1)

    def clear(self) -> None:
        with self._lock:
            self._queues.clear()
            self._records.clear()
            self._next_sequence = 1

    def export(self) -> dict[str, store.QueueContents]:
        with self._lock:
            exported = {}
            for name in [*self._queues, *self._records]:
                with self._locked(name) as (queue, _):
                    exported[name] = queue.export()._replace(record=self._records.get(name))
            return {name: contents for name, contents in exported.items() if any(contents)}

    def restore(
        self, contents: Mapping[str, store.QueueContents], *, retentions: Mapping[str, Retention]
    ) -> None:
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

    # -- parts -----------------------------------------------------------------------------------

    def _change_record(self, queue_name: str, **changes: Any) -> None:  # noqa: ANN401 - fields
        record = self._records.get(queue_name, store.QueueRecord())
        self._records[queue_name] = record._replace(**changes)

    def _now(self, queue_name: str) -> tuple[MemoryQueue, int]:
        """Return the queue as it is now, and the time."""
        queue = self._queues.get(queue_name)
        if queue is None:
            queue = self._queues[queue_name] = MemoryQueue(queue_name, self._limits)
        now_usec = self._clock.now_usec()
        queue.catch_up(now_usec)
        return queue, now_usec

    @contextmanager
    def _locked(self, queue_name: str) -> Iterator[tuple[MemoryQueue, int]]:
        """Lock the store and yield what `_now` returns; an add would take 4 us more."""
        with self._lock:
            yield self._now(queue_name)

    def _catch_up(self) -> None:
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
        needed = self.count_bytes() + sum(task.stored_bytes for task in tasks)
        if needed > limit_bytes:
            raise task_errors.over_quota(len(tasks), needed, limit_bytes)
