"""The stores in SQL, beside the bare statements sent by hand through the same driver.

The bare side uses the same tables, settings and guarantee of durability. It makes no checks, keeps
no record and no statistics, and knows no retry limit. A PostgreSQL server is taken from the
environment variable PULLQUEUE_TEST_POSTGRES; without one its figures are left out.
"""

# ruff: noqa: S608 - statements are put together from constants

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import psycopg

from benchmarks.measuring import Figure, Options, medians, seconds_of
from pullqueue import Emulator, NewTask
from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.stores.postgres_server import connect, parsed, prepare
from pullqueue.stores.sqlite_file import open_file

SUITE = "stores"
SERVER = "PULLQUEUE_TEST_POSTGRES"
"""The environment variable that names a server."""
BATCH = 100
LEASE = 1000
SINGLES = 300
LEASE_SECONDS = 3600
PAYLOAD = b"x" * 100
SLOWEST_SQLITE = 2.0
SLOWEST_POSTGRES = 1.5
LARGEST_GROWTH = 1.5
LEAST_GAIN = 1.5
"""Of the rate of one server, what two reach together."""

SHALLOW, DEEP = "shallow", "deep"
CONFIG = QueueConfig(
    queues=tuple(QueueSettings(name=name, mode=QueueMode.PULL) for name in ("q", SHALLOW, DEEP))
)
_COLUMNS = "eta_usec, sequence, name, payload, tag, retry_count, enqueued_usec"


class Side(Protocol):
    """A queue that is measured."""

    application: str
    """By which name the database knows its connections; empty without a server."""

    def add(self) -> None:
        """Add a task."""

    def add_batch(self) -> None:
        """Add 100 tasks."""

    def lease(self, count: int) -> list[str]:
        """Lease tasks and give their names."""

    def extend(self, name: str) -> None:
        """Give a lease another end."""

    def delete(self, name: str) -> None:
        """Delete a task."""


class StoreSide:
    """pullqueue with a store."""

    def __init__(self, store: str, application: str = "") -> None:
        self.application = application
        if application:
            store += f"&application_name={application}"
        self.emulator = Emulator(CONFIG, store=store)
        self.emulator.reset()
        self.queue = self.emulator.queue("q")

    def add(self) -> None:
        """Add a task."""
        self.queue.add(PAYLOAD)

    def add_batch(self) -> None:
        """Add 100 tasks."""
        self.queue.add_many([NewTask(payload=PAYLOAD) for _ in range(BATCH)])

    def lease(self, count: int) -> list[str]:
        """Lease tasks."""
        return [task.name for task in self.queue.lease_tasks(LEASE_SECONDS, count)]

    def extend(self, name: str) -> None:
        """Give a lease another end."""
        self.queue.modify_lease(name, LEASE_SECONDS)

    def delete(self, name: str) -> None:
        """Delete a task."""
        self.queue.delete_tasks(name)


def _name() -> str:
    return f"{random.getrandbits(64):016x}"


class BareSqlite:
    """Statements sent through `sqlite3`."""

    application = ""

    def __init__(self, path: Path) -> None:
        self.connection: sqlite3.Connection = open_file(path, synchronous="normal")

    def _insert(self, count: int) -> None:
        now_usec = SystemClock().now_usec()
        rows = [("q", _name(), PAYLOAD, b"", now_usec, now_usec, 116) for _ in range(count)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
            "stored_bytes) VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
            rows,
        )
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
        self.connection.execute("BEGIN IMMEDIATE")
        rows = self.connection.execute(
            "UPDATE tasks SET eta_usec = ?, retry_count = retry_count + 1 WHERE sequence IN ("
            "SELECT sequence FROM tasks WHERE queue = ? AND eta_usec <= ? "
            f"ORDER BY eta_usec, sequence LIMIT ?) RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", now_usec, count),
        ).fetchall()
        self.connection.execute("COMMIT")
        return [row[2] for row in rows]

    def extend(self, name: str) -> None:
        """Give a lease another end."""
        now_usec = SystemClock().now_usec()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(
            "UPDATE tasks SET eta_usec = ? WHERE queue = ? AND name = ? AND eta_usec > ? "
            f"RETURNING {_COLUMNS}",
            (now_usec + LEASE_SECONDS * USEC_PER_SECOND, "q", name, now_usec),
        ).fetchall()
        self.connection.execute("COMMIT")

    def delete(self, name: str) -> None:
        """Delete a task: make a tombstone of it."""
        free_usec = SystemClock().now_usec() + 7 * 86_400 * USEC_PER_SECOND
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(
            "UPDATE tasks SET payload = x'', eta_usec = NULL, free_usec = ? "
            "WHERE queue = ? AND name = ? AND eta_usec IS NOT NULL",
            (free_usec, "q", name),
        )
        self.connection.execute("COMMIT")


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
            "WHERE queue = %s AND name = %s AND eta_usec IS NOT NULL",
            (free_usec, "q", name),
        )


def measure(options: Options) -> Iterator[Figure]:
    """Measure SQLite, and PostgreSQL where there is a server."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = StoreSide(f"sqlite:///{folder / 'ours.db'}")
        bare = BareSqlite(folder / "bare.db")
        yield from _compared(ours, bare, "sqlite3", SLOWEST_SQLITE, options)
    server = os.environ.get(SERVER)
    if server:
        url = f"{server}?schema=benchmark"
        bare_side = BarePostgres(f"{server}?schema=benchmark_bare", "benchmark_bare")
        store_side = StoreSide(url, "benchmark_store")
        yield from _compared(store_side, bare_side, "psycopg", SLOWEST_POSTGRES, options)
        yield from _depths(url, options)
        yield from _servers(url, options)


def _compared(
    ours: Side, bare: Side, peer: str, limit: float, options: Options
) -> Iterator[Figure]:
    """Do the same to both sides, in turns."""
    adds = peer == "sqlite3"
    for what, count, work in _works():
        taken = medians(
            {name: _timed(side, work, count) for name, side in (("ours", ours), (peer, bare))},
            rounds=options.rounds,
        )
        yield Figure(
            suite=SUITE,
            what=f"{peer}: {what}",
            value=taken["ours"] * 1e6,
            unit="us",
            peer=peer,
            peer_value=taken[peer] * 1e6,
            limit=limit if adds or not what.startswith("add") else None,
        )


def _timed(side: Side, work: Callable[..., object], count: int) -> Callable[[], float]:
    return lambda: _seconds_each(side, work, count, _clock_of(side))


def _clock_of(side: Side) -> Callable[[], float]:
    """Give a clock of the processor's time, which a busy machine does not stretch.

    To that of this process it adds that of the database's processes, where they run on this
    machine; where they do not, it is a clock on the wall.
    """
    if not side.application:
        return time.process_time
    with psycopg.connect(os.environ[SERVER]) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (side.application,)
        ).fetchall()
    files = [Path(f"/proc/{pid}/schedstat") for (pid,) in rows]
    if not all(file.exists() for file in files):
        return time.perf_counter

    def clock() -> float:
        return time.process_time() + sum(int(file.read_text().split()[0]) for file in files) / 1e9

    return clock


def _seconds_each(
    side: Side, work: Callable[[Side], object], count: int, clock: Callable[[], float]
) -> float:
    # Enough to be leased and deleted, and everything prepared that is prepared once.
    for _ in range(3 * LEASE // BATCH):
        side.add_batch()
    work(side)
    held = iter(side.lease(LEASE))
    if work in (_extend, _delete):
        names = [next(held) for _ in range(count)]
        started = clock()
        for name in names:
            work(side, name)
    else:
        started = clock()
        for _ in range(count):
            work(side)
    return (clock() - started) / count


def _works() -> list[tuple[str, int, Callable[..., object]]]:
    return [
        ("add 1", SINGLES, lambda side: side.add()),
        (f"add {BATCH}", 10, lambda side: side.add_batch()),
        ("lease 1", SINGLES, lambda side: side.lease(1)),
        (f"lease {BATCH}", 10, lambda side: side.lease(BATCH)),
        (f"lease {LEASE}", 1, lambda side: side.lease(LEASE)),
        ("extend 1", SINGLES, _extend),
        ("delete 1", SINGLES, _delete),
    ]


def _extend(side: Side, name: str = "none") -> None:
    if name != "none":
        side.extend(name)


def _delete(side: Side, name: str = "none") -> None:
    if name != "none":
        side.delete(name)


def _depths(url: str, options: Options) -> Iterator[Figure]:
    """Lease from a shallow and from a deep queue, which stay as deep as they are."""
    depths = {SHALLOW: min(options.depths), DEEP: max(options.depths)}
    emulator = Emulator(CONFIG, store=url)
    emulator.reset()
    for name, depth in depths.items():
        _fill(url, name, depth)

    def lease(name: str) -> float:
        # A lease of no time gives each task back, behind all others.
        queue = emulator.queue(name)
        return seconds_of(lambda: queue.lease_tasks(0, BATCH))

    costs = medians({name: partial(lease, name) for name in depths}, rounds=max(options.rounds, 50))
    emulator.reset()
    emulator.close()
    yield Figure(
        suite=SUITE,
        what=f"psycopg: lease {BATCH}",
        depth=depths[DEEP],
        value=costs[DEEP] * 1e6,
        unit="us",
        peer=f"the same at {depths[SHALLOW]}",
        peer_value=costs[SHALLOW] * 1e6,
        limit=LARGEST_GROWTH,
    )


def _fill(url: str, queue_name: str, depth: int) -> None:
    connection = connect(parsed(url))
    connection.execute(
        "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
        "stored_bytes) SELECT %s, 'n' || n, %s, '', n, 0, n, 110 "
        "FROM generate_series(1, %s::bigint) AS n",
        (queue_name, PAYLOAD, depth),
    )
    connection.execute("VACUUM ANALYZE tasks")
    connection.close()


def _servers(url: str, options: Options) -> Iterator[Figure]:
    """Let one process, and two at once, add, lease and delete as fast as they can."""
    StoreSide(url).emulator.close()
    rates = medians(
        {"one": lambda: 1 / _rate(url, 1, options), "two": lambda: 1 / _rate(url, 2, options)},
        rounds=options.rounds,
    )
    yield Figure(
        suite=SUITE,
        what="psycopg: two servers, a task's life",
        value=rates["two"] * 1e6,
        unit="us/task",
        peer="one server",
        peer_value=rates["one"] * 1e6,
        limit=1 / LEAST_GAIN,
    )


def _rate(url: str, servers: int, options: Options) -> float:
    """Give how many tasks a second go through all servers together."""
    command = [sys.executable, "-c", _WORKER, url, str(options.seconds)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        for _ in range(servers)
    ]
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - asked for
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None  # noqa: S101 - asked for
        process.stdin.write("go\n")
        process.stdin.flush()
    return sum(float(process.communicate()[0]) for process in processes)


_WORKER = f"""
import sys, time
from benchmarks.stores import CONFIG, PAYLOAD
from pullqueue import Emulator, NewTask
queue = Emulator(CONFIG, store=sys.argv[1]).queue("q")
def live():
    queue.add_many([NewTask(payload=PAYLOAD)] * 10)
    queue.delete_tasks(queue.lease_tasks({LEASE_SECONDS}, 10))
    return 10
live()
print("ready", flush=True)
sys.stdin.readline()
start = time.perf_counter()
tasks = 0
while (passed := time.perf_counter() - start) < float(sys.argv[2]):
    tasks += live()
print(tasks / passed)
"""
