"""Reaching a PostgreSQL server: its URL, its connections, and the schema a store has there."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from pullqueue.errors import StoreError
from pullqueue.stores import without_password
from pullqueue.stores.rows import Row
from pullqueue.stores.sql_files import migrations
from pullqueue.text import quoted

Connection = psycopg.Connection[Row]

WAIT_SECONDS = 5
"""How long to wait for a connection: a new one, or one that another thread returns."""
_JOIN_TRIES = 20
"""How often to look, every 50 ms, whether a server with another clock has ended."""
_TURN_SECONDS = 0.5
"""How long to wait before another look whether the server can be reached."""
_RESPONSE_SECONDS = 9
"""How long to wait for the result of a statement, a little more than the server takes at most."""
_SETTINGS = {
    # Every statement has an index to go by, at any depth; estimates made when the tables were
    # small must not lead to another plan, nor is there time for planning at each call.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    # One server that hangs must not hold up the others.
    "lock_timeout": "5s",
    "statement_timeout": "8s",
    "idle_in_transaction_session_timeout": "30s",
    "client_min_messages": "warning",
}
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_FOREVER_SECONDS = 10**9
_SCHEMA_CHARACTERS = 63
"""Of PostgreSQL."""
_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)
"""Without a limit of the descriptor's number, where possible."""


SYSTEM_CLOCK = 0


class Address(NamedTuple):
    """What the URL of a store says."""

    arguments: dict[str, Any]
    """For the driver."""
    schema: str
    connections: int
    shown: str
    """The URL without credentials and options, for messages."""
    clock: int | None = None
    """A number of the clock that servers with this schema must have; SYSTEM_CLOCK: the database's.
    None: connections that are not a store's."""


def parsed(url: str) -> Address:
    """Read `postgresql://USER@HOST/DATABASE?schema=NAME&connections=N&...`.

    Other options are those of libpq, such as `sslmode`.

    Raises:
        StoreError: the URL cannot be read, or an option is not valid.
    """
    base, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = options.pop("schema", "pullqueue")
    connections = options.pop("connections", "10")
    try:
        arguments = conninfo_to_dict(f"{base}?{urlencode(options, quote_via=quote)}")
        # One port for each host; a password with a slash in it looks like a port, too.
        [int(port) for port in str(arguments.get("port", 0)).split(",") if port]
    except (psycopg.ProgrammingError, ValueError):
        # The error may quote a part of the password, if that has a character that is not valid.
        raise StoreError(
            f'store "{without_password(url)}" cannot be read: use '
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?connections=NUMBER, with special "
            "characters as %XX"
        ) from None
    shown = without_password(base)
    if not (schema.isidentifier() and schema.isascii()):
        raise StoreError(
            f"store {shown}: schema is {quoted(schema)}; use letters, digits and underscores"
        )
    if len(schema) > _SCHEMA_CHARACTERS:
        raise StoreError(
            f"store {shown}: schema has {len(schema)} characters; the maximum is "
            f"{_SCHEMA_CHARACTERS}"
        )
    if not connections.isascii() or not connections.isdigit() or int(connections) < 1:
        raise StoreError(
            f"store {shown}: connections is {quoted(connections)}; it must be an integer, 1 or more"
        )
    return Address(arguments, schema.lower(), int(connections), shown)


class _BigintDumper(Dumper):
    """Sends all integers as one type, so that a statement is prepared once for all of them."""

    oid = psycopg.adapters.types["int8"].oid

    def dump(self, obj: int) -> bytes:
        """Return the integer as text."""
        return str(obj).encode()


def connect(address: Address) -> Connection:
    """Open a connection on which each statement is a transaction of its own.

    Raises:
        StoreError: a server with another clock uses the schema.
    """
    connection: Connection = psycopg.connect(autocommit=True, **_arguments(address))
    _configure(address, connection)
    return connection


def _arguments(address: Address) -> dict[str, Any]:
    settings = {"search_path": address.schema, **_SETTINGS}
    given = address.arguments.get("options", "")
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    arguments = {"connect_timeout": WAIT_SECONDS, **_KEEPALIVE, **address.arguments}
    arguments["options"] = f"{options} {given}".strip()
    return arguments


def _configure(address: Address, connection: Connection) -> None:
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, _BigintDumper)
    if address.clock is not None:
        try:
            _join(connection, address, address.clock)
        except BaseException:
            connection.close()
            raise


def _join(connection: Connection, address: Address, clock: int) -> None:
    """Claim the schema for a clock as long as the connection is open; others may have the same.

    Each connection of a store has the lock, so no statement runs while one with another clock has.
    """
    key = "hashtext('pullqueue clock ' || %(schema)s)"
    alone = f"SELECT pg_advisory_xact_lock(hashtextextended({key}::text, 0))"
    join = f"""
        WITH other AS MATERIALIZED (
            SELECT objid::bigint AS clock FROM pg_locks
            JOIN pg_database ON pg_database.oid = database AND datname = current_database()
            WHERE locktype = 'advisory' AND objsubid = 2 AND classid = {key}::oid
                AND objid <> %(clock)s::oid)
        SELECT max(clock), CASE WHEN count(*) = 0
            THEN pg_try_advisory_lock_shared({key}, %(clock)s::int) END FROM other
    """
    values = {"schema": address.schema, "clock": clock}
    other = None
    for _ in range(_JOIN_TRIES):
        with connection.transaction():
            connection.execute(alone.encode(), values, prepare=False)
            ((other, joined),) = connection.execute(join.encode(), values, prepare=False)
        if joined:
            return
        connection.execute("SELECT pg_sleep(0.05)", prepare=False)  # not by a clock of a test
    kinds = ["the system" if each == SYSTEM_CLOCK else "a manual" for each in (clock, other)]
    raise StoreError(
        f'schema "{address.schema}" of {address.shown}: this server has {kinds[0]} clock, and '
        f"another one that uses it has {kinds[1]} clock: stop that one, or use another schema, as "
        "in ?schema=NAME"
    )


class Connections:
    """The connections of a store: a limited number, opened when they are first needed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._unreachable = threading.Event()
        # The pool would log each attempt; a call that fails because of it has the reason.
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        self._pool = ConnectionPool(
            kwargs={"autocommit": True, **_arguments(address)},
            min_size=1,  # which claims the schema for the clock
            max_size=address.connections,
            configure=partial(_configure, address),
            check=_check,
            # The pool would try again later and later: here the next call does at once.
            reconnect_timeout=0,
            reconnect_failed=lambda _: self._unreachable.set(),
            max_lifetime=_FOREVER_SECONDS,  # by a clock that tests move
            num_workers=1,
            open=True,
        )
        with suppress(PoolTimeout):  # or the first call would have one more opened
            self._pool.wait(WAIT_SECONDS)
        self._deadlines = _Deadlines()

    @contextmanager
    def borrowed(self, *, unlimited: bool = False) -> Iterator[Connection]:
        """Lend a connection for one operation.

        Unless `unlimited`, the operation fails if the server does not respond in time.
        """
        connection = self._taken()
        self._deadlines.begin(connection, unlimited=unlimited)
        try:
            yield connection
        finally:
            self._deadlines.end(connection)
            # The pool closes it, if it was interrupted in the middle of something.
            self._pool.putconn(connection)

    def _taken(self) -> Connection:
        turn_seconds = min(WAIT_SECONDS, _TURN_SECONDS)
        for _ in range(round(WAIT_SECONDS / turn_seconds)):
            self._unreachable.clear()
            try:
                return self._pool.getconn(turn_seconds)
            except PoolTimeout:
                if self._unreachable.is_set():
                    connect(self._address).close()  # raises the reason
        raise PoolTimeout(
            f"no connection within {WAIT_SECONDS} seconds, of {self._address.connections} at most "
            "(?connections=NUMBER permits more)"
        )

    def close(self) -> None:
        """Close all connections; operations that wait for the server fail."""
        self._deadlines.close()
        self._pool.close(timeout=1)


class _Deadlines:
    """Ends the wait for a server that does not respond.

    The server's own timeouts do not help if it hangs as a whole, and libpq has none for results: so
    a thread looks at all operations once a second and shuts down the sockets of those that take too
    long. It counts its own turns, since a clock may be frozen or moved.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = 0
        self._begun: dict[Connection, float] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pullqueue-deadlines", daemon=True)
        self._thread.start()

    def begin(self, connection: Connection, *, unlimited: bool) -> None:
        with self._lock:
            self._begun[connection] = float("inf") if unlimited else self._turn

    def end(self, connection: Connection) -> None:
        with self._lock:
            del self._begun[connection]

    def close(self) -> None:
        """End all waits."""
        self._closed.set()
        with self._lock:
            _shut_down(self._begun)

    def _run(self) -> None:
        while not self._closed.wait(1):
            with self._lock:
                self._turn += 1
                latest = self._turn - _RESPONSE_SECONDS
                _shut_down([c for c, begun in self._begun.items() if begun < latest])


def _shut_down(connections: Iterable[Connection]) -> None:
    for connection in connections:
        # The driver finds that the server is gone, and closes its own descriptor of the socket.
        with suppress(OSError, psycopg.Error):
            descriptor = os.dup(connection.fileno())
            with socket.socket(fileno=descriptor) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)


def _check(connection: Connection) -> None:
    """Check that an idle connection is not closed by the server, without asking it.

    Raises:
        psycopg.OperationalError: it is.
    """
    # There is nothing to be read from an idle connection except that it was closed.
    with _Selector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        if selector.select(0):
            connection.close()
            raise psycopg.OperationalError("the server has closed the connection")


def prepare(address: Address) -> None:
    """Make the schema of a store, or migrate it to the newest version.

    Raises:
        StoreError: the server cannot be reached, or the schema is another program's or of a newer
            version; it is left untouched.
    """
    try:
        with connect(address) as connection, connection.transaction():
            _migrate(connection, address, migrations("postgres"))
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"store {address.shown} cannot be opened: {reason}") from error


def _migrate(connection: Connection, address: Address, scripts: Sequence[str]) -> None:
    connection.execute("SET LOCAL statement_timeout = 0")
    # Several servers may be started at once.
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('pullqueue ' || %s, 0))"
    connection.execute(lock, [address.schema])
    # IF NOT EXISTS needs the right to create schemas even if the schema exists.
    known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [address.schema])
    if not known.fetchone():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}".encode())
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
    found = {row[0] for row in connection.execute(tables, [address.schema])}
    if found and "schema_version" not in found:
        raise StoreError(
            f'schema "{address.schema}" of {address.shown} belongs to another program: use another '
            "one, as in ?schema=NAME"
        )
    if not found:
        connection.execute("CREATE TABLE schema_version (number integer NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (0)")
    ((version,),) = connection.execute("SELECT number FROM schema_version").fetchall()
    if version > len(scripts):
        raise StoreError(
            f'schema "{address.schema}" of {address.shown} was written by a newer pullqueue '
            f"(version {version}, known here: {len(scripts)}): upgrade pullqueue, or use another "
            "schema"
        )
    for script in scripts[version:]:
        connection.execute(script.encode(), prepare=False)  # several statements
    connection.execute("UPDATE schema_version SET number = %s", [len(scripts)])
