"""Tasks in one SQLite file, which one process writes to.

One connection writes, another reads: a question, however long its answer takes, does not hold up
the operations. A call is one transaction, and what it returned is in the file.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import current_origin
from pullqueue.engine.memory.rates import RateLimiter
from pullqueue.engine.store import Insertion, Lease, LeaseRequest, NameSource, StoreFactory, Target
from pullqueue.errors import InternalError, PullQueueError, TransientError
from pullqueue.limits import Limits
from pullqueue.stores.rows import Row, count_finished, encode, encode_tag, result_values
from pullqueue.stores.session import OWN, Keys, Session, closed_error
from pullqueue.stores.sql import SqlStore
from pullqueue.stores.sql_files import statements, with_scope
from pullqueue.stores.sqlite_file import SqliteFile, opening_error
from pullqueue.tasks import AttemptRecord, NewTask, Task, fitting, leased_until
from pullqueue.text import format_size

_SQL = statements("sqlite")


class SqliteSession(Session):
    """A transaction on one of the two connections."""

    scoped = with_scope(_SQL)

    def __init__(
        self,
        connection: sqlite3.Connection,
        keys: Keys,
        now_usec: int,
        totals: Mapping[str, tuple[int, int]],
    ) -> None:
        super().__init__(keys)
        self.now_usec = self.clock_usec = now_usec
        self.totals = dict(totals)
        """How many tasks each queue has, and their size in bytes, as the transaction sees it."""
        self._connection = connection

    def add_to_totals(self, queue_name: str, tasks: int, stored_bytes: int) -> None:
        """Add to the totals of a queue, or subtract from them."""
        before = self.totals.get(queue_name, (0, 0))
        self.totals[queue_name] = (before[0] + tasks, before[1] + stored_bytes)

    def iterate(self, statement: str, **parameters: object) -> Iterator[Row]:
        """Execute a statement and yield its rows as they are read."""
        return self._connection.execute(_SQL[statement], self.bound(statement, parameters))

    def rows(self, statement: str, **parameters: object) -> list[Row]:
        return self._connection.execute(
            _SQL[statement], self.bound(statement, parameters)
        ).fetchall()

    def change(self, statement: str, **parameters: object) -> int:
        return self._connection.execute(_SQL[statement], self.bound(statement, parameters)).rowcount

    def change_many(self, statement: str, rows: Iterable[Row]) -> int:
        return self._connection.executemany(_SQL[statement], rows).rowcount

    def listed(self, values: Sequence[object]) -> object:
        return json.dumps(values)

    def snapshot(self) -> AbstractContextManager[object]:
        return nullcontext()  # a transaction sees the file as of one time


class SqliteStore(SqlStore[SqliteSession]):
    """Keeps tasks in an SQLite file."""

    def __init__(
        self,
        file: Callable[[], SqliteFile],
        keys: Keys = OWN,
        *,
        clock: Clock,
        limits: Limits,
        names: NameSource,
    ) -> None:
        super().__init__(keys, clock=clock, limits=limits, names=names)
        self._file = file()
        self._rates: defaultdict[str, RateLimiter] = defaultdict(RateLimiter)
        self._stored_totals: dict[str, tuple[int, int]] = {}
        try:
            with self._file.lock:
                self._recount()
                session = self._session(self._file.writer)
                # No other process has the file open: what seems to run was ended with its process.
                session.change("release_attempts", now_usec=session.now_usec)
        except sqlite3.Error as error:
            self.close()
            raise opening_error(self._file.path, error) from error

    def now_usec(self) -> int:
        return self._clock.now_usec()

    def check(self) -> None:
        super().check()
        # A small task can have room in the log where a large one has none: it is written twice.
        needed = 2 * self._limits.task_bytes
        free = shutil.disk_usage(self._file.path.parent).free
        if free < needed:
            raise TransientError(
                f"the store's file: its disk has {format_size(free)} left, and the largest task "
                f"needs {format_size(needed)}: free some space"
            )

    def close(self) -> None:
        with self._file.lock:
            self._is_closed = True
        if self._keys is OWN:
            self._file.close()

    # -- operations ------------------------------------------------------------------------------

    def insert(self, target: Target, new_tasks: Sequence[NewTask]) -> Insertion:
        with self._writing() as session:
            insert = self._insert if target.storage_limit_bytes is None else self._insert_within
            insertion = insert(session, target, new_tasks)
        self._touch(target.queue, len(insertion.added))
        return insertion

    def _store(
        self, session: SqliteSession, target: Target, named: Sequence[NewTask]
    ) -> list[Task]:
        queue_name, lifetime_usec = target.queue, target.retention.lifetime_usec
        now_usec = session.now_usec
        ends_usec = None if lifetime_usec is None else now_usec + lifetime_usec
        row = session.row("next_sequence", queue=queue_name, is_runtime=target.is_runtime)
        if row is None:
            raise task_errors.deleted_queue(queue_name)
        first = row[0]
        tasks = [
            new.stored(str(new.name), queue_name, sequence, now_usec)
            for sequence, new in enumerate(named, first)
        ]
        encode_task = self._keys.encode_task
        rows = ((*encode_task(task), count_finished(task), ends_usec) for task in tasks)
        if session.change_many("insert_task", rows) < len(tasks):
            stored = {row[0] for row in session.rows("sequences_from", sequence=first)}
            tasks = [task for task in tasks if task.sequence in stored]
        if tasks:
            session.add_to_totals(queue_name, len(tasks), sum(t.stored_bytes for t in tasks))
            steps = [(task.name, 0) for task in tasks]
            self._record(session, EventKind.ADDED, queue_name, steps)
        return tasks

    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        with self._writing() as session:
            rate = self._rates[queue_name]
            if not rate.permit(session.now_usec, self._limits.leases_per_second):
                return Lease([], rate_limited=True)
            leased = self._lease(session, queue_name, request)
        self._touch(queue_name, len(leased))
        return Lease(leased)

    def _lease(self, session: SqliteSession, queue_name: str, request: LeaseRequest) -> list[Task]:
        wanted: dict[str, object] = {"queue": queue_name, "now_usec": session.now_usec}
        suffix = ""
        if request.group_by_tag:
            suffix = "_by_tag"
            tag = encode_tag(request.tag)
            if request.tag is None:
                tag = (session.row("first_due_tag", **wanted) or (tag,))[0]
            wanted["tag"] = tag
        wanted["max_tasks"] = request.max_tasks
        if request.retention.leases == 0:
            session.change(f"exhaust_due{suffix}", **wanted)
            self._catch_up(session)
            return []
        # Row by row: those that do not fit are never read.
        rows = session.iterate(f"due{suffix}", **wanted)
        due = fitting(map(self._keys.decode_task, rows), request.payload_bytes)
        if not due:
            return []
        until_usec = session.now_usec + request.lease_usec
        session.change(
            "lease_tasks",
            sequences=session.listed([task.sequence for task in due]),
            until_usec=until_usec,
            **request.retention._asdict(),
        )
        leased = leased_until(until_usec, due)
        self._count_leased(session, queue_name, len(leased))
        steps = [(task.name, task.retry_count) for task in leased]
        self._record(session, EventKind.LEASED, queue_name, steps, until_usec)
        return leased

    def purge(self, queue_name: str) -> int:
        with self._writing() as session:
            times = {"now_usec": session.now_usec, "tombstone_usec": self._tombstone_usec}
            gone = session.rows("purge", queue=queue_name, **times)
            self._record_purge(session, queue_name)
            session.change("drop_exhausted_payloads", queue=queue_name)
            self._removed(session, EventKind.PURGED, queue_name, gone)
        self._touch(queue_name, len(gone))
        return len(gone)

    # -- parts -----------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, *, unlimited: bool = False) -> Iterator[SqliteSession]:  # noqa: ARG002
        writer = self._file.writer
        with self._file.lock:
            try:
                session = self._begin(writer, "BEGIN IMMEDIATE")
                if session.rows("find_exhausted", now_usec=session.now_usec):
                    self._catch_up(session)
                yield session
                writer.execute("COMMIT")
            except BaseException as error:
                _roll_back(writer)
                if isinstance(error, sqlite3.Error):
                    raise _translated(error) from error
                raise
            self._stored_totals = session.totals

    @contextmanager
    def _reading(self, *, unlimited: bool = False) -> Iterator[SqliteSession]:  # noqa: ARG002
        with self._file.reader_lock:
            try:
                yield self._begin_reading()
            except sqlite3.Error as error:
                raise _translated(error) from error
            finally:
                _roll_back(self._file.reader)

    def _operation(self) -> AbstractContextManager[SqliteSession]:
        return self._writing()

    def _session(self, connection: sqlite3.Connection) -> SqliteSession:
        return SqliteSession(connection, self._keys, self._clock.now_usec(), self._stored_totals)

    def _begin(self, connection: sqlite3.Connection, statement: str) -> SqliteSession:
        if self._is_closed:
            raise closed_error()
        self._file.check()
        session = self._session(connection)
        connection.execute(statement)
        return session

    def _begin_reading(self) -> SqliteSession:
        with self._file.lock:
            session = self._begin(self._file.reader, "BEGIN")
            # The transaction sees the file as it is at this statement.
            if not session.rows("find_exhausted", now_usec=session.now_usec):
                return session
            _roll_back(self._file.reader)
            with self._writing():
                pass  # it has caught up
            return self._begin_reading()

    @contextmanager
    def _replacing(self) -> Iterator[SqliteSession]:
        with self._file.lock:
            with self._writing() as session:
                self._clear(session, {})
                yield session
            self._rates.clear()
            self._recount()

    def _clear(self, session: SqliteSession, scope: Mapping[str, object]) -> None:
        if not session.rows("projects"):
            session.change("delete_all_tasks")
            session.change("delete_all_events")
        for table in ("tasks", "exhausted", "events", "leased", "queues"):
            session.change(f"clear_{table}", **scope)

    def _drop_queue(self, session: SqliteSession, queue_name: str) -> None:
        tasks, stored_bytes = session.totals.get(queue_name, (0, 0))
        for table in ("tasks", "exhausted", "events", "leased", "retentions"):
            session.change(f"drop_{table}", queue=queue_name)
        session.add_to_totals(queue_name, -tasks, -stored_bytes)
        self._rates.pop(queue_name, None)

    def _count_leased(self, session: SqliteSession, queue_name: str, tasks: int) -> None:
        second = session.now_usec // USEC_PER_SECOND
        session.change("count_leased", queue=queue_name, second=second, tasks=tasks)

    def _count(self, session: SqliteSession, happened: Mapping[str, object]) -> None:
        self._last_event += 1
        session.change("count_failed", id=self._last_event, **happened)

    def _of_project(self, keys: Keys) -> StoreFactory:
        return partial(SqliteStore, lambda: self._file, keys)

    def _restored(self, session: SqliteSession) -> None:
        """Do nothing: `_replacing` counts the tasks, and the next number follows the last one."""

    def _catch_up(self, session: SqliteSession) -> None:
        now = {"now_usec": session.now_usec}
        exhausted = session.rows("exhausted_totals", **now)
        if not exhausted:
            return
        session.change("keep_exhausted", **now)
        self._last_event += session.change("record_exhausted", **now, last_id=self._last_event)
        session.change("tombstone_exhausted", **now, tombstone_usec=self._tombstone_usec)
        for key, tasks, stored_bytes in exhausted:
            queue_name = self._keys.name(key)
            session.add_to_totals(queue_name, -tasks, -stored_bytes)
            self._trim_exhausted(session, queue_name)

    def _recount(self) -> None:
        """Read the totals and the number of the last event from the file.

        From then on they are in memory: a total in a table would make a call of one task, which
        takes 50 us, slower by 10 us, and to look up the last event of a queue by 6 us.
        """
        session = self._session(self._file.writer)
        rows = session.rows("totals")
        self._stored_totals = {self._keys.name(key): (tasks, size) for key, tasks, size in rows}
        ((self._last_event,),) = session.rows("last_event")

    def _totals(
        self,
        session: SqliteSession,
        queue_name: str | None = None,  # noqa: ARG002 - all are in memory
    ) -> dict[str, tuple[int, int]]:
        return session.totals

    def _modified(
        self,
        session: SqliteSession,
        kind: EventKind,
        task: Task,
        ended: AttemptRecord | None = None,
        size: int = 1,
    ) -> None:
        until_usec = None if kind is EventKind.RELEASED else task.eta_usec
        steps = [(task.name, task.retry_count)]
        self._record(session, kind, task.queue_name, steps, until_usec, ended=ended, size=size)
        if kind is EventKind.ATTEMPT_STARTED:
            self._count_leased(session, task.queue_name, size)

    def _ended(
        self, session: SqliteSession, task: Task, attempts: AttemptRecord, size: int
    ) -> Row | None:
        queue = {"queue": task.queue_name, "now_usec": session.now_usec}
        row = session.row("get", name=task.name, **queue)
        if row is None or row[0] != task.eta_usec:
            return None
        names = session.listed([task.name])
        reserved = {"expected_eta_usec": None, "tombstone_usec": self._tombstone_usec}
        [(*step, stored_bytes)] = session.rows("delete", names=names, **queue, **reserved)
        session.add_to_totals(task.queue_name, -1, -stored_bytes)
        kind = EventKind.ATTEMPT_SUCCEEDED if attempts.succeeded else EventKind.ATTEMPT_FAILED
        self._record(session, kind, task.queue_name, [step], ended=attempts, size=size)
        if not attempts.succeeded:
            self._record(session, EventKind.EXHAUSTED, task.queue_name, [step])
            kept = self._keys.decode_task(row)._replace(attempts=attempts)
            session.change_many("restore_exhausted", [self._keys.encode_task(kept)])
        return row

    def _removed(
        self, session: SqliteSession, kind: EventKind, queue_name: str, rows: Sequence[Row]
    ) -> None:
        if rows:
            session.add_to_totals(queue_name, -len(rows), -sum(row[2] for row in rows))
            self._record(session, kind, queue_name, [row[:2] for row in rows])

    def _record(
        self,
        session: SqliteSession,
        kind: EventKind,
        queue_name: str,
        steps: Sequence[Sequence[object]],
        until_usec: int | None = None,
        *,
        ended: AttemptRecord | None = None,
        size: int = 1,
    ) -> None:
        """Record an operation on tasks, given as names and retry counts, as `size` of each."""
        recorded = steps[: max(1, self._limits.events_kept)]
        names, retry_counts = zip(*recorded, strict=True)
        self._last_event += 1
        session.change(
            "record",
            queue=queue_name,
            id=self._last_event,
            usec=session.now_usec,
            kind=kind.value,
            until_usec=until_usec,
            size=len(recorded) * size,
            names=",".join(names),
            retry_counts=",".join(map(str, retry_counts)),
            **result_values(ended),
            origin=encode(current_origin()),
        )


def _roll_back(connection: sqlite3.Connection) -> None:
    # One that is closed has no transaction.
    with suppress(sqlite3.ProgrammingError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _translated(error: sqlite3.Error) -> PullQueueError:
    """Return the error of this package for one of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    is_damaged = code == sqlite3.SQLITE_ERROR or str(error).startswith("Could not decode")
    is_closed = "closed database" in str(error)
    if is_closed or (isinstance(error, sqlite3.OperationalError) and not is_damaged):
        return TransientError(f"the store's file: {str(error).rstrip('.')}; try again")
    return InternalError(f"the store's file is damaged ({error}): restore it from a copy")
