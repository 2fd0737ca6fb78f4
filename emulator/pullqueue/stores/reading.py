"""The questions one can ask an SQL store; they are the same for every database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.events import Event, Operation, events_of
from pullqueue.engine.store import QueueCounts, TaskFilter
from pullqueue.stores import statements as sql
from pullqueue.stores.base import HOUR_SECONDS, SqlBase
from pullqueue.stores.rows import (
    TASK_COLUMNS,
    encode_tag,
    entry_of,
    tasks_of,
)
from pullqueue.tasks import Task, TaskState

_MINUTE_SECONDS = 60


class SqlReader(SqlBase):
    """The part of an SQL store that changes nothing but what time has changed already."""

    def get(self, queue_name: str, task_name: str) -> Task:
        """Give one task; see `TaskStore.get`."""
        with self._settled() as session:
            return self._get(session, queue_name, task_name)

    def list_tasks(self, queue_name: str, task_filter: TaskFilter, *, limit: int) -> list[Task]:
        """Give the first tasks that pass the filter."""
        with self._settled() as session:
            statement, parameters = _listing(task_filter)
            parameters |= {"queue": queue_name, "now_usec": session.now_usec, "rows": limit}
            return tasks_of(session.rows(statement, parameters))

    def counts(self, queue_name: str) -> QueueCounts:
        """Give the numbers of a queue."""
        with self._settled() as session, session.transaction():
            self._as_of_one_moment(session)
            tasks, stored_bytes = self._held(session, queue_name)
            moment = {"queue": queue_name, "now_usec": session.now_usec}
            ahead, leased = session.row(sql.AHEAD, moment) or (0, 0)
            first = session.row(sql.FIRST_ETA, {"queue": queue_name})
            second = session.now_usec // USEC_PER_SECOND
            since = {"minute": second - _MINUTE_SECONDS, "hour": second - HOUR_SECONDS}
            minute, hour = session.row(sql.LEASED, {"queue": queue_name, **since}) or (0, 0)
        return QueueCounts(
            tasks=tasks,
            leased=leased,
            scheduled=ahead - leased,
            oldest_eta_usec=None if first is None else first[0],
            leased_last_minute=int(minute),
            leased_last_hour=int(hour),
            bytes_stored=stored_bytes,
        )

    def exhausted(self, queue_name: str) -> list[Task]:
        """Give the tasks that used up their leases, oldest first."""
        with self._settled() as session:
            return tasks_of(session.rows(sql.EXHAUSTED, {"queue": queue_name}))

    def events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Give what happened, oldest first."""
        with self._settled() as session:
            entries = [entry_of(row) for row in session.rows(sql.EVENTS, {"queue": queue_name})]
            now_usec = session.now_usec
        return events_of(_latest(entries, self._limits.events_kept), now_usec, task_name)

    def next_change_usec(self, queue_name: str) -> int | None:
        """Give the next moment at which something changes by itself, or None."""
        with self._settled() as session:
            moment = {"queue": queue_name, "now_usec": session.now_usec}
            found = [session.row(sql.NEXT_ETA, moment), session.row(sql.NEXT_END, moment)]
        return min((row[0] for row in found if row and row[0] is not None), default=None)

    def last_lease_end_usec(self, queue_name: str) -> int | None:
        """Give the end of the longest lease now held, or None."""
        with self._settled() as session:
            moment = {"queue": queue_name, "now_usec": session.now_usec}
            row = session.row(sql.LAST_LEASE_END, moment)
        return None if row is None else int(row[0])

    def bytes_stored(self) -> int:
        """Give what all tasks of all queues weigh together."""
        with self._settled() as session:
            return self._held(session, None)[1]


_STATES = {
    TaskState.AVAILABLE: "eta_usec <= :now_usec",
    TaskState.LEASED: "eta_usec > :now_usec AND retry_count > 0",
    TaskState.SCHEDULED: "eta_usec > :now_usec AND retry_count = 0",
}


def _listing(task_filter: TaskFilter) -> tuple[str, dict[str, Any]]:
    """Give the statement of a filter, and the parameters it has of its own."""
    conditions = ["queue = :queue", "eta_usec IS NOT NULL"]
    parameters: dict[str, Any] = {}
    if task_filter.state is not None:
        conditions.append(_STATES[task_filter.state])
    if task_filter.tag is not None:
        conditions.append("tag = :tag")
        parameters["tag"] = encode_tag(task_filter.tag)
    if task_filter.after is not None:
        conditions.append("(eta_usec, sequence) > (:after_usec, :after_sequence)")
        parameters["after_usec"], parameters["after_sequence"] = task_filter.after
    where = " AND ".join(conditions)
    order = "ORDER BY eta_usec, sequence LIMIT :rows"
    return f"SELECT {TASK_COLUMNS} FROM tasks WHERE {where} {order}", parameters


def _latest(entries: Sequence[Operation], kept: int) -> Sequence[Operation]:
    """Give the latest entries that tell of no more than `kept` tasks; one always stays."""
    told_of = 0
    for position in range(len(entries) - 1, -1, -1):
        told_of += len(entries[position].names)
        if told_of > kept:
            return entries[position + 1 :] or entries[position:]
    return entries
