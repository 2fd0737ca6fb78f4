"""Opening the file of an SQLite store: what it must be, and what is refused and left as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import StaticPool, create_engine

from pullqueue.errors import StoreError
from pullqueue.stores.schema import STEPS, Step

_APPLICATION_ID = 0x70756C71
"""`pulq`, in the header of the file; tells ours from others'."""
_LOCK_TIMEOUT_SECONDS = 1.0
"""How long a server that is being stopped may keep its file."""


def open_file(path: Path, *, synchronous: str, steps: Sequence[Step] = STEPS) -> sqlite3.Connection:
    """Open a file, or make it, and lead its schema to the newest version.

    The connection keeps every other process out until it is closed.

    Raises:
        StoreError: the file is in use, no store, torn, or of a newer version; it is left untouched.
    """
    try:
        if path.exists() and path.stat().st_size:
            _check(path, newest=len(steps))
        connection = sqlite3.connect(
            path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _configure(connection, synchronous)
            _migrate(connection, steps)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise StoreError(_reason(path, error)) from error
    return connection


def _check(path: Path, *, newest: int) -> None:
    # A connection that may only read brings nothing into the file, not even a log left behind; and
    # where there is no log, it can be kept from making one.
    has_log = path.with_name(f"{path.name}-wal").exists()
    access = "mode=ro" if has_log else "immutable=1"
    address = f"file:{quote(str(path.resolve()))}?{access}"
    connection = sqlite3.connect(address, uri=True, timeout=_LOCK_TIMEOUT_SECONDS)
    try:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if owner != _APPLICATION_ID:
            raise StoreError(
                f"{str(path)!r} is another program's database: name a file of its own for the store"
            )
        if version > newest:
            raise StoreError(
                f"{str(path)!r} was written by a newer pullqueue (schema {version}, known here: "
                f"{newest}): upgrade pullqueue, or name another file"
            )
        (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise StoreError(_torn(path, state))
    finally:
        connection.close()


def _configure(connection: sqlite3.Connection, synchronous: str) -> None:
    # In this order: a log opened under the exclusive lock needs no memory shared with others.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA cache_size = -65536")
    # What undoes a statement that fails halfway needs no file.
    connection.execute("PRAGMA temp_store = MEMORY")
    # The log is brought in, and the disk waited for, every 16 MB.
    connection.execute("PRAGMA wal_autocheckpoint = 4096")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def _migrate(connection: sqlite3.Connection, steps: Sequence[Step]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(steps):
        return
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as transaction:
        transaction.exec_driver_sql("BEGIN IMMEDIATE")
        for step in steps[version:]:
            step(transaction)
        transaction.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
        transaction.exec_driver_sql(f"PRAGMA user_version = {len(steps)}")
        transaction.commit()


def _reason(path: Path, error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return (
            f"{str(path)!r} is in use by another process: stop it, or name another file; "
            "several servers can share a postgresql:// store"
        )
    if code is not None and code & 0xFF == sqlite3.SQLITE_NOTADB:
        return f"{str(path)!r} is no SQLite database: name another file for the store"
    if code is not None and code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return _torn(path, str(error))
    return f"{str(path)!r} cannot be opened as a store: {error}"


def _torn(path: Path, detail: str) -> str:
    return (
        f"{str(path)!r} is damaged ({detail.splitlines()[-1]}): restore it from a copy, or name "
        "another file"
    )
