"""A connection of a PostgreSQL store, for the length of one operation."""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from selectors import EVENT_READ

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy.dialects.postgresql.psycopg import dialect

from pullqueue.clock import Clock
from pullqueue.stores.postgres_statements import NOW
from pullqueue.stores.rows import Row
from pullqueue.stores.session import Parameters, Session
from pullqueue.stores.text import Statements

STATEMENTS = Statements(
    dialect(),  # type: ignore[no-untyped-call]
    in_list=r"= ANY(:\1)",
    locked="FOR UPDATE SKIP LOCKED",
)


_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)
"""Without a bound to the number of open files where there is such a one."""


class PostgresSession(Session):
    """A connection on which each statement is a transaction unless it is told otherwise.

    One is made for each connection, for all operations that use it one after the other.
    """

    def __init__(self, connection: psycopg.Connection[Row], clock: Clock | None) -> None:
        """Take an open connection, and a clock where the time is not the database's."""
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._clock = clock
        self._news = _Selector()
        self._news.register(connection, EVENT_READ)
        self.begun()

    def begun(self) -> PostgresSession:
        """Begin another operation."""
        self._now_usec = None if self._clock is None else self._clock.now_usec()
        self.clock_usec = self._now_usec
        """The time if it is a clock's; None if each statement is to ask the database."""
        return self

    @property
    def now_usec(self) -> int:
        """The time of the operation: the database's when it was first asked for, or a clock's."""
        if self._now_usec is None:
            row = self.row(NOW, {})
            self._now_usec = 0 if row is None else int(row[0])
        return self._now_usec

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and in no transaction."""
        return self._connection.pgconn.transaction_status == TransactionStatus.IDLE

    def is_connected(self) -> bool:
        """Tell whether the server is still there, as far as can be seen without asking it."""
        # Nothing is to be read from an idle connection but the news of its end.
        return not self._connection.closed and not self._news.select(0)

    def close(self) -> None:
        """Close the connection."""
        self._news.close()
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let what is sent within happen whole or not at all."""
        if not self.is_idle:
            yield
            return
        with self._connection.transaction():
            yield

    def rows(self, statement: str, parameters: Parameters) -> Iterator[Row]:
        """Send a statement and give the rows of its answer."""
        return iter(self._cursor.execute(STATEMENTS[statement], parameters).fetchall())

    def change(self, statement: str, parameters: Parameters) -> int:
        """Send a statement and count the rows it changed."""
        return self._cursor.execute(STATEMENTS[statement], parameters).rowcount

    def change_many(self, statement: str, parameters: Sequence[Parameters]) -> int:
        """Send a statement for each set of parameters, all on one trip, and count the changes."""
        self._cursor.executemany(STATEMENTS[statement], parameters)
        return self._cursor.rowcount

    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """Give values as an array."""
        return list(values)
