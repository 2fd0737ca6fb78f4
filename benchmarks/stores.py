"""The SQL stores: beside bare statements through the same driver, on the same tables.

The bare statements are what a call needs least: they check nothing, and keep no history, statistics
or retry limit. SQLite's costs are seconds of the processor. PostgreSQL's are seconds on the wall,
without waiting for the disk (synchronous_commit=off); they are left out unless the environment
variable PULLQUEUE_TEST_POSTGRES names a server.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure, Options, Turn, compare, timed
from pullqueue import Emulator, NewTask
from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine import verbs
from pullqueue.stores import open_store
from pullqueue.stores.postgres_pool import connect, parsed, prepare
from pullqueue.stores.sqlite_file import open_file

CONFIG = QueueConfig(queues=(QueueSettings(name="q", mode=QueueMode.PULL),))
PAYLOAD = b"x" * 100
BATCH, LARGE = 100, 1000
SINGLES = 300
LEASE_SECONDS = 3600
TOMBSTONE_SECONDS = 7 * 86_400

COST_OF_SQLITE = 2.0
COST_OF_POSTGRES = 1.5

now_usec = SystemClock().now_usec


def measure(options: Options) -> Iterator[Figure]:
    """Measure SQLite, and PostgreSQL where there is a server."""
    with tempfile.TemporaryDirectory() as folder:
        emulator = Emulator(CONFIG, store=open_store(f"sqlite:///{folder}/ours.db"))
        with closing(emulator), closing(BareSqlite(Path(folder, "bare.db"))) as bare:
            yield from _compared(emulator, bare, time.process_time, options)
    server = os.environ.get("PULLQUEUE_TEST_POSTGRES")
    if server:
        urls = [emptied(server, schema) for schema in ("benchmark", "benchmark_bare")]
        emulator = Emulator(CONFIG, store=open_store(urls[0]))
        with closing(emulator), closing(BarePostgres(urls[1])) as bare_postgres:
            yield from _compared(emulator, bare_postgres, time.perf_counter, options)


def _compared(
    emulator: Emulator,
    bare: BareSqlite | BarePostgres,
    clock: Callable[[], float],
    options: Options,
) -> Iterator[Figure]:
    costs = compare(_turn(StoreSide(emulator), clock), _turn(bare, clock), rounds=options.rounds)
    for what, (value, peer_value) in costs.items():
        at_most: float | None = COST_OF_SQLITE
        if bare.driver == "psycopg":
            at_most = COST_OF_POSTGRES if what.startswith("lease") else None
        yield Figure(
            what=f"{bare.database}: {what}",
            value=value * 1e6,
            unit="us",
            peer=f"bare statements, {bare.driver}",
            peer_value=peer_value * 1e6,
            at_most=at_most,
        )


def _turn(side: StoreSide | BareSqlite | BarePostgres, clock: Callable[[], float]) -> Turn:
    def take() -> dict[str, float]:
        for _ in range(2 * LARGE // BATCH):
            side.add(BATCH)
        leased = iter(side.lease(LARGE))
        works: dict[str, tuple[int, Callable[[], object]]] = {
            "add 1": (SINGLES, lambda: side.add(1)),
            f"add {BATCH}": (10, lambda: side.add(BATCH)),
            "lease 1": (SINGLES, lambda: side.lease(1)),
            f"lease {BATCH}": (10, lambda: side.lease(BATCH)),
            f"lease {LARGE}": (1, lambda: side.lease(LARGE)),
            "extend 1": (SINGLES, lambda: side.extend(next(leased))),
            "delete 1": (SINGLES, lambda: side.delete(next(leased))),
        }
        return timed(works, clock=clock)

    return take


class StoreSide:
    """The emulator's queue."""

    def __init__(self, emulator: Emulator) -> None:
        self._queue = emulator.queue("q")
        self.extend = partial(verbs.modify_lease, self._queue, lease_seconds=LEASE_SECONDS)
        self.delete = self._queue.delete_tasks

    def add(self, count: int) -> object:
        """Add tasks."""
        if count == 1:
            return self._queue.add(PAYLOAD)
        return self._queue.add_many([NewTask(PAYLOAD) for _ in range(count)])

    def lease(self, count: int) -> Sequence[str]:
        """Lease tasks and return their names."""
        return [task.name for task in self._queue.lease_tasks(LEASE_SECONDS, count)]


# -- bare statements -----------------------------------------------------------------------------

_EXTEND = (
    "UPDATE tasks SET eta_usec = {0} WHERE queue = {0} AND name = {0} AND eta_usec > {0} "
    "RETURNING *"
)
_DELETE = (
    "UPDATE tasks SET payload = {0}, eta_usec = NULL, free_usec = {0} "
    "WHERE queue = {0} AND name = {0} AND eta_usec IS NOT NULL"
)


def _names(count: int) -> list[str]:
    return [f"{random.getrandbits(64):016x}" for _ in range(count)]


class BareStore:
    """The statements of a database; each is a transaction of its own."""

    database: str
    driver: str
    placeholder: str
    lease_statement: str
    connection: Any

    def _execute(self, statement: str, *parameters: object) -> Any:  # noqa: ANN401 - of any driver
        return self.connection.execute(statement.format(self.placeholder), parameters)

    def lease(self, count: int) -> Sequence[str]:
        """Lease tasks and return their names."""
        now = now_usec()
        until_usec = now + LEASE_SECONDS * USEC_PER_SECOND
        rows = self._execute(self.lease_statement, until_usec, "q", now, count).fetchall()
        return [str(row[0]) for row in rows]

    def extend(self, name: str) -> object:
        """Renew a lease."""
        now = now_usec()
        until_usec = now + LEASE_SECONDS * USEC_PER_SECOND
        return self._execute(_EXTEND, until_usec, "q", name, now).fetchall()

    def delete(self, name: str) -> object:
        """Delete a task: make it a tombstone."""
        free_usec = now_usec() + TOMBSTONE_SECONDS * USEC_PER_SECOND
        return self._execute(_DELETE, b"", free_usec, "q", name)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class BareSqlite(BareStore):
    """Statements through `sqlite3`."""

    database, driver, placeholder = "SQLite", "sqlite3", "?"
    lease_statement = (
        "UPDATE tasks SET eta_usec = {0}, retry_count = retry_count + 1 WHERE sequence IN ("
        "SELECT sequence FROM tasks WHERE queue = {0} AND eta_usec <= {0} "
        "ORDER BY eta_usec, sequence LIMIT {0}) RETURNING name, *"
    )

    def __init__(self, path: Path) -> None:
        self.connection, reader = open_file(path, synchronous="normal")
        reader.close()

    def add(self, count: int) -> None:
        """Add tasks."""
        now = now_usec()
        rows = [("q", name, PAYLOAD, b"", now, 0, now, 116) for name in _names(count)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
            "stored_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self.connection.execute("COMMIT")


class BarePostgres(BareStore):
    """Statements through psycopg."""

    database, driver, placeholder = "PostgreSQL", "psycopg", "%s"
    lease_statement = (
        "UPDATE tasks SET eta_usec = {0}, retry_count = retry_count + 1 WHERE sequence = ANY("
        "ARRAY(SELECT sequence FROM tasks WHERE queue = {0} AND eta_usec <= {0} "
        "ORDER BY eta_usec, sequence LIMIT {0} FOR UPDATE SKIP LOCKED)) RETURNING name, *"
    )

    def __init__(self, url: str) -> None:
        address = parsed(url)
        prepare(address)
        self._open = connect(address)
        self.connection = self._open.cursor(binary=True)

    def add(self, count: int) -> None:
        """Add tasks."""
        now = now_usec()
        self.connection.execute(
            "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
            "stored_bytes) SELECT 'q', unnest(%s::text[]), %s, '', %s, 0, %s, 116",
            (_names(count), PAYLOAD, now, now),
        )

    def close(self) -> None:
        """Close the connection."""
        self._open.close()


def emptied(server: str, schema: str) -> str:
    """Return the URL of a store in a schema that does not exist yet."""
    url = f"{server}?schema={schema}&options=-c%20synchronous_commit%3Doff"
    with connect(parsed(url)) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
    return url
