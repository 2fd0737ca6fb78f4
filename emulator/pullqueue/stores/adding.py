"""How tasks come into an SQL store."""

from __future__ import annotations

from collections.abc import Sequence

from pullqueue.engine import task_errors
from pullqueue.engine.store import Insertion, ValidatedTask
from pullqueue.errors import (
    NameInUseError,
    TaskAlreadyExistsError,
    TombstonedTaskError,
)
from pullqueue.stores import statements as sql
from pullqueue.stores.base import SqlBase
from pullqueue.stores.session import Session
from pullqueue.tasks import Task


class SqlAdder(SqlBase):
    """The part of an SQL store that takes tasks in."""

    def insert(
        self,
        queue_name: str,
        new_tasks: Sequence[ValidatedTask],
        *,
        storage_limit_bytes: int | None,
    ) -> Insertion:
        """Store tasks; see `TaskStore.insert`."""
        drafts = new_tasks
        with self._session() as session:
            named = any(draft.name for draft in drafts)
            if storage_limit_bytes is None and (len(drafts) == 1 or not named):
                # One statement does it all: of many, only a given name can need another.
                return self._insert(session, queue_name, drafts)
            with session.transaction():
                refused: dict[str, type[NameInUseError]] = {}
                if storage_limit_bytes is not None:
                    self._exclude(session, "storage limit")
                    self._catch_up(session)
                    refused = self._taken(session, queue_name, drafts)
                    drafts = [draft for draft in drafts if draft.name not in refused]
                added, more = self._insert(session, queue_name, drafts, storage_limit_bytes)
                return Insertion(added, refused | more)

    def _insert(
        self,
        session: Session,
        queue_name: str,
        drafts: Sequence[ValidatedTask],
        storage_limit_bytes: int | None = None,
    ) -> Insertion:
        if not drafts:
            return Insertion([], {})
        named = self._named(drafts)
        if storage_limit_bytes is not None:
            self._check_storage(session, named, storage_limit_bytes)
        stored = self._store(session, queue_name, named)
        if len(stored) == len(named):
            return Insertion(stored, {})
        return self._insert_others(session, queue_name, drafts, named, stored)

    def _insert_others(
        self,
        session: Session,
        queue_name: str,
        drafts: Sequence[ValidatedTask],
        named: Sequence[ValidatedTask],
        stored: Sequence[Task],
    ) -> Insertion:
        """Find out whose names are given and taken, and let the others get other names."""
        added: dict[str | None, Task] = {task.name: task for task in stored}
        refused: dict[str, type[NameInUseError]] = {}
        while len(added) + len(refused) < len(drafts):
            # A name may be that of a task whose end has come.
            self._catch_up(session)
            taken = self._taken(session, queue_name, drafts)
            refused |= {name: taken[name] for name in taken if name not in added}
            named = self._named(
                [
                    made if draft.name or made.name in added else draft
                    for draft, made in zip(drafts, named, strict=True)
                ]
            )
            done = added.keys() | refused.keys()
            again = [draft for draft in named if draft.name not in done]
            if again:
                tasks = self._store(session, queue_name, again)
                added.update((task.name, task) for task in tasks)
        return Insertion([added[name] for name, *_ in named if name in added], refused)

    def _named(self, drafts: Sequence[ValidatedTask]) -> Sequence[ValidatedTask]:
        """Give a name to the drafts that have none."""
        given = {name for name, *_ in drafts if name is not None}
        if len(given) == len(drafts):
            return drafts
        named: list[ValidatedTask] = []
        for draft in drafts:
            if draft.name is not None:
                named.append(draft)
                continue
            name = self._names()
            while name in given:
                name = self._names()
            given.add(name)
            _, payload, tag, eta_usec, size = draft
            named.append(ValidatedTask(name, payload, tag, eta_usec, size + len(name)))
        return named

    def _taken(
        self, session: Session, queue_name: str, drafts: Sequence[ValidatedTask]
    ) -> dict[str, type[NameInUseError]]:
        """Give those names that are taken, in the order of the drafts, and by what."""
        names = [name for name, *_ in drafts if name is not None]
        parameters = {
            "queue": queue_name,
            "names": session.listed(names),
            "now_usec": session.now_usec,
        }
        found = {
            name: TombstonedTaskError if is_tombstone else TaskAlreadyExistsError
            for name, is_tombstone in session.rows(sql.NAMES, parameters)
        }
        return {name: found[name] for name in names if name in found}

    def _check_storage(
        self, session: Session, drafts: Sequence[ValidatedTask], limit_bytes: int
    ) -> None:
        needed = self._held(session, None)[1]
        needed += sum(draft.size for draft in drafts)
        if needed > limit_bytes:
            raise task_errors.over_quota(len(drafts), needed, limit_bytes)
