"""The one connection of an SQLite store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from sqlalchemy.dialects import sqlite as sqlite_dialect

from pullqueue.stores.rows import Row
from pullqueue.stores.session import Parameters, Session
from pullqueue.stores.text import Statements

STATEMENTS = Statements(
    sqlite_dialect.dialect(paramstyle="named"),
    in_list=r"IN (SELECT value FROM json_each(:\1))",
    locked="",
)


class SqliteSession(Session, AbstractContextManager[None]):
    """The connection; the caller's lock makes sure that only one operation uses it at a time.

    It is its own transaction: `with session` begins one, or joins the one that has begun.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        begun: Callable[[], None],
        undone: Callable[[], None],
    ) -> None:
        """Take an open connection, and whom to tell when a transaction begins or is undone."""
        self._connection = connection
        self._begun = begun
        self._undone = undone
        self._now_usec = 0
        self._depth = 0

    @property
    def now_usec(self) -> int:
        """The time of the operation."""
        return self._now_usec

    @property
    def is_idle(self) -> bool:
        """Whether no transaction has begun."""
        return not self._depth

    def at(self, now_usec: int) -> SqliteSession:
        """Begin an operation at a time."""
        self._now_usec = now_usec
        return self

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Let what is sent within happen whole or not at all."""
        return self

    def __enter__(self) -> None:
        if not self._depth:
            self._connection.execute("BEGIN IMMEDIATE")
            self._begun()
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        if kind is None:
            try:
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        self._undone()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def rows(self, statement: str, parameters: Parameters) -> Iterator[Row]:
        """Send a statement and give the rows of its answer."""
        return self._connection.execute(STATEMENTS[statement], parameters)

    def row(self, statement: str, parameters: Parameters) -> Row | None:
        """Send a statement and give the first row of its answer, or None."""
        # To the end: a statement that changes something must not be left half-way.
        rows = self._connection.execute(STATEMENTS[statement], parameters).fetchall()
        return rows[0] if rows else None

    def change(self, statement: str, parameters: Parameters) -> int:
        """Send a statement and count the rows it changed."""
        return self._connection.execute(STATEMENTS[statement], parameters).rowcount

    def change_many(self, statement: str, parameters: Sequence[Parameters]) -> int:
        """Send a statement for each set of parameters and count the rows it changed."""
        return self._connection.executemany(STATEMENTS[statement], parameters).rowcount

    def insert(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        """Send a statement with question marks once for each row, and count the rows it stored."""
        if len(rows) == 1:
            return self._connection.execute(statement, rows[0]).rowcount
        return self._connection.executemany(statement, rows).rowcount

    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """Give values as JSON."""
        return json.dumps(values)
