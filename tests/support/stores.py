"""The stores that tests are run with, each by its URL, each empty."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pullqueue.stores.postgres_pool import Connection

STORES = ("memory", "sqlite", "postgres")

POSTGRES_VARIABLE = "PULLQUEUE_TEST_POSTGRES"
"""The environment variable that names a PostgreSQL server for the tests (`.ci/postgres`)."""

LONG = bool(os.environ.get("PULLQUEUE_TEST_LONG"))
"""Whether tests that can be made longer are to take their time: a minute or more each."""


def postgres_url() -> str:
    """Return the URL of the server for the tests, or skip the test where there is none."""
    url = os.environ.get(POSTGRES_VARIABLE)
    if not url:
        pytest.skip(f"{POSTGRES_VARIABLE} is not set: export {POSTGRES_VARIABLE}=$(.ci/postgres)")
    return url


def own_schema(purpose: str) -> str:
    """Return the URL of a schema that no other pytest process uses, nor one of another checkout.

    A checkout whose migrations change uses another one: none is too new for what it is on now.
    """
    from pullqueue.stores.sql_files import migrations  # noqa: PLC0415 - few tests need it

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    checkout = zlib.crc32("".join([__file__, *migrations("postgres")]).encode())
    return f"{postgres_url()}?schema=test_{purpose}_{worker}_{checkout:x}"


def wait_for_lock(application: str) -> None:
    """Wait until a connection of an application waits for a lock."""
    import psycopg  # noqa: PLC0415 - most tests need none

    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE application_name = %s "
            "AND wait_event_type = 'Lock'"
        )
        while not connection.execute(waiting, [application]).fetchone():
            pass


@contextmanager
def held_up(
    url: str, statements: str, call: Callable[[], Any], application: str
) -> Iterator[tuple[Connection, Future[Any]]]:
    """Hold the locks of statements while a call of an application waits for one of them."""
    from pullqueue.stores.postgres_pool import connect, parsed  # noqa: PLC0415 - they need psycopg

    with ThreadPoolExecutor(1) as threads, connect(parsed(url)) as blocker:
        blocker.autocommit = False
        for statement in statements.split(";"):
            blocker.execute(statement.encode())
        future = threads.submit(call)
        wait_for_lock(application)
        yield blocker, future


def expire_claims(url: str) -> None:
    """End what a server that was killed has claimed, as ten seconds would."""
    from pullqueue.stores.postgres_pool import connect, parsed  # noqa: PLC0415 - they need psycopg

    with connect(parsed(url)) as connection:
        connection.execute(b"UPDATE dispatchers SET until_usec = 0")


@contextmanager
def store_url(kind: str) -> Iterator[str]:
    """Yield the URL of a store of a kind; the caller empties it."""
    if kind == "memory":
        yield "memory"
    elif kind == "postgres":
        yield own_schema("store")
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'tasks.db'}"
