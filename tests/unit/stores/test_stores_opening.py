"""Opening a PostgreSQL store: what its schema must be, and what is refused and left as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from store_rules import THREADS, config_of, together
from stores import own_schema, postgres_url
from tables import each_row

from pullqueue import Emulator, ManualClock, StoreError, SystemClock, TransientError
from pullqueue.clock import Clock
from pullqueue.stores import open_store, postgres_pool, without_password
from pullqueue.stores.postgres_pool import connect, parsed, prepare
from pullqueue.stores.sql_files import migrations

SCRIPTS = migrations("postgres")
CONFIG = config_of(None)


@pytest.fixture
def schema() -> Iterator[str]:
    """Yield the name of a schema that is not there, and remove it in the end."""
    name = str(parsed(own_schema("opening")).schema)
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
        yield name
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


def refused(schema: str) -> str:
    with pytest.raises(StoreError) as excinfo:
        Emulator(CONFIG, store=open_store(f"{postgres_url()}?schema={schema}"))
    return str(excinfo.value)


def test_servers_that_start_at_once_share_the_tables_that_one_makes(schema: str) -> None:
    def start() -> None:
        emulator = Emulator(CONFIG, store=open_store(f"{postgres_url()}?schema={schema}"))
        emulator.queue("pull").add()
        emulator.close()

    together(start, start)

    emulator = Emulator(CONFIG, store=open_store(f"{postgres_url()}?schema={schema}"))
    assert emulator.queue("pull").fetch_statistics().tasks == 2 * THREADS
    emulator.close()


ONE = ManualClock()
CLOCKS = {
    "two system clocks": (SystemClock(), SystemClock(), None),
    "one manual clock": (ONE, ONE, None),
    "a manual clock joins": (SystemClock(), ManualClock(), ("a manual", "the system")),
    "a system clock joins": (ManualClock(), SystemClock(), ("the system", "a manual")),
    "two manual clocks": (ManualClock(), ManualClock(), ("a manual", "a manual")),
}


@pytest.mark.parametrize(("first", "second", "kinds"), CLOCKS.values(), ids=CLOCKS)
def test_a_manual_clock_shares_its_schema_with_no_other_clock(
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    first: Clock,
    second: Clock,
    kinds: tuple[str, str] | None,
) -> None:
    """Until its store is closed; another schema of the database is free."""
    url = f"{postgres_url()}?schema={schema}"
    emulator = Emulator(CONFIG, clock=first, store=open_store(url))
    if kinds is not None:
        with monkeypatch.context() as patch:
            patch.setattr(postgres_pool, "_JOIN_TRIES", 1)
            with pytest.raises(StoreError) as excinfo:
                Emulator(CONFIG, clock=second, store=open_store(url))
        assert str(excinfo.value).startswith(f'schema "{schema}" of postgresql://')
        assert str(excinfo.value).endswith(
            f": this server has {kinds[0]} clock, and another one that uses it has {kinds[1]} "
            "clock: stop that one, or use another schema, as in ?schema=NAME"
        )
        emulator.queue("pull").add(name="one")
        emulator.close()
    Emulator(CONFIG, clock=second, store=open_store(url)).close()
    emulator.close()


def test_a_server_that_has_lost_its_connections_does_not_mix_clocks(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart of the database: what joined meanwhile keeps the schema."""
    url = f"{postgres_url()}?schema={schema}"
    first = Emulator(CONFIG, store=open_store(f"{url}&application_name=lost_{schema}"))
    second = None
    with (
        psycopg.connect(postgres_url(), autocommit=True) as connection,
        monkeypatch.context() as patch,
    ):
        patch.setattr(postgres_pool, "_JOIN_TRIES", 1)
        while second is None:  # a pool goes on to connect after it was opened
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = %s",
                [f"lost_{schema}"],
            )
            with suppress(StoreError):
                second = Emulator(CONFIG, clock=ManualClock(), store=open_store(url))

        patch.setattr(postgres_pool, "_TURN_SECONDS", 0.05)
        with pytest.raises(TransientError, match="another one that uses it has a manual clock"):
            first.queue("pull").add()

    second.close()
    assert first.queue("pull").add(name="one").name == "one"
    first.close()


@each_row(
    ("url", "shown"),
    [
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("postgresql://me:secret@host/tasks", "postgresql://***@host/tasks"),
        ("postgresql://host/tasks?password=secret", "postgresql://host/tasks?password=***"),
        ("me:secret@host", "me:***@host"),
    ],
)
def test_credentials_are_hidden_in_messages(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_schema_that_was_created_for_its_user(schema: str) -> None:
    """The user can use it without the right to create schemas."""
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {schema}".encode())
        connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}".encode())
        try:
            url = f"{postgres_url()}?schema={schema}&options=-c%20role%3D{schema}"
            for _ in range(2):
                emulator = Emulator(CONFIG, store=open_store(url))
                emulator.queue("pull").add()
                tasks = emulator.queue("pull").fetch_statistics().tasks
                emulator.close()
            assert tasks == 2
        finally:
            connection.execute(f"DROP OWNED BY {schema}".encode())
            connection.execute(f"DROP ROLE {schema}".encode())


def test_the_schema_of_another_program_is_left_as_it_is(schema: str) -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"CREATE TABLE {schema}.bookmarks (url text)".encode())

        message = refused(schema)

        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
        ).fetchall()
    assert message == (
        f'schema "{schema}" of {without_password(postgres_url())} belongs to another program: use '
        "another one, as in ?schema=NAME"
    )
    assert tables == [("bookmarks",)]


def test_a_schema_of_a_newer_version_is_refused(schema: str) -> None:
    address = parsed(f"{postgres_url()}?schema={schema}")
    prepare(address)
    with connect(address) as connection:
        connection.execute("UPDATE schema_version SET number = 99")

    known = len(SCRIPTS)
    text = f"was written by a newer pullqueue (version 99, known here: {known})"
    assert text in refused(schema)


def test_a_server_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(StoreError) as excinfo:
        Emulator(CONFIG, store=open_store("postgresql://me:secret@127.0.0.1:1/db"))

    message = str(excinfo.value)
    assert message.startswith("store postgresql://***@127.0.0.1:1/db cannot be opened: ")
    assert "Connection refused" in message


@each_row(
    "query",
    ["schema=no-dash", "schema=1st", f"schema={'a' * 64}", "connections=0", "connections=many"],
)
def test_a_bad_option_is_refused_before_connecting(query: str) -> None:
    with pytest.raises(StoreError, match=query.partition("=")[0]):
        open_store(f"postgresql://127.0.0.1/db?{query}")
