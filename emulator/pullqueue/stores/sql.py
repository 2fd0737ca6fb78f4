"""What a store in SQL does: the operations that are the same in every database.

Their statements are in `shared.sql`, or in `sqlite.sql` and `postgres.sql` under the same names.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from uuid import uuid4

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import task_errors
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import current_origin
from pullqueue.engine.retention import Retention
from pullqueue.engine.store import Insertion, LeaseChange, QueueContents, Target
from pullqueue.errors import PullQueueError, TransientError
from pullqueue.limits import KIB
from pullqueue.stores.rows import Row, attempted, count_finished, encode, is_storable, result_values
from pullqueue.stores.session import retried
from pullqueue.stores.sql_reading import HOUR_SECONDS, S
from pullqueue.stores.sql_records import SqlRecords
from pullqueue.tasks import (
    AttemptRecord,
    AttemptResult,
    DeleteResult,
    NameInUseError,
    NewTask,
    Task,
    TaskAlreadyExistsError,
    TombstonedTaskError,
)

_TRIM_AFTER = 5_000
"""The records of a queue are trimmed after operations on so many of its tasks."""
_ROWS_TRIMMED = 4 * _TRIM_AFTER
"""More than were added since, so that a backlog is worked off."""
_CHECK_BYTES = 64 * KIB
"""Payload of the task of a check: longer than most, and not too much to write every few seconds."""
_FIRST = -(2**63)


class SqlStore(SqlRecords[S]):
    """A store in a database, with sessions of its own kind."""

    # -- what each database does in its own way --------------------------------------------------

    @abstractmethod
    def _operation(self) -> AbstractContextManager[S]:
        """Return a session for one statement that changes tasks, and what follows if it does not.

        That may see tasks that are past the end of their last lease.
        """

    @abstractmethod
    def _replacing(self) -> AbstractContextManager[S]:
        """Return a session that is one transaction and begins with deleting everything."""

    @abstractmethod
    def _store(self, session: S, target: Target, named: Sequence[NewTask]) -> list[Task]:
        """Store tasks with names and record it; return those whose names were free."""

    def _modified(
        self,
        session: S,
        kind: EventKind,
        task: Task,
        ended: AttemptRecord | None = None,
        size: int = 1,
    ) -> None:
        """Record that a lease was changed, or an attempt started or failed, as `size` events.

        It does nothing if the statement does this.
        """

    def _removed(self, session: S, kind: EventKind, queue_name: str, rows: Sequence[Row]) -> None:
        """Record that tasks are gone, if the statement does not.

        They are rows of name, retry count and size.
        """

    @abstractmethod
    def _count(self, session: S, happened: Mapping[str, object]) -> None:
        """Record attempts that are only counted."""

    @abstractmethod
    def _ended(self, session: S, task: Task, attempts: AttemptRecord, size: int) -> Row | None:
        """Delete a push task after its last attempt, record that, and keep it if it is exhausted.

        Return its row as it was before, or None if there is no such task.
        """

    @abstractmethod
    def _restored(self, session: S) -> None:
        """Update totals and numbering after tasks were restored."""

    # -- adding ----------------------------------------------------------------------------------

    def _insert(self, session: S, target: Target, new_tasks: Sequence[NewTask]) -> Insertion:
        """Store tasks; where a generated name is in use, generate another."""
        named = self._named(new_tasks)
        added = {task.name: task for task in self._store(session, target, named)}
        refused: dict[str, type[NameInUseError]] = {}
        while len(added) + len(refused) < len(named):
            # A name may be that of a task that is exhausted by now.
            self._catch_up(session)
            known = added.keys() | refused
            missing = [new.name for new in named if new.name not in known]
            in_use = self._names_in_use(session, target.queue, missing)
            given = {new.name for new in new_tasks}
            refused |= {name: error for name, error in in_use.items() if name in given}
            named = self._named(
                [
                    new if new.name is None and made.name in in_use else made
                    for new, made in zip(new_tasks, named, strict=True)
                ]
            )
            again = [new for new in named if new.name not in added and new.name not in refused]
            if again:
                tasks = self._store(session, target, again)
                added.update((task.name, task) for task in tasks)
        return Insertion([added[new.name] for new in named if new.name in added], refused)

    def _insert_within(self, session: S, target: Target, new_tasks: Sequence[NewTask]) -> Insertion:
        """Store tasks if their queue's limit permits their size."""
        refused = self._names_in_use(session, target.queue, [new.name for new in new_tasks])
        accepted = self._named([new for new in new_tasks if new.name not in refused])
        if not accepted:
            return Insertion([], refused)
        needed = self._all_bytes(session) + sum(new.stored_bytes for new in accepted)
        limit_bytes = target.storage_limit_bytes
        if limit_bytes is not None and needed > limit_bytes:
            raise task_errors.over_quota(len(accepted), needed, limit_bytes)
        added, more = self._insert(session, target, accepted)
        return Insertion(added, refused | more)

    def _named(self, new_tasks: Sequence[NewTask]) -> Sequence[NewTask]:
        """Generate names for the tasks that have none."""
        used = {new.name for new in new_tasks}
        if None not in used:
            return new_tasks
        named: list[NewTask] = []
        for new in new_tasks:
            name = new.name
            if name is None:
                name = self._names()
                while name in used:
                    name = self._names()
                used.add(name)
                new = new._replace(name=name)  # noqa: PLW2901
            named.append(new)
        return named

    def _names_in_use(
        self, session: S, queue_name: str, task_names: Iterable[str | None]
    ) -> dict[str, type[NameInUseError]]:
        """Return the names that are in use, in the order given, and the error for each."""
        names = [name for name in task_names if name is not None]
        listed = session.listed(names)
        rows = session.rows(
            "names_in_use", queue=queue_name, names=listed, now_usec=session.now_usec
        )
        found = {row[0]: row[1] for row in rows}
        return {
            name: TombstonedTaskError if found[name] else TaskAlreadyExistsError
            for name in names
            if name in found
        }

    # -- changing and deleting -------------------------------------------------------------------

    @retried
    def modify_lease(self, queue_name: str, task_name: str, change: LeaseChange) -> Task:
        kind = EventKind.EXTENDED if change.lease_usec else EventKind.RELEASED
        with self._operation() as session:
            row = is_storable(task_name) and session.row(
                "modify_lease",
                now_usec=session.clock_usec,
                queue=queue_name,
                name=task_name,
                expected_eta_usec=change.expected_eta_usec,
                lease_usec=change.lease_usec,
                kind=kind.value,
                origin=encode(current_origin()),
                **change.retention._asdict(),
            )
            if not row:
                raise self._lease_lost(session, queue_name, task_name)
            task = self._keys.decode_task(row)
            self._modified(session, kind, task)
        self._touch(queue_name, 1)
        return task

    @retried
    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        names = list(task_names)
        storable = [name for name in names if is_storable(name)]
        in_use: dict[str, type[NameInUseError]] = {}
        with self._operation() as session:
            deleted = self._delete(session, queue_name, storable, None)
            if len(deleted) < len(names):
                self._catch_up(session)
                in_use = self._names_in_use(session, queue_name, storable)
        self._touch(queue_name, len(deleted))
        results: list[DeleteResult] = []
        for name in names:
            if name in deleted:
                deleted.remove(name)
                results.append(DeleteResult.DELETED)
            elif in_use.get(name) is TombstonedTaskError:
                results.append(DeleteResult.TOMBSTONED)
            else:
                results.append(DeleteResult.UNKNOWN)
        return results

    @retried
    def acknowledge(self, queue_name: str, task_name: str, *, expected_eta_usec: int) -> None:
        names = [task_name] if is_storable(task_name) else []
        with self._operation() as session:
            if not self._delete(session, queue_name, names, expected_eta_usec):
                raise self._lease_lost(session, queue_name, task_name)
        self._touch(queue_name, 1)

    # -- attempts --------------------------------------------------------------------------------

    def start_attempt(
        self, task: Task, *, lease_usec: int, attempts: AttemptRecord, counted: int
    ) -> Task:
        kind, size = EventKind.ATTEMPT_STARTED, 0 if counted else 1
        return self._move_attempt(task, lease_usec, kind, attempts, size=size, started=counted or 1)

    def renew_attempt(self, task: Task, *, lease_usec: int) -> Task:
        return self._move_attempt(task, lease_usec, None, None)

    @retried
    def finish_attempt(
        self, task: Task, *, attempts: AttemptRecord, backoff_usec: int | None, counted: int
    ) -> Task:
        size = 0 if counted else 1
        if not attempts.succeeded and backoff_usec is not None:
            kind = EventKind.ATTEMPT_FAILED
            return self._move_attempt(task, backoff_usec, kind, attempts, size=size)
        with self._operation() as session:
            row = is_storable(task.name) and self._ended(session, task, attempts, size)
            if not row:
                raise self._attempt_lost(session, task)
            if not attempts.succeeded:
                self._trim_exhausted(session, task.queue_name)
        self._touch(task.queue_name, 1)
        return self._keys.decode_task(row)._replace(attempts=attempts)

    @retried
    def _move_attempt(
        self,
        task: Task,
        wait_usec: int,
        kind: EventKind | None,
        attempts: AttemptRecord | None,
        *,
        size: int = 1,
        started: int = 0,
    ) -> Task:
        """Move the eta of a push task; `kind` is what has happened, None: its attempt goes on."""
        ended = attempts if kind is EventKind.ATTEMPT_FAILED else None
        with self._operation() as session:
            row = is_storable(task.name) and session.row(
                "move_attempt",
                **attempted(task),
                now_usec=session.clock_usec,
                wait_usec=wait_usec,
                size=size,
                started=started,
                attempts=attempts and encode(attempts),
                finished=None if attempts is None else attempts.finished,
                kind=None if kind is None else kind.value,
                **result_values(ended),
                origin=encode(current_origin()),
            )
            if not row:
                raise self._attempt_lost(session, task)
            task = self._keys.decode_task(row)
            if kind is not None:
                self._modified(session, kind, task, ended, size)
        self._touch(task.queue_name, 1)
        return task

    @retried
    def count_failed(self, queue_name: str, counts: Counter[int], result: AttemptResult) -> None:
        with self._operation() as session:
            for usec, size in counts.items():
                for kind in (EventKind.ATTEMPT_STARTED, EventKind.ATTEMPT_FAILED):
                    happened = {"queue": queue_name, "usec": usec, "kind": kind.value, "size": size}
                    self._count(session, happened | result._asdict())

    def _attempt_lost(self, session: S, task: Task) -> PullQueueError:
        self._catch_up(session)
        current = self._get(session, task.queue_name, task.name)
        return task_errors.attempt_lost(current, task.eta_usec)

    def _delete(
        self, session: S, queue_name: str, names: Sequence[str], expected_eta_usec: int | None
    ) -> set[str]:
        rows = session.rows(
            "delete",
            now_usec=session.clock_usec,
            queue=queue_name,
            names=session.listed(names),
            expected_eta_usec=expected_eta_usec,
            tombstone_usec=self._tombstone_usec,
            origin=encode(current_origin()),
        )
        self._removed(session, EventKind.DELETED, queue_name, rows)
        return {row[0] for row in rows}

    def _lease_lost(self, session: S, queue_name: str, task_name: str) -> PullQueueError:
        self._catch_up(session)
        task = self._get(session, queue_name, task_name)
        return task_errors.lease_lost(task, session.now_usec)

    def remove_exhausted(self, queue_name: str, task_names: Iterable[str]) -> int:
        with self._writing() as session:
            self._catch_up(session)
            names = session.listed([name for name in task_names if is_storable(name)])
            return session.change("remove_exhausted", queue=queue_name, names=names)

    # -- names and limits -------------------------------------------------------------------------

    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        with self._writing() as session:
            self._catch_up(session)
            if task_names is None:
                session.change("free_all_names", queue=queue_name)
            else:
                names = session.listed([name for name in task_names if is_storable(name)])
                session.change("free_names", queue=queue_name, names=names)

    def change_retention(self, queue_name: str, retention: Retention) -> None:
        with self._writing(unlimited=True) as session:
            before = session.row("retention", queue=queue_name) or Retention()
            if tuple(before) != retention:
                # By the retention before, some tasks may have been exhausted already.
                self._catch_up(session)
                self._set_retention(session, queue_name, retention)

    def _set_retention(self, session: S, queue_name: str, retention: Retention) -> None:
        session.change("apply_retention", queue=queue_name, **retention._asdict())
        session.change("set_retention", queue=queue_name, **retention._asdict())

    def _touch(self, queue_name: str, tasks: int) -> None:
        """Count the tasks of an operation that is done; trim the records now and then."""
        self._touched[queue_name] += tasks
        if self._touched[queue_name] >= _TRIM_AFTER:
            self._touched[queue_name] = 0
            # The operation is done and must not fail because of this: it can wait.
            with suppress(TransientError), self._writing() as session:
                self._trim(session, queue_name)

    def _trim(self, session: S, queue_name: str) -> None:
        """Delete old records of a queue, and tombstones that have expired."""
        recorded = session.row("recorded_events", queue=queue_name) or (0,)
        excess = int(recorded[0]) - self._limits.events_kept
        if excess > 0:
            session.change("trim_events", queue=queue_name, excess=excess, rows=_ROWS_TRIMMED)
        second = session.now_usec // USEC_PER_SECOND - HOUR_SECONDS
        session.change("trim_leased", queue=queue_name, second=second)
        session.change("trim_tombstones", now_usec=session.now_usec, rows=_ROWS_TRIMMED)

    def _trim_exhausted(self, session: S, queue_name: str) -> None:
        session.change(
            "trim_exhausted",
            queue=queue_name,
            kept=self._limits.exhausted_kept,
            payload_bytes=self._limits.exhausted_payload_bytes,
        )

    def check(self) -> None:
        name, payload = uuid4().hex, os.urandom(_CHECK_BYTES)
        with self._writing() as session:
            session.change("check", queue="", name=name, payload=payload, free_usec=_FIRST)
            session.change("remove_checks", name=name, free_usec=_FIRST)

    # -- everything ------------------------------------------------------------------------------

    def clear(self) -> None:
        with self._replacing() as session:
            self._restored(session)

    def restore(
        self, contents: Mapping[str, QueueContents], *, retentions: Mapping[str, Retention]
    ) -> None:
        with self._replacing() as session:
            encode_task = self._keys.encode_task
            tasks = [task for restored in contents.values() for task in restored.tasks]
            tasks.sort(key=lambda task: task.sequence)
            [last] = session.row("last_sequence") or [0]
            if tasks and tasks[0].sequence <= last:  # a task of another project has it
                tasks = [task._replace(sequence=n) for n, task in enumerate(tasks, last + 1)]
            rows = ((*encode_task(task), count_finished(task)) for task in tasks)
            session.change_many("restore_task", rows)
            for queue_name, restored in contents.items():
                session.change_many("restore_exhausted", map(encode_task, restored.exhausted))
                if restored.record is not None:
                    record = restored.record._asdict()
                    record["settings"] = encode(restored.record.settings)
                    session.change("set_queue_record", queue=queue_name, **record)
                for second, count in restored.leased:
                    session.change("count_leased", queue=queue_name, second=second, tasks=count)
            self._restored(session)
            for queue_name, restored in contents.items():
                key = self._keys.key(queue_name)
                tombstones = [(key, *item) for item in restored.tombstones.items()]
                session.change_many("restore_tombstone", tombstones)
                limit = retentions.get(queue_name, Retention())
                self._set_retention(session, queue_name, limit)
