"""What a store in SQL records beside tasks: queues, runs of cron jobs, and projects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager

from pullqueue.clock import Clock
from pullqueue.config.model import QueueSettings
from pullqueue.engine.store import (
    CronRun,
    NameSource,
    QueueRecord,
    StoredProject,
    StoreFactory,
    TaskStore,
)
from pullqueue.limits import Limits
from pullqueue.stores.rows import encode
from pullqueue.stores.session import Keys, retried
from pullqueue.stores.sql_reading import S, SqlReader

_ROWS_DROPPED = 5_000
"""How many tasks of a project are deleted at once."""


class SqlRecords(SqlReader[S]):
    """The records of a store in a database."""

    @abstractmethod
    def _writing(self, *, unlimited: bool = False) -> AbstractContextManager[S]:
        """Return a session that is one transaction; with `unlimited` it may take any time."""

    @abstractmethod
    def _drop_queue(self, session: S, queue_name: str) -> None:
        """Delete everything of a queue but its record."""

    @abstractmethod
    def _clear(self, session: S, scope: Mapping[str, object]) -> None:
        """Delete everything of a project but the retentions, which follow from its settings."""

    @abstractmethod
    def _of_project(self, keys: Keys) -> StoreFactory:
        """Return what makes the store of another project, in the same tables."""

    def read_queue_records(self) -> dict[str, QueueRecord]:
        # Not for reading: whether tasks are past their end makes no difference to records.
        with self._writing() as session:
            return self._queue_records(session)

    def change_queue_record(
        self, queue_name: str, *, paused: bool | None = None, settings: QueueSettings | None = None
    ) -> None:
        changes = {"paused": paused, "purged_usec": None, "settings": encode(settings)}
        with self._writing() as session:
            session.change("change_queue_record", queue=queue_name, **changes)

    def create_queue(self, queue_name: str, *, settings: QueueSettings, reserved_usec: int) -> bool:
        with self._writing() as session:
            last_usec = session.now_usec - reserved_usec
            record = {
                "queue": queue_name,
                "settings": encode(settings),
                "last_deleted_usec": last_usec,
            }
            return session.change("create_queue", **record) > 0

    def read_cron_runs(self) -> dict[str, CronRun]:
        with self._writing() as session:
            return {job: CronRun(*run) for job, *run in session.rows("cron_runs")}

    def record_cron_run(self, job: str, run: CronRun) -> None:
        with self._writing() as session:
            session.change("record_cron_run", job=job, **run._asdict())

    def read_projects(self) -> dict[str, StoredProject]:
        with self._writing() as session:
            return {name: StoredProject(*rest) for name, *rest in session.rows("projects")}

    def add_project(self, name: str, record: str) -> StoredProject:
        with self._writing() as session:
            [row] = session.rows("add_project", name=name, record=record)
            return StoredProject(*row)

    def find_store(self, number: int) -> StoreFactory:
        def make(*, clock: Clock, limits: Limits, names: NameSource) -> TaskStore:
            store = self._of_project(Keys(number))(clock=clock, limits=limits, names=names)
            store.url = self.url
            return store

        return make

    def drop_project(self, number: int) -> None:
        scope = Keys(number).scope
        # The record last: what is left when the process is killed can be deleted again.
        changed = _ROWS_DROPPED
        while changed == _ROWS_DROPPED:  # others wait for a short time only
            with self._writing() as session:
                changed = session.change("drop_some_tasks", **scope, rows=_ROWS_DROPPED)
        with self._writing(unlimited=True) as session:
            self._clear(session, scope)
            session.change("drop_project", **scope)
            session.change("delete_project", number=number)

    def drop_queue_record(self, queue_name: str) -> None:
        with self._writing() as session:
            session.change("drop_queue_record", queue=queue_name)

    @retried
    def delete_queue(self, queue_name: str) -> None:
        with self._writing(unlimited=True) as session:
            self._drop_queue(session, queue_name)
            record = QueueRecord(deleted_usec=session.now_usec)
            session.change("set_queue_record", queue=queue_name, **record._asdict())

    def _record_purge(self, session: S, queue_name: str) -> None:
        changes = {"paused": None, "purged_usec": session.now_usec, "settings": None}
        session.change("change_queue_record", queue=queue_name, **changes)
