"""The stores in SQL, beside the bare statements sent by hand through the same driver.

A PostgreSQL server is taken from the environment variable PULLQUEUE_TEST_POSTGRES; without one its
figures are left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from benchmarks import shared_database
from benchmarks.bare_sql import BATCH, LEASE_SECONDS, PAYLOAD, BarePostgres, BareSqlite
from benchmarks.measuring import Figure, Options, medians
from benchmarks.shared_database import SERVER, SUITE, clock_of, dropped
from pullqueue import Emulator, NewTask
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings

LEASE = 1000
SINGLES = 900
SLOWEST_SQLITE = 2.0
SLOWEST_POSTGRES = 1.5
CONFIG = QueueConfig(queues=(QueueSettings(name="q", mode=QueueMode.PULL),))


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


Work = Callable[[Side, Iterator[str]], object]


def measure(options: Options) -> Iterator[Figure]:
    """Measure SQLite, and PostgreSQL where there is a server."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = StoreSide(f"sqlite:///{folder / 'ours.db'}")
        stack.callback(ours.emulator.close)
        bare = BareSqlite(folder / "bare.db")
        stack.callback(bare.close)
        yield from _compared(ours, bare, "sqlite3", SLOWEST_SQLITE, options)
    server = os.environ.get(SERVER)
    if server:
        url = dropped(f"{server}?schema=benchmark")
        with ExitStack() as stack:
            bare_url = dropped(f"{server}?schema=benchmark_bare")
            bare_side = BarePostgres(bare_url, "benchmark_bare")
            stack.callback(bare_side.connection.close)
            store_side = StoreSide(url, "benchmark_store")
            stack.callback(store_side.emulator.close)
            yield from _compared(store_side, bare_side, "psycopg", SLOWEST_POSTGRES, options)
        yield from shared_database.depths(url, options)
        yield from shared_database.servers(url, options)


def _compared(
    ours: Side, bare: Side, peer: str, limit: float, options: Options
) -> Iterator[Figure]:
    """Do the same to both sides, in turns."""
    adds = peer == "sqlite3"
    for what, (count, work) in _WORKS.items():
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


def _timed(side: Side, work: Work, count: int) -> Callable[[], float]:
    return lambda: _seconds_each(side, work, count, clock_of(side.application))


def _seconds_each(side: Side, work: Work, count: int, clock: Callable[[], float]) -> float:
    # Enough to be leased and deleted, and everything prepared that is prepared once.
    for _ in range(3 * LEASE // BATCH):
        side.add_batch()
    held = iter(side.lease(LEASE))
    work(side, held)
    started = clock()
    for _ in range(count):
        work(side, held)
    return (clock() - started) / count


_WORKS: dict[str, tuple[int, Work]] = {
    "add 1": (SINGLES, lambda side, _: side.add()),
    f"add {BATCH}": (10, lambda side, _: side.add_batch()),
    "lease 1": (SINGLES, lambda side, _: side.lease(1)),
    f"lease {BATCH}": (10, lambda side, _: side.lease(BATCH)),
    f"lease {LEASE}": (1, lambda side, _: side.lease(LEASE)),
    "extend 1": (SINGLES, lambda side, held: side.extend(next(held))),
    "delete 1": (SINGLES, lambda side, held: side.delete(next(held))),
}
"""How often in a row each is done, and how; it is given the names of some tasks that are held."""
