"""The counter of `visits` in SQLite, by `sqlite3`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from visits import Open, Visits

CONNECT = sqlite3.connect
"""As `from sqlite3 import connect` in an app."""
UPDATE = "UPDATE counters SET value = ? WHERE name = 'all'"


def read(connection: sqlite3.Connection | sqlite3.Cursor) -> int:
    rows = connection.execute("SELECT value FROM counters WHERE name = 'all'")
    return int(rows.fetchone()[0])


class Logged(sqlite3.Connection):
    def execute(self, *args: Any) -> sqlite3.Cursor:
        return super().execute(*args)


class LoggedCursor(sqlite3.Cursor):
    """A class of an app."""


class SqliteVisits(Visits):
    name = "sqlite3"
    error = sqlite3.OperationalError

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: list[sqlite3.Connection] = []

    def connect(self, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(self._path, **options)
        return connection

    def keep(self, **options: Any) -> sqlite3.Connection:
        """Return the connection that outlives a handler, as that of an app's module."""
        if not self._kept:
            self._kept.append(self.connect(**options))
        return self._kept[0]

    def reset(self) -> None:
        while self._kept:
            self._kept.pop().close()
        self._path.unlink(missing_ok=True)
        with closing(self.connect(isolation_level=None)) as connection:
            connection.executescript(
                "PRAGMA synchronous = OFF; BEGIN;"
                "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER);"
                "INSERT INTO counters VALUES ('all', 0); COMMIT"
            )

    def value(self) -> int:
        with closing(self.connect()) as connection:
            found = read(connection)
        while self._kept:
            self._kept.pop().close()
        return found

    def pay(self, then: Callable[[], object]) -> None:
        with closing(self.connect()) as connection, connection:
            if read(connection):
                return
            connection.execute(UPDATE, (1,))
        then()

    def write(self) -> None:
        connection = self.keep()
        connection.execute(UPDATE, (1,))
        connection.commit()

    def write_in_a_block(self) -> None:
        with self.keep() as connection:
            connection.execute(UPDATE, (1,))

    def write_with_a_statement(self) -> None:
        connection = self.keep()
        connection.isolation_level = None
        for statement in ("BEGIN", UPDATE.replace("?", "1"), "COMMIT"):
            connection.execute(statement)

    def by_connection(self) -> None:
        connection = self.connect()
        connection.execute(UPDATE, (read(connection) + 1,))
        connection.commit()
        connection.close()

    def by_block(self) -> None:
        self._count(self.connect())

    def _count(self, connection: sqlite3.Connection) -> None:
        with closing(connection), connection:
            connection.execute(UPDATE, (read(connection) + 1,))

    def by_cursor(self) -> None:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(UPDATE, (read(cursor) + 1,))
            connection.commit()

    def by_many(self) -> None:
        with closing(self.connect()) as connection, connection:
            value = read(connection) + 1
            connection.executemany(UPDATE, ((each,) for each in (value, value)))

    def by_script(self) -> None:
        with closing(self.connect()) as connection:
            update = UPDATE.replace("?", str(read(connection) + 1))
            connection.executescript(f"BEGIN; {update}; COMMIT")

    def by_autocommit(self) -> None:
        self._count(self.connect(isolation_level=None))

    def by_name(self) -> None:
        self._count(CONNECT(self._path))

    def by_factory(self) -> None:
        with closing(self.connect(factory=Logged)) as connection, connection:
            assert isinstance(connection, Logged)
            cursor = connection.cursor(LoggedCursor)
            assert isinstance(cursor, LoggedCursor)
            connection.execute(UPDATE, (read(cursor) + 1,))

    def by_position(self) -> None:
        arguments: list[Any] = [self._path, 5.0, 0, "", True, Logged]
        self._count(sqlite3.connect(*arguments))

    def by_transaction(self) -> None:
        """Count in a transaction that takes its lock after it has read."""
        self._transact("BEGIN")

    def with_a_lock(self) -> None:
        self._transact("BEGIN IMMEDIATE")

    def _transact(self, begin: str) -> None:
        with closing(self.connect(isolation_level=None)) as connection:
            connection.execute(begin)
            connection.execute(UPDATE, (read(connection) + 1,))
            connection.execute("COMMIT")

    def by_isolation_level(self) -> None:
        with closing(self.connect(isolation_level="EXCLUSIVE")) as connection, connection:
            connection.execute("UPDATE counters SET value = value WHERE name = 'all'")
            connection.execute(UPDATE, (read(connection) + 1,))

    def by_expression(self) -> None:
        with closing(self.connect()) as connection, connection:
            connection.execute("UPDATE counters SET value = value + 1")


@contextmanager
def serving() -> Iterator[Open]:
    @contextmanager
    def opened(_: str, folder: Path) -> Iterator[Visits]:
        yield SqliteVisits(folder / "app.sqlite")

    yield opened
