"""The peers of the stores in SQL: bare statements, sent by hand through the same driver.

They use the same tables, settings and guarantee of durability. They make no checks, keep no record
and no statistics, and know no retry limit.
"""

# ruff: noqa: S608 - statements are put together from constants

from __future__ import annotations

import random
from pathlib import Path

import psycopg

from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.stores.postgres_server import connect, parsed, prepare
from pullqueue.stores.sqlite_file import open_file

BATCH = 100
LEASE_SECONDS = 3600
PAYLOAD = b"x" * 100
_COLUMNS = "eta_usec, sequence, name, payload, tag, retry_count, enqueued_usec"
_INSERT = """
INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, stored_bytes)
VALUES (?, ?, ?, ?, ?, 0, ?, ?)"""


def _name() -> str:
    return f"{random.getrandbits(64):016x}"


class BareSqlite:
    """Statements sent through `sqlite3`: one is a transaction, where one is enough."""

    application = ""

    def __init__(self, path: Path) -> None:
        self.connection, self._reader = open_file(path, synchronous="normal")

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self.connection.close()

    def _insert(self, count: int) -> None:
        now_usec = SystemClock().now_usec()
        rows = [("q", _name(), PAYLOAD, b"", now_usec, now_usec, 116) for _ in range(count)]
        if count == 1:
            self.connection.execute(_INSERT, rows[0])
            return
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(_INSERT, rows)
        self.connection.execute("COMMIT")

    def add(self) -> None:
        """Add a task."""
        self._insert(1)

    def add_batch(self) -> None:
        """Add 100 tasks."""
        self._insert(BATCH)

    def lease(self, count: int) -> list[str]:
        """Lease tasks."""
        now_usec = SystemClock().now_usec()
        rows = self.connection.execute(
            "UPDATE tasks SET eta_usec = ?, retry_count = retry_count + 1 WHERE sequence IN ("
            "SELECT sequence FROM tasks WHERE queue = ? AND eta_usec <= ? "
            f"ORDER BY eta_usec, sequence LIMIT ?) RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", now_usec, count),
        ).fetchall()
        return [row[2] for row in rows]

    def extend(self, name: str) -> None:
        """Give a lease another end."""
        now_usec = SystemClock().now_usec()
        self.connection.execute(
            "UPDATE tasks SET eta_usec = ? WHERE queue = ? AND name = ? AND eta_usec > ? "
            f"RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", name, now_usec),
        ).fetchall()

    def delete(self, name: str) -> None:
        """Delete a task: make a tombstone of it."""
        free_usec = SystemClock().now_usec() + 7 * 86_400 * USEC_PER_SECOND
        self.connection.execute(
            "UPDATE tasks SET payload = x'', eta_usec = NULL, free_usec = ? "
            "WHERE queue = ? AND name = ? AND eta_usec IS NOT NULL",
            (free_usec, "q", name),
        )


class BarePostgres:
    """Statements sent through psycopg, each a transaction of its own, as the store sends them."""

    def __init__(self, url: str, application: str) -> None:
        self.application = application
        address = parsed(f"{url}&application_name={application}")
        prepare(address)
        self.connection: psycopg.Connection[tuple[object, ...]] = connect(address)  # type: ignore[assignment]
        self.connection.execute("TRUNCATE tasks")
        self.cursor = self.connection.cursor(binary=True)

    def _insert(self, count: int) -> None:
        self.cursor.execute(
            "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
            "stored_bytes) SELECT 'q', name, %s, '', t, 0, t, 116 FROM unnest(%s::text[]) AS name, "
            "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS t) AS now",
            (PAYLOAD, [_name() for _ in range(count)]),
        )

    def add(self) -> None:
        """Add a task."""
        self._insert(1)

    def add_batch(self) -> None:
        """Add 100 tasks."""
        self._insert(BATCH)

    def lease(self, count: int) -> list[str]:
        """Lease tasks."""
        now_usec = SystemClock().now_usec()
        rows = self.cursor.execute(
            "UPDATE tasks SET eta_usec = %s, retry_count = retry_count + 1 WHERE sequence = ANY("
            "ARRAY(SELECT sequence FROM tasks WHERE queue = %s AND eta_usec <= %s ORDER BY "
            f"eta_usec, sequence LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", now_usec, count),
        ).fetchall()
        return [str(row[2]) for row in rows]

    def extend(self, name: str) -> None:
        """Give a lease another end."""
        now_usec = SystemClock().now_usec()
        self.cursor.execute(
            "UPDATE tasks SET eta_usec = %s WHERE queue = %s AND name = %s AND eta_usec > %s "
            f"RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", name, now_usec),
        ).fetchall()

    def delete(self, name: str) -> None:
        """Delete a task: make a tombstone of it."""
        free_usec = SystemClock().now_usec() + 7 * 86_400 * USEC_PER_SECOND
        self.cursor.execute(
            "UPDATE tasks SET payload = '', eta_usec = NULL, free_usec = %s "
            "WHERE queue = %s AND name = %s AND free_usec IS NULL",
            (free_usec, "q", name),
        )
