"""Tasks in one SQLite file that belongs to one process.

Since no other process writes to it, what can be reckoned from the file when it is opened (how much
each queue holds, the next number, the next end of a task) is kept in memory from then on. So is the
record of the latest operations, for a while: of all that is kept here, it alone can lose something
when the process is killed.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from pullqueue.clock import Clock
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.memory.rates import RateLimiter
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import QueueContents, RetryLimit, StoreFactory, ValidatedTask
from pullqueue.errors import InternalError, StoreError, TransientError
from pullqueue.limits import Limits
from pullqueue.stores import statements as sql
from pullqueue.stores.base import EventRow
from pullqueue.stores.rows import encode_tag
from pullqueue.stores.session import Session
from pullqueue.stores.sql import SqlStore
from pullqueue.stores.sqlite_file import open_file
from pullqueue.stores.sqlite_session import SqliteSession
from pullqueue.tasks import Task

_EVENTS_AT_ONCE = 64
"""So many operations are recorded together. Each by itself would cost a third of a small call."""
_SYNCHRONOUS = ("normal", "full")
_NEVER = sys.maxsize

_INSERT = """
INSERT INTO tasks (eta_usec, sequence, name, queue, payload, tag, retry_count, enqueued_usec,
stored_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, name) DO UPDATE SET sequence = excluded.sequence, payload = excluded.payload,
tag = excluded.tag, eta_usec = excluded.eta_usec, retry_count = 0,
enqueued_usec = excluded.enqueued_usec, stored_bytes = excluded.stored_bytes, free_usec = NULL
WHERE tasks.free_usec <= excluded.enqueued_usec"""
_RECORD = """
INSERT INTO events (queue, usec, kind, until_usec, size, names, retry_counts, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_LAST_EVENT = "SELECT coalesce(max(id), 0) FROM events"
_STORED_SINCE = "SELECT sequence FROM tasks WHERE sequence >= :sequence"
_LAST_SEQUENCE = "SELECT coalesce(max(sequence), 0) FROM tasks"
_HOLDINGS = """
SELECT queue, count(*), sum(stored_bytes) FROM tasks WHERE eta_usec IS NOT NULL GROUP BY queue"""


def sqlite_store(url: str) -> StoreFactory:
    """Give what opens the store of `sqlite:///FILE`, or `sqlite:///FILE?synchronous=full`.

    Raises:
        StoreError: the URL names no file, or an option there is not.
    """
    path, synchronous = _parsed(url)

    def factory(*, clock: Clock, limits: Limits, names: NameSource) -> SqliteStore:
        return SqliteStore(path, synchronous, clock=clock, limits=limits, names=names)

    return factory


def _parsed(url: str) -> tuple[Path, str]:
    try:
        parts = make_url(url)
    except ArgumentError:
        parts = None
    if parts is None or not parts.database or parts.database == ":memory:" or parts.host:
        raise StoreError(f"store {url!r} names no file: give sqlite:///FILE, or memory")
    options = dict(parts.query)
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in _SYNCHRONOUS:
        raise StoreError(
            f"store {url!r} has an option there is not: only synchronous=normal and "
            "synchronous=full can be given"
        )
    return Path(parts.database), str(synchronous)


class SqliteStore(SqlStore):
    """Keeps tasks in an SQLite file, one operation at a time."""

    _passing_errors = (sqlite3.OperationalError,)

    def __init__(
        self, path: Path, synchronous: str, *, clock: Clock, limits: Limits, names: NameSource
    ) -> None:
        super().__init__(clock=clock, limits=limits, names=names)
        self._lock = threading.RLock()
        self._unsettled: list[tuple[str, int, int]] = []
        self._unwritten: list[tuple[object, ...]] = []
        connection = open_file(path, synchronous=synchronous)
        self._connection = SqliteSession(connection, begun=self._begin, undone=self._undo)
        self._rates: defaultdict[str, RateLimiter] = defaultdict(RateLimiter)
        self._guard = _Guard(self._connection, clock, self._lock)
        self._reckon()

    def now_usec(self) -> int:
        """Give the clock's time."""
        return self._clock.now_usec()

    def events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Give what happened, oldest first."""
        with self._session() as session:
            self._catch_up(session)
            self._write_events(session)
            return super().events(queue_name, task_name)

    def clear(self) -> None:
        """Forget everything."""
        with self._reckoned_anew():
            super().clear()
            self._rates.clear()

    def restore(
        self, contents: Mapping[str, QueueContents], *, retry_limits: Mapping[str, RetryLimit]
    ) -> None:
        """Keep other contents; see `TaskStore.restore`."""
        with self._reckoned_anew():
            super().restore(contents, retry_limits=retry_limits)

    def close(self) -> None:
        """Close the file."""
        with self._session() as session:
            self._write_events(session)
            self._connection.close()

    @contextmanager
    def _reckoned_anew(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._reckon()

    def _reckon(self) -> None:
        """Take from the file what is kept in memory."""
        session = self._connection
        last = session.row(_LAST_SEQUENCE, {}) or (0,)
        self._next_sequence = last[0] + 1
        self._next_event = (session.row(_LAST_EVENT, {}) or (0,))[0] + len(self._unwritten) + 1
        self._tasks: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        for queue_name, tasks, stored_bytes in session.rows(_HOLDINGS, {}):
            self._tasks[queue_name] = tasks
            self._bytes[queue_name] = stored_bytes
        self._first_end = 0

    # -- what this database does in its own way --------------------------------------------------

    def _session(self) -> AbstractContextManager[Session]:
        return self._guard

    def _is_something_spent(self, session: Session) -> bool:
        if session.now_usec < self._first_end:
            return False
        first = session.row(sql.FIRST_END, {}) or (None,)
        self._first_end = _NEVER if first[0] is None else first[0]
        return session.now_usec >= self._first_end

    def _ends_at(self, usec: int) -> None:
        self._first_end = min(self._first_end, usec)

    def _exclude(self, session: Session, purpose: str) -> None:
        """Do nothing: there is one session at a time."""

    def _admit(self, session: Session, queue_name: str, calls_per_second: int) -> bool:
        return self._rates[queue_name].permit(session.now_usec, calls_per_second)

    def _held(self, session: Session, queue_name: str | None) -> tuple[int, int]:  # noqa: ARG002 - in memory
        if queue_name is None:
            return self._tasks.total(), self._bytes.total()
        return self._tasks[queue_name], self._bytes[queue_name]

    def _balance(
        self,
        session: Session,  # noqa: ARG002 - what a queue holds is kept in memory
        queue_name: str,
        tasks: int,
        stored_bytes: int,
    ) -> None:
        self._tasks[queue_name] += tasks
        self._bytes[queue_name] += stored_bytes
        self._unsettled.append((queue_name, tasks, stored_bytes))

    def _begin(self) -> None:
        """Remember what has to be taken back if a transaction comes to nothing."""
        self._unsettled.clear()
        self._unwritten_before = self._unwritten.copy()
        self._next_event_before = self._next_event

    def _undo(self) -> None:
        """Take back what a transaction that came to nothing has reckoned."""
        self._unwritten = self._unwritten_before
        self._next_event = self._next_event_before
        for queue_name, tasks, stored_bytes in self._unsettled:
            self._tasks[queue_name] -= tasks
            self._bytes[queue_name] -= stored_bytes
        self._first_end = 0

    def _empty(self, session: Session) -> None:
        super()._empty(session)
        # Within the transaction: where that comes to nothing, the record is there again.
        self._unwritten = []
        self._next_event = 1

    def _write_event(self, session: Session, event: EventRow) -> None:
        self._unwritten.append((*event, self._next_event))
        self._next_event += 1
        if len(self._unwritten) >= _EVENTS_AT_ONCE:
            with self._afterwards(session):
                self._write_events(session)

    def _write_events(self, session: Session) -> None:
        if self._unwritten:
            with session.transaction():
                self._connection.insert(_RECORD, self._unwritten)
                self._unwritten = []

    def _renumber(self, session: Session) -> None:
        """Do nothing: what `_reckon` finds is what counts."""

    def _store(
        self, session: Session, queue_name: str, drafts: Sequence[ValidatedTask]
    ) -> list[Task]:
        now_usec = session.now_usec
        first = self._next_sequence
        self._next_sequence += len(drafts)
        tasks: list[Task] = []
        rows: list[tuple[object, ...]] = []
        for sequence, (name, payload, tag, given_usec, size) in enumerate(drafts, first):
            eta_usec = now_usec if given_usec is None else given_usec
            fields = (eta_usec, sequence, name, queue_name, payload, tag, 0, now_usec, size)
            tasks.append(Task._make(fields))
            rows.append((*fields[:5], encode_tag(tag), 0, now_usec, size))
        with nullcontext() if len(rows) == 1 else session.transaction():
            if self._connection.insert(_INSERT, rows) < len(tasks):
                stored = {row[0] for row in session.rows(_STORED_SINCE, {"sequence": first})}
                tasks = [task for task in tasks if task.sequence in stored]
            if tasks:
                stored_bytes = sum(task.stored_bytes for task in tasks)
                self._balance(session, queue_name, len(tasks), stored_bytes)
                self._record(session, EventKind.ADDED, queue_name, tasks)
        return tasks


class _Guard(AbstractContextManager[Session]):
    """Lets one thread at a time have the session, and tells what its errors mean."""

    def __init__(self, session: SqliteSession, clock: Clock, lock: threading.RLock) -> None:
        self._session = session
        self._clock = clock
        self._lock = lock

    def __enter__(self) -> Session:
        self._lock.acquire()
        return self._session.at(self._clock.now_usec())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
        if isinstance(error, sqlite3.OperationalError):
            raise TransientError(f"the store's file: {error}; try again") from error
        if isinstance(error, sqlite3.DatabaseError):
            raise InternalError(f"the store's file: {error}") from error
