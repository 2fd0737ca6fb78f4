"""What an SQL store does with tasks: each operation is one transaction.

To give a lease another end, or to delete, is one statement, and by that a transaction. What is
recorded of it must need no other: SQLite's store keeps it in memory for a while, and PostgreSQL's
has statements of its own, which record it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind
from pullqueue.engine.store import Lease, LeaseRequest, RetryLimit, fitting
from pullqueue.errors import TaskLeaseExpiredError
from pullqueue.stores import statements as sql
from pullqueue.stores.adding import SqlAdder
from pullqueue.stores.reading import SqlReader
from pullqueue.stores.rows import Row, encode_tag, possible_name, task_of
from pullqueue.stores.session import Session
from pullqueue.stores.transfer import SqlTransfer
from pullqueue.tasks import DeleteResult, Task


class SqlStore(SqlReader, SqlAdder, SqlTransfer):
    """Keeps tasks in a database, by statements that every database understands."""

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks; see `TaskStore.lease`."""
        with self._session() as session, session.transaction():
            self._catch_up(session)
            rate = request.calls_per_second
            if rate is not None and not self._admit(session, queue_name, rate):
                return Lease([], rate_limited=True)
            return Lease(self._lease_due(session, queue_name, request))

    def modify_lease(
        self,
        queue_name: str,
        task_name: str,
        *,
        expected_eta_usec: int | None,
        lease_usec: int,
        retry_limit: RetryLimit,
    ) -> Task:
        """Give a lease another end; see `TaskStore.modify_lease`."""
        with self._session() as session:
            self._catch_up(session)
            until_usec = session.now_usec + lease_usec
            parameters = {
                "queue": queue_name,
                "name": task_name,
                "until_usec": until_usec,
                "expected_eta_usec": expected_eta_usec,
                "now_usec": session.now_usec,
                **retry_limit._asdict(),
            }
            row = session.row(sql.MODIFY, parameters) if possible_name(task_name) else None
            if row is None:
                raise self._not_held(session, queue_name, task_name)
            task = task_of(row)
            kind = EventKind.EXTENDED if lease_usec else EventKind.RELEASED
            ends = until_usec if lease_usec else None
            self._record(session, kind, queue_name, [task], until_usec=ends)
            if retry_limit.leases is not None:
                self._ends_at(until_usec)
            return task

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name; see `TaskStore.delete`."""
        names = list(task_names)
        possible = [name for name in names if possible_name(name)]
        with self._session() as session:
            self._catch_up(session)
            if len(possible) == 1:
                gone = self._bury(session, sql.DELETE_ONE, queue_name, name=possible[0])
            else:
                named = session.listed(possible)
                gone = self._bury(session, sql.DELETE, queue_name, names=named)
            self._record_gone(session, EventKind.DELETED, queue_name, gone)
            return self._delete_results(session, queue_name, names, {row[0] for row in gone})

    def purge(self, queue_name: str) -> int:
        """Delete every task of a queue."""
        with self._session() as session, session.transaction():
            self._catch_up(session)
            gone = self._bury(session, sql.PURGE, queue_name)
            session.change(sql.DROP_PAYLOADS, {"queue": queue_name, "nothing": b""})
            self._record_gone(session, EventKind.PURGED, queue_name, gone)
            return len(gone)

    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all (None)."""
        with self._settled() as session, session.transaction():
            if task_names is None:
                session.change(sql.FREE_ALL_NAMES, {"queue": queue_name})
            else:
                names = session.listed([name for name in task_names if possible_name(name)])
                session.change(sql.FREE_NAMES, {"queue": queue_name, "names": names})

    def change_retry_limit(self, queue_name: str, retry_limit: RetryLimit) -> None:
        """Hold the leases now current to another limit."""
        with self._settled() as session:
            wanted = {"queue": queue_name, **retry_limit._asdict()}
            before = session.row(sql.RETRY_LIMIT, wanted) or (None, 0)
            if tuple(before) == retry_limit:
                return
            with session.transaction():
                session.change(sql.LIMIT_LEASES, wanted)
                session.change(sql.SET_RETRY_LIMIT, wanted)
                self._ends_at(0)
                self._catch_up(session)

    # -- parts of leasing ------------------------------------------------------------------------

    def _lease_due(self, session: Session, queue_name: str, request: LeaseRequest) -> list[Task]:
        due = self._due(session, queue_name, request)
        if not due:
            return []
        if request.retry_limit.leases == 0:
            self._exhaust(session, queue_name, due, session.now_usec)
            return []
        until_usec = session.now_usec + request.lease_usec
        parameters = {"until_usec": until_usec, **request.retry_limit._asdict()}
        if len(due) == 1:
            session.change(sql.LEASE_ONE, {**parameters, "sequence": due[0].sequence})
        else:
            sequences = session.listed([task.sequence for task in due])
            session.change(sql.LEASE, {**parameters, "sequences": sequences})
        if request.retry_limit.leases is not None:
            self._ends_at(until_usec)
        leased = [
            Task(until_usec, seq, name, queue, payload, tag, retries + 1, enqueued, size)
            for _, seq, name, queue, payload, tag, retries, enqueued, size in due
        ]
        second = session.now_usec // USEC_PER_SECOND
        counted = {"queue": queue_name, "second": second, "tasks": len(leased)}
        session.change(sql.COUNT_LEASED, counted)
        self._record(session, EventKind.LEASED, queue_name, leased, until_usec=until_usec)
        return leased

    def _due(self, session: Session, queue_name: str, request: LeaseRequest) -> list[Task]:
        statement = sql.DUE
        parameters = {
            "queue": queue_name,
            "now_usec": session.now_usec,
            "max_tasks": request.max_tasks,
        }
        if request.group_by_tag:
            statement = sql.DUE_BY_TAG
            parameters["tag"] = encode_tag(request.tag)
            if request.tag is None:
                parameters["tag"] = (session.row(sql.FIRST_TAG, parameters) or (b"",))[0]
        # Row by row: those that do not fit are never read.
        return fitting(map(task_of, session.rows(statement, parameters)), request.payload_bytes)

    def _not_held(self, session: Session, queue_name: str, task_name: str) -> TaskLeaseExpiredError:
        task = self._get(session, queue_name, task_name)
        return task_errors.lease_lost(task, session.now_usec)

    # -- parts of deleting -----------------------------------------------------------------------

    def _record_gone(
        self, session: Session, kind: EventKind, queue_name: str, gone: Sequence[Row]
    ) -> None:
        """Record tasks that `_bury` told of."""
        if gone:
            self._balance(session, queue_name, -len(gone), -sum(row[2] for row in gone))
            self._record_steps(session, kind, queue_name, gone)

    def _delete_results(
        self, session: Session, queue_name: str, names: Sequence[str], gone: set[str]
    ) -> list[DeleteResult]:
        """Give what became of each name when those in `gone` were deleted."""
        if len(gone) == len(names):
            return [DeleteResult.DELETED] * len(names)
        others = [name for name in names if name not in gone and possible_name(name)]
        parameters = {
            "queue": queue_name,
            "names": session.listed(others),
            "now_usec": session.now_usec,
        }
        tombstones = {row[0] for row in session.rows(sql.NAMES, parameters) if row[1]}
        results: list[DeleteResult] = []
        for name in names:
            if name in gone:
                results.append(DeleteResult.DELETED)
                gone.remove(name)
                tombstones.add(name)
            elif name in tombstones:
                results.append(DeleteResult.TOMBSTONED)
            else:
                results.append(DeleteResult.UNKNOWN)
        return results
