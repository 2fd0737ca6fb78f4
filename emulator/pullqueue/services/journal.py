"""The file in which a server keeps the datastore: what was acknowledged is there after a crash.

It has the entities as they are, not their history, so it does not grow with the number of writes.
Each call to the datastore that changes something is one transaction in it, written before the
response. With a commit it has the tasks that were added in the transaction, until the queue has
them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pullqueue.errors import StoreError

_APPLICATION_ID = 0x706C6473
"""`plds`, in the header of the file."""
_VERSION = 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE entities (key TEXT PRIMARY KEY, entity BLOB NOT NULL, version INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE counters (space TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (number INTEGER PRIMARY KEY, task BLOB NOT NULL);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class StoredEntity(NamedTuple):
    """A serialized entity, and the version of the datastore at which it was written."""

    entity: bytes
    version: int


class Journal:
    """The file of a datastore, which one process at a time can open. Thread-safe."""

    errors = sqlite3.Error
    """What its methods raise where the file cannot be written."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            StoreError: another process uses it, or it is not such a file, or damaged.
        """
        self._path = path
        self._lock = threading.Lock()
        with suppress(OSError):  # SQLite says why it cannot be made
            path.touch(mode=0o600)
        with ExitStack() as stack:
            try:
                self._connection = sqlite3.connect(
                    path, timeout=1, isolation_level=None, check_same_thread=False
                )
                stack.callback(self._connection.close)
                self._open()
            except sqlite3.Error as error:
                raise StoreError(self._why_not_opened(error)) from error
            stack.pop_all()

    def _open(self) -> None:
        read = self._connection.execute
        # The file is locked until it is closed, also by the death of the process.
        read("PRAGMA locking_mode = EXCLUSIVE")
        (owner,), (version,) = (
            read(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        (tables,) = read("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and owner != _APPLICATION_ID:
            raise StoreError(
                f'"{self._path}" is the database of another program: use another --data folder'
            )
        if version > _VERSION:
            raise StoreError(
                f'"{self._path}" was written by a newer pullqueue (schema {version}, known here: '
                f"{_VERSION}): upgrade pullqueue, or use another --data folder"
            )
        read("PRAGMA journal_mode = WAL")
        read("PRAGMA synchronous = NORMAL")
        if tables:
            (state,) = read("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(state)
        else:
            self._connection.executescript(_SCHEMA)

    def _why_not_opened(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f'"{self._path}" is in use by another server: stop it, or use another folder'
        if code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN:
            return f'"{self._path}" cannot be opened: check the folder and its permissions'
        return (
            f'"{self._path}" cannot be read ({error}): use another --data folder, or '
            "delete the file to begin with an empty datastore"
        )

    def close(self) -> None:
        """Close the file; nothing happens if it is closed."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def write(
        self,
        entities: Mapping[str, StoredEntity | None],
        counters: Mapping[str, int],
        tasks: Sequence[bytes] = (),
    ) -> list[int]:
        """Write entities by key, None for a deleted one, the next ids, and tasks, all or nothing.

        Return the numbers of the tasks, for `delete_tasks`.

        Raises:
            sqlite3.Error: it cannot be written; nothing has changed.
        """
        put = [(key, *stored) for key, stored in entities.items() if stored is not None]
        gone = [(key,) for key, stored in entities.items() if stored is None]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO entities VALUES (?, ?, ?)", put)
            connection.executemany("DELETE FROM entities WHERE key = ?", gone)
            connection.executemany(
                "INSERT OR REPLACE INTO counters VALUES (?, ?)", counters.items()
            )
            add = "INSERT INTO tasks (task) VALUES (?) RETURNING number"
            return [connection.execute(add, (task,)).fetchone()[0] for task in tasks]

    def entities(self) -> Iterator[StoredEntity]:
        """Yield all entities."""
        with self._lock:
            rows = self._connection.execute("SELECT entity, version FROM entities")
            yield from map(StoredEntity._make, rows)

    @property
    def has_entities(self) -> bool:
        """Whether there is an entity."""
        with self._lock:
            found = self._connection.execute("SELECT 1 FROM entities LIMIT 1").fetchone()
        return found is not None

    def counters(self) -> dict[str, int]:
        """Return the next id of each space of ids."""
        with self._lock:
            return dict(self._connection.execute("SELECT space, value FROM counters").fetchall())

    def tasks(self) -> list[tuple[int, bytes]]:
        """Return the tasks of commits that no queue has, with their numbers."""
        with self._lock:
            return self._connection.execute("SELECT number, task FROM tasks ORDER BY 1").fetchall()

    def delete_tasks(self, numbers: Sequence[int]) -> None:
        """Delete tasks that their queue has."""
        with self._transaction() as connection:
            delete = "DELETE FROM tasks WHERE number = ?"
            connection.executemany(delete, [(number,) for number in numbers])

    def clear(self) -> None:
        """Delete everything."""
        with self._transaction() as connection:
            for table in ("entities", "counters", "tasks"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
