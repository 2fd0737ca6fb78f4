"""Calls to SQLite: `sqlite3.connect` makes connections that pass their statements on.

`connect` is replaced in all modules, whatever its name is there, so that also SQLAlchemy and Django
get such connections. Not seen are connections that were made before, those made by calling
`sqlite3.Connection`, `blobopen`, and rows that are fetched later than the statement is executed.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial, wraps
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, NoReturn, Self, TypeVar, cast
from weakref import WeakSet, ref

from pullqueue.testing.patching import Patches
from pullqueue.testing.points.actors import Actor, Awaited, current_actor
from pullqueue.testing.points.databases.calls import DatabaseCall, intercept, is_observed
from pullqueue.testing.points.databases.sql import verb_of
from pullqueue.testing.points.footprint import Footprint, Path

_T = TypeVar("_T")

ALL_FILES: Final[Path] = ("sql", "sqlite")
"""All that is in any database of SQLite."""
_COMPILED = frozenset({"DELETE", "INSERT", "REPLACE", "SELECT", "UPDATE", "VALUES", "WITH"})
"""Statements whose tables SQLite says; others can have effects while they are compiled."""
_USES = frozenset(
    {sqlite3.SQLITE_DELETE, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_READ, sqlite3.SQLITE_UPDATE}
)
_FACTORY = 5
"""Its argument that is the class of the connection."""
_WAIT_SECONDS = 5.0
"""How long a connection waits for a lock, unless it says otherwise."""


_LOCAL_PRAGMAS = re.compile(
    r"pragma\s+(\w+\.)?(busy_timeout|cache_size|case_sensitive_like|database_list|foreign_key_list|"
    r"foreign_keys|index_info|index_list|journal_mode|legacy_alter_table|mmap_size|read_uncommitted|recursive_triggers|"
    r"synchronous|table_info|table_list|table_xinfo|temp_store)\b",
    re.IGNORECASE,
)
"""Settings of a connection, and questions about the schema."""
_ENDS = frozenset({"COMMIT", "END", "ROLLBACK"})
_connections: WeakSet[ObservedConnection] = WeakSet()


class ObservedConnection(sqlite3.Connection):
    """A connection whose statements are points."""

    _numbers = count()
    used_by = "sqlite3"
    """The package by which the app uses it, as reports show it."""
    _ended: ClassVar = [0]
    """How many transactions have ended, of all connections."""

    def __init__(self, database: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(database, *args, **kwargs)
        self._is_shared_memory = "cache=shared" in str(database)
        self._number = next(self._numbers)
        self._authorizer: Any = None
        self._wait_seconds: float | None = None
        """How long it waits for a lock; None: as SQLite does."""
        self._has_lock = False
        """True if its transaction has executed anything, and may have a lock."""
        self._user: ref[Actor] | None = None
        """Who has last used it."""
        _connections.add(self)

    # -- what apps call ----------------------------------------------------------------------------

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        """Return a cursor whose statements are points."""
        if isinstance(factory, type) and issubclass(factory, sqlite3.Cursor):
            factory = _observed(ObservedCursor, factory)
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement."""
        return cast("sqlite3.Cursor", self.cursor().execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement for each of some parameters."""
        return cast("sqlite3.Cursor", self.cursor().executemany(sql, parameters))

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        """Execute statements, after a commit."""
        return cast("sqlite3.Cursor", self.cursor().executescript(sql_script))

    def commit(self) -> None:
        """Commit."""
        self._end("COMMIT", super().commit)

    def rollback(self) -> None:
        """Roll back."""
        self._end("ROLLBACK", super().rollback)

    def close(self) -> None:
        """Close the connection, which rolls back."""
        super().close()
        self._note_end()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]:
        """Commit, or roll back after an error."""
        leave = partial(super().__exit__, kind, error, traceback)
        return self._end("COMMIT" if kind is None else "ROLLBACK", leave)

    def set_authorizer(self, authorizer_callback: Any) -> None:
        """Set the app's authorizer."""
        self._authorizer = authorizer_callback
        super().set_authorizer(authorizer_callback)

    def _end(self, text: str, end: Callable[[], _T]) -> _T:
        return self.execute_at_point(text, (), end) if self.in_transaction else end()

    # -- points ------------------------------------------------------------------------------------

    def execute_at_point(self, statement: str, parameters: Any, execute: Callable[[], _T]) -> _T:
        """Execute a statement when the actor may; wait where the database is locked."""
        verb, actor = verb_of(statement), current_actor()
        if actor is not None and actor.can_wait:
            self._wait_by_clock()
        run = partial(self._run, verb, execute)
        if not is_observed() or _LOCAL_PRAGMAS.match(statement):
            result = run()
            if "busy_timeout" in statement:
                self._wait_seconds = None
            return result
        call = DatabaseCall(
            database=self.used_by,
            statement=statement,
            find_footprint=partial(self._footprint, statement, parameters),
            fail=partial(self._fail, verb),
            undoes=verb == "ROLLBACK",
            # Without `autocommit` the next one is open at once.
            is_open=lambda: verb not in _ENDS and self.in_transaction,
        )
        return intercept(call, run)

    def _run(self, verb: str, execute: Callable[[], _T]) -> _T:
        was_open, actor = self.in_transaction, current_actor()
        self._user = ref(actor) if actor is not None else None
        result = execute() if actor is None else self._run_for(actor, verb, execute)
        if verb in _ENDS or (was_open and not self.in_transaction):
            self._note_end()
        elif self.in_transaction and verb != "BEGIN":
            self._has_lock = True
        return result

    def _fail(self, verb: str) -> NoReturn:
        """Fail as where the disk does, by which SQLite rolls a commit back."""
        if verb in _ENDS:
            self._run(verb, super().rollback)
        raise sqlite3.OperationalError("disk I/O error")

    def _wait_by_clock(self) -> None:
        """Let others go on in place of waiting for real time, also for the disk."""
        if self._wait_seconds is None:
            self._wait_seconds = self._internal("PRAGMA busy_timeout").fetchone()[0] / 1000
            self._internal("PRAGMA busy_timeout = 0")
            with suppress(sqlite3.OperationalError):  # it is locked, or in a transaction
                self._internal("PRAGMA synchronous = OFF")

    def _run_for(self, actor: Actor, verb: str, execute: Callable[[], _T]) -> _T:
        while True:
            before = self._ended[0]
            try:
                return execute()
            except sqlite3.OperationalError as error:
                if not (actor.can_wait and self._would_wait(verb, error)):
                    raise
            release = Awaited(partial(self._has_ended_since, before), is_patient=True)
            if not actor.wait_for(release, self._wait_seconds or _WAIT_SECONDS):
                return execute()  # raises, unless the lock is free by now

    def _would_wait(self, verb: str, error: sqlite3.OperationalError) -> bool:
        """Return whether SQLite would wait, or a cache that is shared is locked, as in tests only.

        It does not wait to write in a transaction that has read, since that could be a deadlock.
        """
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_LOCKED_SHAREDCACHE:
            return True
        waits = bool(self._wait_seconds) and (verb in _ENDS or not self._has_lock)
        return code == sqlite3.SQLITE_BUSY and waits

    def roll_back_of(self, actor: Actor) -> None:
        """Roll back the transaction of an actor that has ended."""
        if self._user is not None and self._user() is actor:
            with suppress(sqlite3.ProgrammingError):  # it is closed, or of another thread
                super().rollback()
                self._note_end()

    def _note_end(self) -> None:
        """Note that a transaction has ended, for which others can wait."""
        self._has_lock = False
        self._ended[0] += 1

    def _has_ended_since(self, count: int) -> bool:
        return self._ended[0] > count

    # -- what a statement reads and writes ---------------------------------------------------------

    def _internal(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        cursor = super().cursor(sqlite3.Cursor)
        cursor.row_factory = None
        return cursor.execute(statement, parameters)

    def _find_files(self) -> dict[str, Path]:
        """Return all that is in each of its databases, by the name of the database there."""
        files: dict[str, Path] = {}
        for _, name, file in self._internal("PRAGMA database_list"):
            is_own = name in ("main", "temp") and not self._is_shared_memory
            memory = f"memory {self._number} {name}" if is_own else "shared memory"
            files[name] = (*ALL_FILES, os.path.realpath(file) if file else memory)
        return files

    def _footprint(self, statement: str, parameters: Any) -> Footprint:
        verb, by_name = verb_of(statement), self._find_files()
        files = frozenset(by_name.values())
        lock = frozenset((*file, "lock") for file in files)
        if verb == "BEGIN":
            takes_lock = re.search(r"\b(immediate|exclusive)\b", statement, re.IGNORECASE)
            return Footprint(writes=lock) if takes_lock else Footprint(reads=lock)
        found = self._compiled(statement, parameters, by_name) if verb in _COMPILED else None
        if found is None:
            attaches = re.search(r"\battach\b", statement, re.IGNORECASE)
            return Footprint(writes=frozenset({ALL_FILES}) if attaches else files)
        if found.writes:
            return found | Footprint(writes=lock)
        return found | Footprint(reads=lock) if self.in_transaction else found

    def _compiled(
        self, statement: str, parameters: Any, files: Mapping[str, Path]
    ) -> Footprint | None:
        """Return which tables a statement uses, also in views and triggers; None: not known."""
        used: dict[bool, set[Path]] = {False: set(), True: set()}

        def authorize(action: int, table: object, _: object, name: object, __: object) -> int:
            if action in _USES and name != "temp":
                path = (*files[str(name)], "table") if name in files else ALL_FILES
                if name in files and table != "sqlite_sequence":  # any insert can write to it
                    path = (*path, str(table).lower())
                used[action != sqlite3.SQLITE_READ].add(path)
            return sqlite3.SQLITE_OK

        super().set_authorizer(authorize)
        try:
            self._internal(f"EXPLAIN {statement}", parameters).close()
        except (sqlite3.Error, sqlite3.Warning):
            return None
        finally:
            super().set_authorizer(self._authorizer)
        reads, writes = frozenset(used[False]), frozenset(used[True])
        return Footprint(reads - writes, writes)


class ObservedCursor(sqlite3.Cursor):
    """A cursor whose statements are points."""

    connection: ObservedConnection

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Execute a statement."""
        run = partial(super().execute, sql, parameters)
        return self.connection.execute_at_point(sql, parameters, run)

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> Self:
        """Execute a statement for each of some parameters."""
        rows = list(seq_of_parameters)  # it may have to be tried again
        run = partial(super().executemany, sql, rows)
        return self.connection.execute_at_point(sql, rows[0] if rows else (), run)

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        """Execute statements, after a commit."""
        run = partial(super().executescript, sql_script)
        return self.connection.execute_at_point(f"script {sql_script}", (), run)


_made: dict[tuple[object, object], Any] = {}
"""Classes that were made of one here and one of the app."""


def _observed(base: Any, kind: Any) -> Any:
    """Return a class of connections or cursors, as one that is observed."""
    if issubclass(kind, base):
        return kind
    if issubclass(base, kind):
        return base
    if (base, kind) not in _made:
        _made[base, kind] = type(kind.__name__, (kind, base), {"__module__": kind.__module__})
    return _made[base, kind]


def _connecting(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    @wraps(connect)
    def connect_observed(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        factory = args[_FACTORY] if len(args) > _FACTORY else kwargs.pop("factory", None)
        factory = factory or sqlite3.Connection
        if isinstance(factory, type) and issubclass(factory, sqlite3.Connection):
            factory = _observed(ObservedConnection, factory)
        if len(args) > _FACTORY:
            return connect(*args[:_FACTORY], factory, *args[_FACTORY + 1 :], **kwargs)
        return connect(*args, factory=factory, **kwargs)

    return connect_observed


def release(actor: Actor) -> None:
    """Roll back what an actor has left open that has ended."""
    for connection in [*_connections]:
        connection.roll_back_of(actor)


@Patches
def following(patches: Patches) -> None:
    """Makes calls points, in a block."""
    patches.replace({sqlite3.connect: _connecting(sqlite3.connect)})
