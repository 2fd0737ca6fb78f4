"""Tasks in a PostgreSQL database that any number of servers share.

No server is special and none has to run for time to pass: a lease is only a moment in a row. Time
is the database's, so that the clocks of the servers need not agree; with a clock that is moved by
hand it is that clock's, and all who share the database must then share the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from pullqueue.clock import USEC_PER_SECOND, Clock, SystemClock
from pullqueue.engine.events import EventKind
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import Lease, LeaseRequest, RetryLimit, StoreFactory, ValidatedTask
from pullqueue.errors import InternalError, TransientError
from pullqueue.limits import Limits
from pullqueue.stores import postgres_statements as sql
from pullqueue.stores.postgres_pool import Pool
from pullqueue.stores.postgres_server import WAIT_SECONDS, Address, connect, parsed, prepare
from pullqueue.stores.postgres_session import PostgresSession
from pullqueue.stores.rows import encode_tag, possible_name, task_of, tasks_of
from pullqueue.stores.session import Session
from pullqueue.stores.sql import SqlStore
from pullqueue.tasks import DeleteResult, Task


def postgres_store(url: str) -> StoreFactory:
    """Give what opens the store of `postgresql://USER@HOST/DATABASE`.

    Raises:
        StoreError: the URL cannot be read.
    """
    address = parsed(url)

    def factory(*, clock: Clock, limits: Limits, names: NameSource) -> PostgresStore:
        return PostgresStore(address, clock=clock, limits=limits, names=names)

    return factory


class PostgresStore(SqlStore):
    """Keeps tasks in a PostgreSQL database."""

    # Internal errors are those of a transaction that the server has ended, or does not take because
    # another server has become the one to write to.
    _passing_errors = (psycopg.OperationalError, psycopg.InternalError)

    def __init__(
        self, address: Address, *, clock: Clock, limits: Limits, names: NameSource
    ) -> None:
        super().__init__(clock=clock, limits=limits, names=names)
        self._clock_given = None if isinstance(clock, SystemClock) else clock
        prepare(address)
        self._address = address
        self._pool = Pool(self._connected, size=address.connections, wait_seconds=WAIT_SECONDS)

    def now_usec(self) -> int:
        """Give the database's time, or that of a clock that is moved by hand."""
        with self._session() as session:
            return session.now_usec

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    # -- operations of one statement -------------------------------------------------------------

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks; see `TaskStore.lease`."""
        if request.retry_limit.leases == 0 or request.calls_per_second is not None:
            return super().lease(queue_name, request)
        with self._session() as session:
            if request.retry_limit.leases is not None:
                moment = {"now_usec": _own(session).clock_usec}
                if session.row(sql.ANY_SPENT_NOW, moment) is not None:
                    self._catch_up(session)
            return Lease(self._lease_due(session, queue_name, request))

    def _lease_due(self, session: Session, queue_name: str, request: LeaseRequest) -> list[Task]:
        if request.retry_limit.leases == 0:
            return super()._lease_due(session, queue_name, request)
        parameters = {
            "now_usec": _own(session).clock_usec,
            "queue": queue_name,
            "lease_usec": request.lease_usec,
            "max_tasks": request.max_tasks,
            "payload_bytes": request.payload_bytes,
            **request.retry_limit._asdict(),
        }
        leasing = sql.LEASE
        if request.group_by_tag:
            leasing = sql.LEASE_BY_FIRST_TAG if request.tag is None else sql.LEASE_BY_TAG
            parameters["tag"] = encode_tag(request.tag)
        tasks = tasks_of(session.rows(self._of(leasing, request), parameters))
        self._touch(session, queue_name, len(tasks))
        return tasks

    def _of(self, leasing: sql.Leasing, request: LeaseRequest) -> str:
        """Choose the cheapest statement."""
        if request.max_tasks == 1:
            return leasing.one
        # Where the payloads cannot weigh too much together they need not be weighed.
        most_bytes = request.max_tasks * self._limits.task_bytes
        return leasing.some if most_bytes <= request.payload_bytes else leasing.weighed

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
            kind = EventKind.EXTENDED if lease_usec else EventKind.RELEASED
            parameters = {
                "now_usec": _own(session).clock_usec,
                "queue": queue_name,
                "name": task_name,
                "expected_eta_usec": expected_eta_usec,
                "lease_usec": lease_usec,
                "kind": kind.value,
                **retry_limit._asdict(),
            }
            row = session.row(sql.MODIFY, parameters) if possible_name(task_name) else None
            if row is None:
                self._catch_up(session)
                raise self._not_held(session, queue_name, task_name)
            self._touch(session, queue_name, 1)
            return task_of(row)

    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name; see `TaskStore.delete`."""
        names = list(task_names)
        with self._session() as session:
            possible = [name for name in names if possible_name(name)]
            parameters = {
                "now_usec": _own(session).clock_usec,
                "queue": queue_name,
                "nothing": b"",
                "tombstone_usec": self._tombstone_usec,
            }
            if len(possible) == 1:
                rows = session.rows(sql.DELETE_ONE, {**parameters, "name": possible[0]})
            else:
                rows = session.rows(sql.DELETE, {**parameters, "names": possible})
            gone = {row[0] for row in rows}
            self._touch(session, queue_name, len(gone))
            if len(gone) < len(names):
                self._catch_up(session)
            return self._delete_results(session, queue_name, names, gone)

    def _store(
        self, session: Session, queue_name: str, drafts: Sequence[ValidatedTask]
    ) -> list[Task]:
        parameters = {
            "now_usec": _own(session).clock_usec,
            "queue": queue_name,
            "names": [name for name, *_ in drafts],
            "payloads": [payload for _, payload, *_ in drafts],
            "tags": [encode_tag(tag) for _, _, tag, *_ in drafts],
            "etas_usec": [eta_usec for *_, eta_usec, _ in drafts],
            "sizes": [size for *_, size in drafts],
        }
        stored = {row[2]: row for row in session.rows(sql.INSERT, parameters)}
        self._touch(session, queue_name, len(stored))
        tasks: list[Task] = []
        for name, payload, tag, _, size in drafts:
            if name is not None and name in stored:
                eta_usec, sequence, _, now_usec = stored[name]
                tasks.append(
                    Task(eta_usec, sequence, name, queue_name, payload, tag, 0, now_usec, size)
                )
        return tasks

    # -- parts of operations of several statements -----------------------------------------------

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session: PostgresSession | None = None
        try:
            session = self._pool.take()
            yield session.begun()
        except (*self._passing_errors, TimeoutError) as error:
            raise TransientError(f"the store's database: {_reason(error)}; try again") from error
        except psycopg.Error as error:
            raise InternalError(f"the store's database: {_reason(error)}") from error
        finally:
            if session is not None:
                self._pool.give_back(session)

    def _connected(self) -> PostgresSession:
        return PostgresSession(connect(self._address), self._clock_given)

    def _as_of_one_moment(self, session: Session) -> None:
        session.change(sql.ONE_MOMENT, {})

    def _is_something_spent(self, session: Session) -> bool:
        return session.row(sql.ANY_SPENT, {"now_usec": session.now_usec}) is not None

    def _exclude(self, session: Session, purpose: str) -> None:
        session.row(sql.EXCLUDE, {"purpose": purpose})

    def _admit(self, session: Session, queue_name: str, calls_per_second: int) -> bool:
        self._exclude(session, f"calls of {queue_name}")
        moment = {"queue": queue_name, "now_usec": session.now_usec}
        until_usec = session.now_usec - USEC_PER_SECOND
        session.change(sql.FORGET_CALLS, {"queue": queue_name, "until_usec": until_usec})
        calls = session.row(sql.COUNT_CALLS, {"queue": queue_name}) or (0,)
        if calls[0] >= calls_per_second:
            return False
        session.change(sql.ADD_CALL, moment)
        return True

    def _held(self, session: Session, queue_name: str | None) -> tuple[int, int]:
        tasks, stored_bytes = session.row(sql.HELD, {"queue": queue_name}) or (0, 0)
        return int(tasks), int(stored_bytes)

    def _balance(self, session: Session, queue_name: str, tasks: int, stored_bytes: int) -> None:
        added = {"queue": queue_name, "tasks": tasks, "bytes": stored_bytes}
        session.change(sql.ADD_TO_BALANCE, added)

    def _renumber(self, session: Session) -> None:
        session.row(sql.RENUMBER, {})


def _own(session: Session) -> PostgresSession:
    assert isinstance(session, PostgresSession)  # noqa: S101 - this store makes no other
    return session


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
