"""All of an SQL store at once: emptied, taken out, put back."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.store import QueueContents, RetryLimit
from pullqueue.stores import statements as sql
from pullqueue.stores.base import HOUR_SECONDS, SqlBase
from pullqueue.stores.rows import columns_of, tasks_of
from pullqueue.stores.schema import TABLES
from pullqueue.stores.session import Session

_KEPT_TABLE = "retry_limits"
"""It belongs to the configuration, which is not forgotten."""


class SqlTransfer(SqlBase):
    """The part of an SQL store that deals with all it holds."""

    @abstractmethod
    def _renumber(self, session: Session) -> None:
        """Let new tasks have numbers above those that are there."""

    def clear(self) -> None:
        """Forget everything."""
        with self._session() as session, session.transaction():
            self._empty(session)
            self._renumber(session)

    def export(self) -> dict[str, QueueContents]:
        """Give the contents of every queue that has any."""
        contents: defaultdict[str, QueueContents] = defaultdict(
            lambda: QueueContents([], [], {}, [])
        )
        with self._settled() as session, session.transaction():
            self._as_of_one_moment(session)
            second = session.now_usec // USEC_PER_SECOND - HOUR_SECONDS
            for task in tasks_of(session.rows(sql.ALL_TASKS, {})):
                contents[task.queue_name].tasks.append(task)
            for task in tasks_of(session.rows(sql.ALL_EXHAUSTED, {})):
                contents[task.queue_name].exhausted.append(task)
            moment = {"now_usec": session.now_usec}
            for queue_name, name, free_usec in session.rows(sql.ALL_TOMBSTONES, moment):
                contents[queue_name].tombstones[name] = free_usec
            for queue_name, counted, tasks in session.rows(sql.ALL_LEASED, {"second": second}):
                contents[queue_name].leased.append((counted, int(tasks)))
        return dict(contents)

    def restore(
        self, contents: Mapping[str, QueueContents], *, retry_limits: Mapping[str, RetryLimit]
    ) -> None:
        """Keep other contents; see `TaskStore.restore`."""
        with self._session() as session, session.transaction():
            self._empty(session)
            for queue_name, held in contents.items():
                session.change_many(sql.RESTORE_TASK, [columns_of(task) for task in held.tasks])
                session.change_many(
                    sql.KEEP_EXHAUSTED, [columns_of(task) for task in held.exhausted]
                )
                weight = sum(task.stored_bytes for task in held.tasks)
                self._balance(session, queue_name, len(held.tasks), weight)
                for second, tasks in held.leased:
                    counted = {"queue": queue_name, "second": second, "tasks": tasks}
                    session.change(sql.COUNT_LEASED, counted)
            self._renumber(session)
            for queue_name, held in contents.items():
                tombstones = [
                    {"queue": queue_name, "name": name, "nothing": b"", "free_usec": free_usec}
                    for name, free_usec in held.tombstones.items()
                ]
                session.change_many(sql.RESTORE_TOMBSTONE, tombstones)
                limit = retry_limits.get(queue_name, RetryLimit())
                wanted = {"queue": queue_name, **limit._asdict()}
                session.change(sql.LIMIT_LEASES, wanted)
                session.change(sql.SET_RETRY_LIMIT, wanted)
            self._ends_at(0)
            self._catch_up(session)

    def _empty(self, session: Session) -> None:
        for table in TABLES:
            if table != _KEPT_TABLE:
                session.change(f"DELETE FROM {table}", {})
