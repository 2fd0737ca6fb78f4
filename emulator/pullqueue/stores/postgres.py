"""Tasks in a PostgreSQL database that any number of servers share.

No server is special and none has to run for time to pass: a lease is only a time in a row. Time is
the database's, so that the clocks of the servers need not agree; with a clock that is moved by hand
it is that clock's, and all who share the schema must then share the clock: others are refused.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from time import perf_counter
from zlib import crc32

import psycopg

from pullqueue.clock import USEC_PER_SECOND, Clock, SystemClock
from pullqueue.engine import store, task_errors
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import current_origin
from pullqueue.errors import InternalError, PullQueueError, StoreError, TransientError
from pullqueue.limits import Limits
from pullqueue.stores.postgres_pool import SYSTEM_CLOCK, Address, Connection, Connections, prepare
from pullqueue.stores.rows import (
    Row,
    attempted,
    encode,
    encode_tag,
    lists_of_new_tasks,
    result_values,
)
from pullqueue.stores.session import OWN, DeadlockError, Keys, Session, closed_error, retried
from pullqueue.stores.sql import SqlStore
from pullqueue.stores.sql_files import statements, with_scope
from pullqueue.tasks import AttemptRecord, NewTask, Task

_CLAIM_USEC = 10 * USEC_PER_SECOND
"""How long a claim is valid in the database, by its time, after it was made or renewed."""
_CLAIM_TRUSTED_SECONDS = 2.0
"""How long a process relies on its claim, by the machine's time, before it asks again."""

_PROCESS = secrets.token_hex(8)

_TEXTS = statements("postgres")
_SQL = {name: text.encode() for name, text in _TEXTS.items()}


class PostgresSession(Session):
    """One operation on a connection; each statement is a transaction unless it is in one."""

    scoped = with_scope(_TEXTS)

    def __init__(
        self, connection: Connection, keys: Keys, clock: Clock | None, *, unlimited: bool
    ) -> None:
        """Use an open connection, and a clock if the time is not the database's."""
        super().__init__(keys)
        self.clock_usec = None if clock is None else clock.now_usec()
        """The time if it is a clock's; None if each statement is to ask the database."""
        self._now_usec = self.clock_usec
        self._unlimited = unlimited
        self._connection = connection
        self._cursor = connection.cursor(binary=True)

    @property
    def now_usec(self) -> int:  # type: ignore[override]  # asked only when it is needed
        """The time of the operation: the database's when it was first asked for, or a clock's."""
        if self._now_usec is None:
            self.is_something_exhausted()
        return self._now_usec or 0

    def is_something_exhausted(self) -> bool:
        """Return whether a task is past the end of its last lease at the time of the operation."""
        ((self._now_usec, found),) = self.rows("find_exhausted", now_usec=self._now_usec)
        return bool(found)

    def rows(self, statement: str, **parameters: object) -> list[Row]:
        return self._cursor.execute(_SQL[statement], self.bound(statement, parameters)).fetchall()

    def change(self, statement: str, **parameters: object) -> int:
        return self._cursor.execute(_SQL[statement], self.bound(statement, parameters)).rowcount

    def change_many(self, statement: str, rows: Iterable[Row]) -> int:
        self._cursor.executemany(_SQL[statement], rows)
        return self._cursor.rowcount

    def listed(self, values: Sequence[object]) -> object:
        return list(values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements of a block in one transaction."""
        with self._connection.transaction():
            if self._unlimited:
                self.change("no_timeout")
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self.transaction():
            self.change("snapshot")
            yield


class PostgresStore(SqlStore[PostgresSession]):
    """Keeps tasks in a PostgreSQL database."""

    is_shared = True

    def __init__(
        self,
        address: Address,
        connections: Connections | None = None,
        keys: Keys = OWN,
        *,
        clock: Clock,
        limits: Limits,
        names: store.NameSource,
    ) -> None:
        super().__init__(keys, clock=clock, limits=limits, names=names)
        self._manual_clock = None if isinstance(clock, SystemClock) else clock
        self._id = secrets.token_hex(8)
        """Identifies this process among those that share the database."""
        self._claimed: dict[str, float] = {}
        """The queues whose tasks this process sends, and until when it need not ask again."""
        if connections is None:
            address = address._replace(clock=_number(self._manual_clock))
            prepare(address)
        self._address = address
        self._connections = connections or Connections(address)
        """Those of the server's own project."""

    def now_usec(self) -> int:
        with self._session() as session:
            return session.now_usec

    def claim_dispatch(self, queue_name: str) -> store.Claim:
        now = perf_counter()
        if now < self._claimed.get(queue_name, now):
            return store.Claim.KEPT
        self._claimed.pop(queue_name, None)
        with self._session() as session:
            row = session.row("claim_dispatch", queue=queue_name, server=self._id, usec=_CLAIM_USEC)
        if row is None:
            return store.Claim.REFUSED
        self._claimed[queue_name] = now + _CLAIM_TRUSTED_SECONDS
        return store.Claim.KEPT if row[0] else store.Claim.NEW

    def close(self) -> None:
        if self._claimed:
            with suppress(PullQueueError), self._session() as session:
                session.change("release_dispatch", server=self._id)
        self._is_closed = True
        if self._keys is OWN:
            self._connections.close()

    # -- operations ------------------------------------------------------------------------------

    @retried
    def insert(self, target: store.Target, new_tasks: Sequence[NewTask]) -> store.Insertion:
        with self._session() as session:
            new = (session, target, new_tasks)
            if target.storage_limit_bytes is not None:
                with session.transaction():
                    session.row("lock_totals")
                    self._catch_up(session)
                    insertion = self._insert_within(*new)
            elif len(new_tasks) == 1 or not any(task.name for task in new_tasks):
                # One statement is enough, unless a name that was given is in use.
                insertion = self._insert(*new)
            else:
                with session.transaction():
                    insertion = self._insert(*new)
        self._touch(target.queue, len(insertion.added))
        return insertion

    def _store(
        self, session: PostgresSession, target: store.Target, named: Sequence[NewTask]
    ) -> list[Task]:
        queue_name = target.queue
        rows = session.rows(
            "insert",
            now_usec=session.clock_usec,
            origin=encode(current_origin()),
            queue=queue_name,
            is_runtime=target.is_runtime,
            lifetime_usec=target.retention.lifetime_usec,
            **lists_of_new_tasks(named),
        )
        if not rows and not session.rows(
            "find_queue", queue=queue_name, is_runtime=target.is_runtime
        ):
            raise task_errors.deleted_queue(queue_name)
        stored = {row[2]: row for row in rows}
        tasks: list[Task] = []
        for new in named:
            if new.name in stored:
                _, sequence, name, now_usec = stored[new.name]
                tasks.append(new.stored(name, queue_name, sequence, now_usec))
        return tasks

    @retried
    def lease(self, queue_name: str, request: store.LeaseRequest) -> store.Lease:
        limit = request.retention
        wanted: dict[str, object] = {"queue": queue_name, "max_tasks": request.max_tasks}
        suffix = ""
        if request.group_by_tag:
            suffix = "_by_tag"
            wanted["tag"] = None if request.tag is None else encode_tag(request.tag)
        with self._session() as session:
            rows = session.rows(
                f"lease{suffix}",
                **(wanted | {"max_tasks": 0} if limit.leases == 0 else wanted),
                now_usec=session.clock_usec,
                lease_usec=request.lease_usec,
                payload_bytes=request.payload_bytes,
                calls_per_second=self._limits.leases_per_second,
                origin=encode(current_origin()),
                **limit._asdict(),
            )
            if rows and limit.leases == 0:
                session.change(f"exhaust_due{suffix}", **wanted, now_usec=session.now_usec)
            if rows and (rows[0][0] or limit.leases == 0):
                self._catch_up(session)
        tasks = [self._keys.decode_task(row[1:]) for row in rows if row[1] is not None]
        self._touch(queue_name, len(tasks))
        return store.Lease(tasks, rate_limited=not rows)

    @retried
    def purge(self, queue_name: str) -> int:
        with self._writing(unlimited=True) as session:
            self._catch_up(session)
            ((tasks,),) = session.rows(
                "purge",
                queue=queue_name,
                now_usec=session.now_usec,
                tombstone_usec=self._tombstone_usec,
                events=max(1, self._limits.events_kept),
                origin=encode(current_origin()),
            )
            self._record_purge(session, queue_name)
            session.change("drop_exhausted_payloads", queue=queue_name)
        self._touch(queue_name, tasks)
        return int(tasks)

    # -- parts -----------------------------------------------------------------------------------

    @contextmanager
    def _session(self, *, unlimited: bool = False) -> Iterator[PostgresSession]:
        if self._is_closed:
            raise closed_error()
        with _translated(), self._connections.borrowed(unlimited=unlimited) as connection:
            yield PostgresSession(connection, self._keys, self._manual_clock, unlimited=unlimited)

    def _operation(self) -> AbstractContextManager[PostgresSession]:
        return self._session()

    @contextmanager
    def _reading(self, *, unlimited: bool = False) -> Iterator[PostgresSession]:
        with self._session(unlimited=unlimited) as session:
            self._catch_up(session)
            yield session

    @contextmanager
    def _writing(self, *, unlimited: bool = False) -> Iterator[PostgresSession]:
        with self._session(unlimited=unlimited) as session, session.transaction():
            yield session

    @contextmanager
    def _replacing(self) -> Iterator[PostgresSession]:
        with self._writing(unlimited=True) as session:
            session.change("lock_tasks")
            self._clear(session, {})
            yield session

    def _clear(self, session: PostgresSession, scope: Mapping[str, object]) -> None:
        session.change("clear", **scope)

    def _drop_queue(self, session: PostgresSession, queue_name: str) -> None:
        session.change("lock_tasks")
        session.change("drop_queue", queue=queue_name)

    def _count(self, session: PostgresSession, happened: Mapping[str, object]) -> None:
        session.change("count_failed", **happened)

    def _ended(
        self, session: PostgresSession, task: Task, attempts: AttemptRecord, size: int
    ) -> Row | None:
        kind = EventKind.ATTEMPT_SUCCEEDED if attempts.succeeded else EventKind.ATTEMPT_FAILED
        return session.row(
            "end_attempt",
            **attempted(task),
            now_usec=session.clock_usec,
            kind=kind.value,
            **result_values(attempts),
            attempts=encode(attempts),
            exhausted=not attempts.succeeded,
            size=size,
            tombstone_usec=self._tombstone_usec,
            origin=encode(current_origin()),
        )

    def _of_project(self, keys: Keys) -> store.StoreFactory:
        return partial(PostgresStore, self._address, self._connections, keys)

    def _restored(self, session: PostgresSession) -> None:
        session.change("restore_totals")
        session.row("renumber")

    def _catch_up(self, session: PostgresSession) -> None:
        while session.is_something_exhausted():  # this asks for the time, too
            times = {"now_usec": session.now_usec, "tombstone_usec": self._tombstone_usec}
            for (key,) in session.rows("exhaust", **times):
                self._trim_exhausted(session, self._keys.name(key))

    def _totals(
        self, session: PostgresSession, queue_name: str | None = None
    ) -> dict[str, tuple[int, int]]:
        rows = session.rows("totals", queue=queue_name)
        name = self._keys.name
        return {name(key): (int(tasks), int(stored_bytes)) for key, tasks, stored_bytes in rows}


def _number(manual_clock: Clock | None) -> int:
    """Return a number that identifies a clock among those of all processes."""
    if manual_clock is None:
        return SYSTEM_CLOCK
    return crc32(f"{_PROCESS} {os.getpid()} {id(manual_clock)}".encode()) >> 1 or 1


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.DeadlockDetected as error:
        raise DeadlockError(f"the store's database: {_reason(error)}; try again") from error
    except (psycopg.OperationalError, psycopg.InternalError) as error:
        # Internal errors are those of a transaction that the server has ended, or refuses since
        # another server has become the one to write to.
        raise TransientError(f"the store's database: {_reason(error)}; try again") from error
    except StoreError as error:  # lost connections, and another server came in between
        raise TransientError(f"the store's database: {error}") from error
    except psycopg.Error as error:
        raise InternalError(f"the store's database: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
