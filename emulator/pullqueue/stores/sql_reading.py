"""What a store in SQL answers: the questions that are the same in every database.

Their statements are in `shared.sql`, or in `sqlite.sql` and `postgres.sql` under the same names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.engine import store, task_errors
from pullqueue.engine.events import (
    MINUTE_USEC,
    ClientLeases,
    Event,
    EventKind,
    Flow,
    Operation,
    collect_events,
    count_leases,
    find_last_leases,
)
from pullqueue.limits import Limits
from pullqueue.stores.rows import (
    decode_kind,
    decode_lease_step,
    decode_operation,
    decode_record,
    decode_tag,
    encode_tag,
    is_storable,
)
from pullqueue.stores.session import Keys, Session
from pullqueue.tasks import AttemptResult, Task, TaskState

HOUR_SECONDS = 3600
_MINUTE_SECONDS = 60
_FIRST, _LAST = -(2**63), 2**63 - 1

S = TypeVar("S", bound=Session)


class SqlReader(store.TaskStore, Generic[S]):
    """The part of a store in a database that reads, with sessions of the database's own kind."""

    def __init__(
        self, keys: Keys, *, clock: Clock, limits: Limits, names: store.NameSource
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._limits = limits
        self._names = names
        self._tombstone_usec = limits.tombstone_seconds * USEC_PER_SECOND
        self._touched: Counter[str] = Counter()
        self._is_closed = False

    # -- what each database does in its own way --------------------------------------------------

    @abstractmethod
    def _reading(self, *, unlimited: bool = False) -> AbstractContextManager[S]:
        """Return a session for reading, in which no task is past the end of its last lease.

        With `unlimited` it may take any time.
        """

    @abstractmethod
    def _catch_up(self, session: S) -> None:
        """Delete the tasks that are past the end of their last lease."""

    @abstractmethod
    def _totals(self, session: S, queue_name: str | None = None) -> Mapping[str, tuple[int, int]]:
        """Return how many tasks each queue has, and their size; only those of one are needed."""

    # -- questions -------------------------------------------------------------------------------

    def get(self, queue_name: str, task_name: str) -> Task:
        with self._reading() as session:
            return self._get(session, queue_name, task_name)

    def _get(self, session: S, queue_name: str, task_name: str) -> Task:
        row = None
        if is_storable(task_name):
            row = session.row("get", queue=queue_name, name=task_name, now_usec=session.now_usec)
        if row is None:
            raise task_errors.unknown_task(queue_name, task_name)
        if row[0] is None:
            raise task_errors.tombstoned_task(queue_name, task_name)
        return self._keys.decode_task(row)

    def list_tasks(
        self, queue_name: str, task_filter: store.TaskFilter, *, limit: int
    ) -> list[Task]:
        state, tag = task_filter.state, task_filter.tag
        with self._reading() as session:
            is_due = state is TaskState.AVAILABLE
            waiting = None if state is None or is_due else state.value
            after_usec, after_sequence = task_filter.after or (_FIRST, _FIRST)
            rows = session.rows(
                "list" if tag is None else "list_by_tag",
                queue=queue_name,
                **({} if tag is None else {"tag": encode_tag(tag)}),
                first_usec=_FIRST if waiting is None else session.now_usec + 1,
                last_usec=session.now_usec if is_due else _LAST,
                state=waiting,
                after_usec=after_usec,
                after_sequence=after_sequence,
                rows=limit,
            )
        return list(map(self._keys.decode_task, rows))

    def count_tags(self, queue_name: str, *, limit: int) -> dict[str, int]:
        with self._reading() as session:
            rows = session.rows("count_tags", queue=queue_name, rows=limit)
        return {decode_tag(tag) or "": count for tag, count in rows}

    def collect_statistics(self, queue_name: str) -> store.QueueStatistics:
        queue = {"queue": queue_name}
        with self._reading() as session, session.snapshot():
            tasks, stored_bytes = self._totals(session, queue_name).get(queue_name, (0, 0))
            ((future, *waiting),) = session.rows("future", **queue, now_usec=session.now_usec)
            scheduled, leased, running, retrying = map(int, waiting)
            first = session.row("first_eta", **queue)
            second = session.now_usec // USEC_PER_SECOND
            since = {"minute": second - _MINUTE_SECONDS, "hour": second - HOUR_SECONDS}
            exhausted = session.row("count_exhausted", **queue) or (0,)
            minute, hour = session.row("leased_since", **queue, **since) or (0, 0)
        return store.QueueStatistics(
            tasks=tasks,
            available=tasks - future,
            leased=leased,
            scheduled=scheduled,
            running=running,
            retrying=retrying,
            exhausted=exhausted[0],
            oldest_eta_usec=None if first is None else first[0],
            leased_last_minute=int(minute),
            leased_last_hour=int(hour),
            bytes_stored=stored_bytes,
        )

    def list_exhausted(self, queue_name: str) -> list[Task]:
        with self._reading() as session:
            rows = session.rows("exhausted", queue=queue_name)
            return list(map(self._keys.decode_task, rows))

    def list_events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        with self._reading() as session:
            operations = list(map(decode_operation, session.rows("events", queue=queue_name)))
            now_usec = session.now_usec
        return collect_events(_latest(operations, self._limits.events_kept), now_usec, task_name)

    def list_last_attempts(self, queue_name: str, *, limit: int) -> list[Operation]:
        with self._reading() as session:
            rows = session.rows("last_attempts", queue=queue_name, rows=limit)
        return [decode_operation(row) for row in reversed(rows)]

    def find_last_leases(self, queue_name: str, task_names: Collection[str]) -> dict[str, Event]:
        with self._reading() as session:
            rows = session.rows("leases", queue=queue_name)
            return find_last_leases(map(decode_operation, rows), task_names)

    def count_leases(self, queue_name: str) -> dict[str, ClientLeases]:
        with self._reading() as session, session.snapshot():
            # A task that was not released has the eta at which its lease ends, or has ended.
            rows = session.rows("etas_of_leases", queue=queue_name)
            etas: dict[str, int] = {}
            for eta_usec, names in rows:
                etas |= dict.fromkeys(names.split(","), int(eta_usec))
            steps = session.rows("lease_steps", queue=queue_name)
            return count_leases(map(decode_lease_step, steps), etas, session.now_usec)

    def count_events(self, queue_name: str, *, last_usec: int) -> Counter[EventKind]:
        with self._reading() as session:
            since_usec = session.now_usec - last_usec
            rows = session.rows("count_events", queue=queue_name, since_usec=since_usec)
        return Counter({decode_kind(row): int(row[1]) for row in rows})

    def count_failures(self, queue_name: str, *, last_usec: int) -> Counter[AttemptResult]:
        with self._reading() as session:
            since_usec = session.now_usec - last_usec
            rows = session.rows("count_failures", queue=queue_name, since_usec=since_usec)
        return Counter({AttemptResult(*row[:3]): int(row[3]) for row in rows})

    def count_flow(self, queue_name: str, *, since_usec: int) -> Flow:
        first_usec = since_usec // MINUTE_USEC * MINUTE_USEC
        with self._reading() as session:
            rows = session.rows(
                "flow", queue=queue_name, first_usec=first_usec, minute_usec=MINUTE_USEC
            )
        flow: defaultdict[int, Counter[EventKind]] = defaultdict(Counter)
        for kind, minute, count in rows:
            flow[int(minute) * MINUTE_USEC][decode_kind([kind])] += int(count)
        return dict(sorted(flow.items()))

    def next_change_usec(self, queue_name: str) -> int | None:
        with self._reading() as session:
            eta = session.row("next_eta", queue=queue_name, now_usec=session.now_usec)
            end = session.row("next_end", queue=queue_name)
        return min((row[0] for row in (eta, end) if row and row[0] is not None), default=None)

    def last_lease_end_usec(self, queue_name: str) -> int | None:
        with self._reading() as session:
            row = session.row("last_lease_end", queue=queue_name, now_usec=session.now_usec)
        return None if row is None else int(row[0])

    def count_tasks(self) -> dict[str, int]:
        with self._reading() as session:
            totals = self._totals(session)
        return {queue_name: tasks for queue_name, (tasks, _) in totals.items() if tasks}

    def count_bytes(self) -> int:
        with self._reading() as session:
            return self._all_bytes(session)

    def _all_bytes(self, session: S) -> int:
        return sum(stored_bytes for _, stored_bytes in self._totals(session).values())

    # -- everything ------------------------------------------------------------------------------

    def _queue_records(self, session: S) -> dict[str, store.QueueRecord]:
        rows = session.rows("queue_records")
        return {self._keys.name(key): decode_record(row) for key, *row in rows}

    def export(self) -> dict[str, store.QueueContents]:
        contents: defaultdict[str, store.QueueContents] = defaultdict(
            lambda: store.QueueContents([], [], {}, [])
        )
        with self._reading(unlimited=True) as session, session.snapshot():
            now_usec, name = session.now_usec, self._keys.name
            for task in map(self._keys.decode_task, session.rows("all_tasks")):
                contents[task.queue_name].tasks.append(task)
            for task in map(self._keys.decode_task, session.rows("all_exhausted")):
                contents[task.queue_name].exhausted.append(task)
            for key, task_name, free_usec in session.rows("all_tombstones", now_usec=now_usec):
                contents[name(key)].tombstones[task_name] = free_usec
            since = now_usec // USEC_PER_SECOND - HOUR_SECONDS
            for key, second, tasks in session.rows("all_leased", second=since):
                contents[name(key)].leased.append((second, int(tasks)))
            for queue_name, record in self._queue_records(session).items():
                contents[queue_name] = contents[queue_name]._replace(record=record)
        return dict(contents)


def _latest(operations: Sequence[Operation], kept: int) -> Sequence[Operation]:
    """Return the latest operations that have no more than `kept` events; one always stays."""
    events = 0
    for position in range(len(operations) - 1, -1, -1):
        events += len(operations[position].names)
        if events > kept:
            return operations[position + 1 :] or operations[position:]
    return operations
