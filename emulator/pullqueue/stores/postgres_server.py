"""Reaching a PostgreSQL server: its URL, its connections, and the schema a store has there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper
from sqlalchemy import Connection, NullPool, create_engine, make_url, text
from sqlalchemy.dialects.postgresql.psycopg import dialect
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from pullqueue.errors import StoreError
from pullqueue.stores import without_password
from pullqueue.stores.rows import Row
from pullqueue.stores.schema import STEPS, Step

DriverConnection = psycopg.Connection[Row]

WAIT_SECONDS = 5
"""How long to wait for the server to answer, or for another thread to give a connection back."""
_SETTINGS = {
    # Every statement has an index to go by, at any depth; estimates made when the tables were
    # small must not lead to another plan, nor is there time for planning at each call.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    # A server that hangs must not hold up the others.
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
    "client_min_messages": "warning",
}
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class Address(NamedTuple):
    """What the URL of a store says."""

    arguments: dict[str, Any]
    """For the driver."""
    schema: str
    """The schema that holds the tables."""
    connections: int
    """How many there may be at most."""
    shown: str
    """The URL without its password and options, for messages."""


def parsed(url: str) -> Address:
    """Read `postgresql://USER@HOST/DATABASE?schema=NAME&connections=N&...`.

    What else stands after the question mark is an option of libpq, such as `sslmode`.

    Raises:
        StoreError: the URL cannot be read, or an option is not valid.
    """
    try:
        parts = make_url(url)
        shown = parts.set(query={}).render_as_string()
        schema = str(parts.query.get("schema", "pullqueue"))
        connections = int(str(parts.query.get("connections", "10")))
        _, arguments = dialect().create_connect_args(  # type: ignore[no-untyped-call]
            parts.difference_update_query(["schema", "connections"])
        )
    except (ArgumentError, ValueError):
        # What the error says may be a part of the password, where that has a character too many.
        raise StoreError(
            f"store {without_password(url)!r} cannot be read: give "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?connections=NUMBER, with special "
            "characters as %XX"
        ) from None
    if not schema.isidentifier() or not schema.isascii() or connections < 1:
        raise StoreError(
            f"store {shown}: schema must be letters, digits and underscores, and connections a "
            "number from 1 on"
        )
    return Address(arguments, schema.lower(), connections, shown)


def connect(address: Address) -> DriverConnection:
    """Open a connection on which each statement is a transaction of its own."""
    settings = {"search_path": address.schema, **_SETTINGS}
    given = address.arguments.get("options", "")
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    arguments = {"connect_timeout": WAIT_SECONDS, **_KEEPALIVE, **address.arguments}
    arguments["options"] = f"{options} {given}".strip()
    connection = psycopg.connect(autocommit=True, **arguments)
    # One form for each statement, prepared when it is first sent.
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    connection.adapters.register_dumper(bytes, BytesBinaryDumper)
    connection.adapters.register_dumper(list, ListBinaryDumper)
    return connection


def prepare(address: Address, *, steps: Sequence[Step] = STEPS) -> None:
    """Make the schema of a store, or lead it to the newest version.

    Raises:
        StoreError: the server cannot be reached, or the schema is another program's or of a newer
            version; it is left untouched.
    """
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect(address), poolclass=NullPool
    )
    try:
        with engine.connect() as connection:
            driver: DriverConnection = connection.connection.driver_connection  # type: ignore[assignment]
            driver.autocommit = False
            _migrate(connection, address, steps)
            connection.commit()
    except (SQLAlchemyError, psycopg.Error) as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise StoreError(f"store {address.shown} cannot be opened: {reason}") from error


def _migrate(connection: Connection, address: Address, steps: Sequence[Step]) -> None:
    # Several servers may be started at once.
    lock = text("SELECT pg_advisory_xact_lock(hashtextextended('pullqueue ' || :schema, 0))")
    connection.execute(lock, {"schema": address.schema})
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {address.schema}"))
    count = text("SELECT count(*) FROM pg_tables WHERE schemaname = :schema")
    tables = connection.execute(count, {"schema": address.schema}).scalar_one()
    table = connection.execute(text("SELECT to_regclass('schema_version')")).scalar_one()
    if tables and table is None:
        raise StoreError(
            f"schema {address.schema!r} of {address.shown} is another program's: name another, as "
            "in ?schema=NAME"
        )
    if not tables:
        connection.execute(text("CREATE TABLE schema_version (number integer NOT NULL)"))
        connection.execute(text("INSERT INTO schema_version VALUES (0)"))
    version = connection.execute(text("SELECT number FROM schema_version")).scalar_one()
    if version > len(steps):
        raise StoreError(
            f"schema {address.schema!r} of {address.shown} was written by a newer pullqueue "
            f"(version {version}, known here: {len(steps)}): upgrade pullqueue, or name another "
            "schema"
        )
    for step in steps[version:]:
        step(connection)
    connection.execute(text("UPDATE schema_version SET number = :number"), {"number": len(steps)})
