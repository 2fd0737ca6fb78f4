"""The connections of a PostgreSQL store: how many there are, and what becomes of lost ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Any

import psycopg
import pytest
from push_app import until
from rlimits import limited
from store_rules import ONLY_POSTGRES, Start, together
from stores import held_up, postgres_url

from pullqueue import Emulator, InternalError, Limits, NewTask, SystemClock, TransientError
from pullqueue.engine import verbs
from pullqueue.stores import postgres_pool
from pullqueue.stores.postgres import PostgresStore
from pullqueue.stores.postgres_pool import connect, parsed

FILES = 1100
"""More than `select` can watch."""


pytestmark = ONLY_POSTGRES


def test_one_connection_is_opened_and_threads_share_as_many_as_the_url_says(start: Start) -> None:
    queue = start(query="&connections=2&application_name=bounded").queue("pull")

    def use() -> None:
        for _ in range(10):
            queue.add()

    until(lambda: connections_of("bounded") == 1)  # once that of the migration is gone
    together(use, use)
    assert connections_of("bounded") in (1, 2)
    assert queue.fetch_statistics().tasks == 80


def connections_of(application: str) -> int:
    with psycopg.connect(postgres_url()) as connection:
        text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        ((count,),) = connection.execute(text, [application])
    return int(count)


def store_of(emulator: Emulator) -> PostgresStore:
    store = emulator.store
    assert isinstance(store, PostgresStore)
    return store


def test_a_call_that_waits_too_long_for_a_connection_can_be_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = start(query="&connections=1")
    monkeypatch.setattr(postgres_pool, "WAIT_SECONDS", 0.05)

    why = "no connection within 0.05 seconds, of 1 at most (?connections=NUMBER permits more)"
    text = rf"^the store's database: {re.escape(why)}; try again$"
    with store_of(emulator)._session(), pytest.raises(TransientError, match=text):
        emulator.queue("pull").add()

    monkeypatch.undo()
    assert emulator.queue("pull").add(name="later").name == "later"


def test_a_call_of_a_store_that_is_closed_fails(start: Start, url: str) -> None:
    emulator = start(query="&application_name=closing")
    add = emulator.queue("pull").add
    with held_up(url, "LOCK TABLE tasks", add, "closing") as (_, adding):
        emulator.close()
        with pytest.raises(TransientError):
            adding.result(timeout=60)

    with pytest.raises(TransientError, match="closed"):
        add()


def test_a_schema_that_is_gone_is_an_internal_error(start: Start, url: str) -> None:
    emulator = start()
    with connect(parsed(url)) as connection:
        connection.execute("ALTER TABLE tasks RENAME TO elsewhere")
        text = r'^the store\'s database: relation "tasks" does not exist$'
        try:
            with pytest.raises(InternalError, match=text):
                emulator.queue("pull").add()
        finally:
            connection.execute("ALTER TABLE elsewhere RENAME TO tasks")


def test_each_call_is_one_round_trip(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit on the rate of leases, too."""
    emulator = start(clock=SystemClock(), limits=Limits(leases_per_second=1_000))
    queue = emulator.queue("pull")
    names = [task.name for task in queue.add_many([NewTask(tag="red")] * 9)]
    emulator.queue("limited").add()
    trips = 0
    execute = psycopg.Cursor.execute

    def counted(cursor: psycopg.Cursor[object], *given: Any, **more: Any) -> object:
        nonlocal trips
        trips += 1
        return execute(cursor, *given, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    calls: dict[str, Callable[[], object]] = {
        "add": queue.add,
        "add one of a name": lambda: queue.add(name="one"),
        "add many": lambda: queue.add_many([NewTask()] * 100),
        "lease one": lambda: queue.lease_tasks(60, 1),
        "lease some": lambda: queue.lease_tasks(60, 2),
        "lease many": lambda: queue.lease_tasks(60, 40),
        "lease by tag": lambda: queue.lease_tasks_by_tag(60, 1, "red"),
        "lease with a retry limit": lambda: emulator.queue("limited").lease_tasks(60, 1),
        "extend": lambda: verbs.modify_lease(queue, names[0], 90),
        "release": lambda: verbs.modify_lease(queue, names[0], 0),
        "delete": lambda: queue.delete_tasks(names[0]),
        "delete some": lambda: queue.delete_tasks(names[1:]),
    }
    taken: dict[str, int] = {}
    for call, make in calls.items():
        trips = 0
        make()
        taken[call] = trips
    monkeypatch.undo()

    assert taken == dict.fromkeys(calls, 1)


def test_a_server_with_more_open_files_than_select_takes_can_use_its_database(start: Start) -> None:
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if hard != RLIM_INFINITY and hard < FILES + 100:
        pytest.skip("no more files may be opened here")
    with limited(RLIMIT_NOFILE, max(soft, FILES + 100)), ExitStack() as stack:
        for _ in range(FILES):
            stack.enter_context(Path(os.devnull).open())
        queue = start().queue("pull")

        queue.add(name="one")

        assert queue.get_task("one").name == "one"


def end_all(application: str) -> None:
    """Close all connections of an application from the server's side."""
    with psycopg.connect(postgres_url()) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = %s",
            (application,),
        )


def test_idle_connections_that_were_closed_are_replaced(start: Start) -> None:
    """A restart of the database between two calls is not noticed."""
    queue = start(query="&application_name=idle").queue("pull")
    queue.add(name="one")

    end_all("idle")

    assert queue.get_task("one").name == "one"


def test_a_call_whose_connection_is_lost_can_be_tried_again(start: Start, url: str) -> None:
    queue = start(query="&application_name=lost").queue("pull")
    queue.add(name="one")

    lease = partial(queue.lease_tasks, 60, 1)
    with held_up(url, "LOCK TABLE tasks", lease, "lost") as (_, leasing):
        end_all("lost")
        with pytest.raises(TransientError) as excinfo:
            leasing.result(timeout=60)

    # psycopg before 3.2.7 adds what it was doing.
    assert str(excinfo.value).replace("consuming input failed: ", "") == (
        "the store's database: terminating connection due to administrator command; try again"
    )
    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [1]


def test_calls_of_a_database_that_is_read_only_can_be_tried_again(start: Start) -> None:
    emulator = start(query="&connections=1")
    with store_of(emulator)._connections.borrowed() as connection:
        connection.execute("SET default_transaction_read_only = on")

    for call in (emulator.queue("pull").add, emulator.check):
        with pytest.raises(TransientError, match="in a read-only transaction; try again"):
            call()
