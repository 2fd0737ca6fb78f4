"""What all operations of an SQL store are built of: sessions, time, and the records."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from operator import itemgetter

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind
from pullqueue.engine.names import NameSource
from pullqueue.engine.store import TaskStore, ValidatedTask
from pullqueue.limits import Limits
from pullqueue.stores import statements as sql
from pullqueue.stores.rows import Row, columns_of, joined, possible_name, task_of
from pullqueue.stores.session import Session
from pullqueue.tasks import Task

HOUR_SECONDS = 3600
_SWEEP_AFTER = 5_000
"""So many tasks are touched in a queue before its old records are thrown away again."""
_ROWS_SWEPT = 4 * _SWEEP_AFTER
"""More than came since, so that what was left over is caught up with."""


EventRow = tuple[str, int, str, int | None, int, str, str]
_EVENT_COLUMNS = ("queue", "usec", "kind", "until_usec", "size", "names", "retry_counts")


class SqlBase(TaskStore):
    """A store in a database; what it does with tasks is in the classes made of this one."""

    def __init__(self, *, clock: Clock, limits: Limits, names: NameSource) -> None:
        self._clock = clock
        self._limits = limits
        self._names = names
        self._tombstone_usec = limits.tombstone_seconds * USEC_PER_SECOND
        self._touched: Counter[str] = Counter()

    # -- what each database does in its own way --------------------------------------------------

    _passing_errors: tuple[type[Exception], ...]
    """What the driver raises for a reason that may pass."""

    @abstractmethod
    def _session(self) -> AbstractContextManager[Session]:
        """Give a session."""

    @abstractmethod
    def _is_something_spent(self, session: Session) -> bool:
        """Tell whether a task is past the end of its last lease."""

    def _as_of_one_moment(self, session: Session) -> None:
        """Let all statements of a transaction that has just begun see the same."""

    @abstractmethod
    def _exclude(self, session: Session, purpose: str) -> None:
        """Let no other transaction do the same until this one has ended."""

    @abstractmethod
    def _held(self, session: Session, queue_name: str | None) -> tuple[int, int]:
        """Give how many tasks a queue holds and what they weigh; None: all queues together."""

    @abstractmethod
    def _store(
        self, session: Session, queue_name: str, drafts: Sequence[ValidatedTask]
    ) -> list[Task]:
        """Store drafts that have names, and record it; give those whose names were free."""

    @abstractmethod
    def _balance(self, session: Session, queue_name: str, tasks: int, stored_bytes: int) -> None:
        """Add to, or take from, what a queue holds."""

    @abstractmethod
    def _admit(self, session: Session, queue_name: str, calls_per_second: int) -> bool:
        """Tell whether a lease call may go ahead now, and count it if so."""

    def _ends_at(self, usec: int) -> None:
        """Take notice that a task may be spent at a moment, or later."""

    # -- time ------------------------------------------------------------------------------------

    @contextmanager
    def _settled(self) -> Iterator[Session]:
        with self._session() as session:
            self._catch_up(session)
            yield session

    def _catch_up(self, session: Session) -> None:
        """Let those tasks go that are past the end of their last lease."""
        if not self._is_something_spent(session):
            return
        with session.transaction():
            self._exclude(session, "catching up")
            moment = {"now_usec": session.now_usec}
            while rows := list(session.rows(sql.SPENT, moment)):
                for (queue_name, end_usec), group in groupby(rows, itemgetter(3, -1)):
                    tasks = [task_of(row[:-1]) for row in group]
                    self._exhaust(session, queue_name, tasks, end_usec)

    def _get(self, session: Session, queue_name: str, task_name: str) -> Task:
        row = None
        if possible_name(task_name):
            parameters = {"queue": queue_name, "name": task_name, "now_usec": session.now_usec}
            row = session.row(sql.GET, parameters)
        if row is None:
            raise task_errors.unknown_task(queue_name, task_name)
        if row[0] is None:
            raise task_errors.tombstoned_task(queue_name, task_name)
        return task_of(row)

    # -- tombstones and records ------------------------------------------------------------------

    def _bury(
        self, session: Session, statement: str, queue_name: str, **parameters: object
    ) -> list[Row]:
        """Make tombstones and give (name, retry count, bytes) of the tasks they were."""
        parameters["queue"] = queue_name
        parameters["nothing"] = b""
        parameters["free_usec"] = session.now_usec + self._tombstone_usec
        return list(session.rows(statement, parameters))

    def _exhaust(
        self, session: Session, queue_name: str, tasks: Sequence[Task], gone_usec: int
    ) -> None:
        """Make tombstones of tasks that are given up, and remember them as they were."""
        parameters = {
            "sequences": session.listed([task.sequence for task in tasks]),
            "nothing": b"",
            "free_usec": gone_usec + self._tombstone_usec,
        }
        session.change(sql.BURY_SEQUENCES, parameters)
        session.change_many(sql.KEEP_EXHAUSTED, [columns_of(task) for task in tasks])
        bound = {
            "queue": queue_name,
            "kept": self._limits.exhausted_kept,
            "payload_bytes": self._limits.exhausted_payload_bytes,
        }
        session.change(sql.FORGET_EXHAUSTED, bound)
        self._balance(session, queue_name, -len(tasks), -sum(task.stored_bytes for task in tasks))
        self._record(session, EventKind.EXHAUSTED, queue_name, tasks, usec=gone_usec)

    def _record(
        self,
        session: Session,
        kind: EventKind,
        queue_name: str,
        tasks: Sequence[Task],
        *,
        usec: int | None = None,
        until_usec: int | None = None,
    ) -> None:
        """Remember that one operation did `kind` to `tasks`, now or at a moment."""
        steps = [(task.name, task.retry_count) for task in tasks]
        self._record_steps(session, kind, queue_name, steps, usec=usec, until_usec=until_usec)

    def _record_steps(
        self,
        session: Session,
        kind: EventKind,
        queue_name: str,
        steps: Sequence[Row],
        *,
        usec: int | None = None,
        until_usec: int | None = None,
    ) -> None:
        """Remember an operation like `_record`; each step begins with name and retry count."""
        told = steps[: max(1, self._limits.events_kept)]  # the latest is told, whatever is kept
        if len(told) == 1:
            ((name, retry_count, *_),) = told
            names, retry_counts = name, str(retry_count)
        else:
            names = joined([step[0] for step in told])
            retry_counts = joined([step[1] for step in told])
        moment = session.now_usec if usec is None else usec
        event = (queue_name, moment, kind.value, until_usec, len(told), names, retry_counts)
        self._write_event(session, event)
        self._touch(session, queue_name, len(steps))

    def _write_event(self, session: Session, event: EventRow) -> None:
        session.change(sql.RECORD, dict(zip(_EVENT_COLUMNS, event, strict=True)))

    def _touch(self, session: Session, queue_name: str, tasks: int) -> None:
        """Count tasks that something happened to, and sweep now and then."""
        self._touched[queue_name] += tasks
        if self._touched[queue_name] < _SWEEP_AFTER:
            return
        self._touched[queue_name] = 0
        self._sweep(session, queue_name)

    def _sweep(self, session: Session, queue_name: str) -> None:
        """Throw old records of a queue away, and tombstones whose time has passed."""
        with self._afterwards(session), session.transaction():
            queue = {"queue": queue_name}
            self._exclude(session, "sweeping")
            told = session.row(sql.TOLD, queue) or (0,)
            excess = int(told[0]) - self._limits.events_kept
            if excess > 0:
                bound = {"excess": excess, "rows": _ROWS_SWEPT}
                session.change(sql.FORGET_EVENTS, {**queue, **bound})
            second = session.now_usec // USEC_PER_SECOND - HOUR_SECONDS
            session.change(sql.FORGET_LEASED, {**queue, "second": second})
            swept = {"now_usec": session.now_usec, "rows": _ROWS_SWEPT}
            session.change(sql.FORGET_TOMBSTONES, swept)

    @contextmanager
    def _afterwards(self, session: Session) -> Iterator[None]:
        """Do what can wait until another time, where it cannot be done now."""
        if not session.is_idle:
            yield
            return
        # What the caller asked for is done, and must not be told to have failed.
        with suppress(*self._passing_errors):
            yield
