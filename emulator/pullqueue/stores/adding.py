"""How tasks come into an SQL store."""

from __future__ import annotations

from collections.abc import Sequence

from pullqueue.engine import refusals
from pullqueue.engine.store import DRAFT_BYTES, DRAFT_NAME, Draft, Insertion
from pullqueue.errors import (
    NameTakenError,
    TaskAlreadyExistsError,
    TombstonedTaskError,
)
from pullqueue.stores import statements as sql
from pullqueue.stores.base import SqlBase
from pullqueue.stores.session import Session


class SqlAdder(SqlBase):
    """The part of an SQL store that takes tasks in."""

    def insert(
        self, queue_name: str, drafts: Sequence[Draft], *, storage_limit_bytes: int | None
    ) -> Insertion:
        """Store tasks; see `TaskStore.insert`."""
        with self._session() as session:
            named = any(draft[DRAFT_NAME] for draft in drafts)
            if storage_limit_bytes is None and (len(drafts) == 1 or not named):
                # One statement does it all: of many, only a given name can need another.
                return self._insert(session, queue_name, drafts)
            with session.transaction():
                refused: dict[str, type[NameTakenError]] = {}
                if storage_limit_bytes is not None:
                    self._exclude(session, "storage limit")
                    self._catch_up(session)
                    refused = self._taken(session, queue_name, drafts)
                    drafts = [draft for draft in drafts if draft[DRAFT_NAME] not in refused]
                added, more = self._insert(session, queue_name, drafts, storage_limit_bytes)
                return Insertion(added, refused | more)

    def _insert(
        self,
        session: Session,
        queue_name: str,
        drafts: Sequence[Draft],
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
        # A name may be that of a task whose end has come.
        self._catch_up(session)
        added = {task.name for task in stored}
        taken = self._taken(session, queue_name, named)
        refused: dict[str, type[NameTakenError]] = {}
        again: list[Draft] = []
        for draft, (name, *_) in zip(drafts, named, strict=True):
            given = draft[DRAFT_NAME]
            if given is not None and given in taken and given not in added:
                refused[given] = taken[given]
            elif name not in added:
                again.append(draft)
        more = self._insert(session, queue_name, again)
        return Insertion(
            sorted([*stored, *more.added], key=lambda task: task.sequence), refused | more.refused
        )

    def _named(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Give a name to the drafts that have none."""
        given = {name for name, *_ in drafts if name is not None}
        if len(given) == len(drafts):
            return drafts
        named: list[Draft] = []
        for draft in drafts:
            if draft[DRAFT_NAME] is not None:
                named.append(draft)
                continue
            name = self._names()
            while name in given:
                name = self._names()
            given.add(name)
            _, payload, tag, eta_usec, size = draft
            named.append((name, payload, tag, eta_usec, size + len(name)))
        return named

    def _taken(
        self, session: Session, queue_name: str, drafts: Sequence[Draft]
    ) -> dict[str, type[NameTakenError]]:
        """Give those names that are taken, and by what."""
        names = session.listed([name for name, *_ in drafts if name is not None])
        parameters = {"queue": queue_name, "names": names, "now_usec": session.now_usec}
        return {
            name: TombstonedTaskError if is_tombstone else TaskAlreadyExistsError
            for name, is_tombstone in session.rows(sql.NAMES, parameters)
        }

    def _check_storage(self, session: Session, drafts: Sequence[Draft], limit_bytes: int) -> None:
        needed = self._held(session, None)[1]
        needed += sum(draft[DRAFT_BYTES] for draft in drafts)
        if needed > limit_bytes:
            raise refusals.over_quota(len(drafts), needed, limit_bytes)
