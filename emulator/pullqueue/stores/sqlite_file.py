"""Opening the file of an SQLite store: what it must be, and what is refused and left as it is."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from pullqueue.errors import InternalError, StoreError
from pullqueue.stores.sql_files import migrations
from pullqueue.text import describe_os_error, quoted

_APPLICATION_ID = 0x70756C71
"""`pulq`, in the header of the file: marks a store."""
_LOCK_TIMEOUT_SECONDS = 1.0
"""How long to wait for a server that is being stopped."""
_SYNCHRONOUS = ("normal", "full")
_OWNER_ONLY = 0o600


def parsed(url: str) -> tuple[Path, str]:
    """Return the path of `sqlite:///FILE?synchronous=...`, and the option.

    Raises:
        StoreError: the URL has no file, or an unknown option.
    """
    address, _, query = url.partition("?")
    _, slashes, name = address.partition(":///")
    path = unquote(name)
    if not slashes or not name or name == ":memory:":
        raise StoreError(f"store {quoted(url)} has no file: use sqlite:///FILE, or memory")
    if "\0" in path:
        raise StoreError(f"store {quoted(url)} has a file name with a NUL character: use another")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in _SYNCHRONOUS:
        raise StoreError(
            f'store "{url}" has an unknown option: only synchronous=normal and synchronous=full '
            "are allowed"
        )
    try:
        # What a symbolic link leads to: the log is beside the file itself.
        return Path(path).resolve(), synchronous
    except (OSError, RuntimeError) as error:  # links in a circle
        raise StoreError(
            f"store {quoted(url)} cannot be opened: {describe_os_error(error)}"
        ) from error


def open_file(path: Path, *, synchronous: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Open a file, or make it, and migrate it to the newest version.

    Return a connection that writes and one that reads. While they are open, no other process can
    open the file as a store; other programs can read it.

    Raises:
        StoreError: the file is in use, not a store, damaged, or of a newer version; it is left
            untouched.
    """
    scripts = migrations("sqlite")
    opened: list[sqlite3.Connection] = []
    try:
        if path.exists() and path.stat().st_size:
            _check(path, scripts)
        elif not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
        writer = _connected(path)
        opened.append(writer)
        # Constraints are not checked by a connection that can only read.
        _check_content(writer, path)
        _configure(writer, synchronous)
        _migrate(writer, scripts)
        reader = _connected(path)
        opened.append(reader)
        reader.execute("PRAGMA query_only = ON")
        reader.execute("SELECT count(*) FROM tasks WHERE false").fetchone()
    except BaseException as error:
        for connection in opened:
            connection.close()
        if isinstance(error, sqlite3.Error | OSError | UnicodeDecodeError):
            raise opening_error(path, error) from error
        raise
    return writer, reader


class SqliteFile:
    """The connections of a file, which the stores of all projects share."""

    def __init__(self, path: Path, synchronous: str) -> None:
        """Open a file; raise like `open_file`."""
        self.path = path
        self.writer, self.reader = open_file(path, synchronous=synchronous)
        self.lock = threading.RLock()
        """Of the connection that writes."""
        self.reader_lock = threading.Lock()
        self._identity = _identity(path)

    def check(self) -> None:
        """Notice that the file is gone, which SQLite does not: it would go on without it.

        Raises:
            InternalError: the file was deleted or replaced.
        """
        if _identity(self.path) != self._identity:
            raise InternalError(
                f'store file "{self.path}" was deleted or replaced while it was in use: '
                "put it back, or restart the server"
            )

    def close(self) -> None:
        """Close both connections."""
        with self.reader_lock, self.lock:
            self.reader.close()
            self.writer.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )


def _check(path: Path, scripts: Sequence[str]) -> None:
    # A connection that can only read changes nothing in the file, not even by a log left beside it;
    # without a log, it can be kept from making one.
    has_log = path.with_name(f"{path.name}-wal").exists()
    access = "mode=ro" if has_log else "immutable=1"
    address = f"file:{quote(str(path))}?{access}"
    connection = sqlite3.connect(address, uri=True, timeout=_LOCK_TIMEOUT_SECONDS)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if owner != _APPLICATION_ID:
            raise StoreError(
                f'"{path}" is the database of another program: use another file for the store'
            )
        if version > len(scripts):
            raise StoreError(
                f'"{path}" was written by a newer pullqueue (schema {version}, known here: '
                f"{len(scripts)}): upgrade pullqueue, or use another file"
            )
        _check_content(connection, path)
        schema = _schema_of(scripts[: max(version, 0)])
        if not schema <= _schema(connection):
            raise _damaged(path, "its tables were changed")
        for kind, table, name, sql in schema:
            if kind == "index" and not _is_complete(connection, table, name, sql):
                raise _damaged(path, f"index {name} has not one row for each of {table}")
    finally:
        connection.close()


def _check_content(connection: sqlite3.Connection, path: Path) -> None:
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise _damaged(path, state)


def _is_complete(connection: sqlite3.Connection, table: str, index: str, sql: str | None) -> bool:
    """Return whether an index has as many rows as its table.

    In a copy of a file that was in use it may not. It takes 0.2 s for a million
    tasks; `PRAGMA integrity_check`, which compares the rows, takes 2.5 s.
    """
    if sql is None:  # of a primary key
        return True
    condition = " ".join(sql.split()).partition(" WHERE ")[2] or "true"
    counted = (
        f"(SELECT count(*) FROM {table} {way} WHERE {condition})"
        for way in ("NOT INDEXED", f"INDEXED BY {index}")
    )
    (is_complete,) = connection.execute(f"SELECT {' = '.join(counted)}").fetchone()
    return bool(is_complete)


def _schema_of(scripts: Sequence[str]) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("".join(scripts))
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("SELECT type, tbl_name, name, sql FROM sqlite_master"))


def _configure(connection: sqlite3.Connection, synchronous: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA cache_size = -65536")
    # What undoes a statement that fails needs no file.
    connection.execute("PRAGMA temp_store = MEMORY")
    # The log is written back, and the disk waited for, every 16 MB.
    connection.execute("PRAGMA wal_autocheckpoint = 4096")
    # Every process that has the file open has a shared lock on it, so that only the first one gets
    # an exclusive lock. From then on other programs can read.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("COMMIT")
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _migrate(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    marks = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {len(scripts)};"
    if version < len(scripts):
        connection.executescript("".join(["BEGIN IMMEDIATE;", *scripts[version:], marks, "COMMIT"]))


def opening_error(path: Path, error: Exception) -> StoreError:
    """Return the error for a file that cannot be opened, or whose content cannot be read."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f'"{path}" is in use by another process: stop it, or use another file; '
            "several servers can share a postgresql:// store"
        )
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f'"{path}" is not an SQLite database: use another file for the store')
    if isinstance(error, UnicodeDecodeError):  # of a message that repeats what is damaged
        return _damaged(path, "names that are not UTF-8")
    if code == sqlite3.SQLITE_CORRUPT:
        return _damaged(path, str(error))
    detail = getattr(error, "strerror", None) or error
    return StoreError(f'"{path}" cannot be opened as a store: {detail}')


def _damaged(path: Path, detail: str) -> StoreError:
    return StoreError(
        f'"{path}" is damaged ({detail.splitlines()[-1]}): restore it from a copy, or use '
        "another file"
    )
