"""Calls to databases by SQLAlchemy: its events before a statement, a commit and a rollback.

A connection of SQLite is left to `sqlite`, if it was made in the test. Not seen is what is called
by the driver's own connection.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from pullqueue.testing.interrupt import WorkerInterrupt
from pullqueue.testing.patching import Patches
from pullqueue.testing.points.actors import current_actor
from pullqueue.testing.points.databases.calls import DatabaseCall, intercept, observers
from pullqueue.testing.points.databases.sql import statement_footprint
from pullqueue.testing.points.databases.sqlite import ObservedConnection

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_NAME = "SQLAlchemy"
_SHARED = (
    "race_test: the actors share one connection of a StaticPool, and so one transaction, as "
    "instances never do: use a database in a file, as tmp_path has it"
)
_CLOSED = (
    "crash_test: a kill closes the one connection of a StaticPool, and so deletes a database in "
    "memory: use a database in a file, as tmp_path has it"
)
_MEMORY = (None, "", ":memory:")


def _at_statement(
    connection: Connection, cursor: Any, statement: str, parameters: Any, _: object, is_many: object
) -> None:
    execute = cursor.executemany if is_many else cursor.execute
    is_autocommit = getattr(connection.connection.dbapi_connection, "autocommit", False) is True
    finish = partial(execute, statement, parameters) if is_autocommit else None
    _at_point(connection, statement, finish)


def _warn_of_one_connection(*, in_memory: bool) -> None:
    actor = current_actor()
    if actor is not None and actor.can_wait:
        warnings.warn(_SHARED, stacklevel=3)
    elif actor is not None and in_memory:
        warnings.warn(_CLOSED, stacklevel=3)


def _at_point(
    connection: Connection, statement: str, finish: Callable[[], object] | None = None
) -> None:
    """Stop at a statement; `finish` carries it out with an effect that lasts, if it has any."""
    pooled = connection.connection
    dialect = connection.dialect
    if isinstance(connection.engine.pool, StaticPool):
        _warn_of_one_connection(in_memory=connection.engine.url.database in _MEMORY)
    if isinstance(pooled.driver_connection, ObservedConnection):
        pooled.driver_connection.used_by = _NAME
        return
    if dialect.driver == "aiosqlite":
        for observer in [*observers]:
            observer.note_seen(_NAME)
        return

    def roll_back() -> None:
        # SQLAlchemy takes a commit that raises for the end of the transaction.
        if pooled.dbapi_connection is not None:
            pooled.dbapi_connection.rollback()

    def fail() -> NoReturn:
        if statement == "COMMIT":
            roll_back()
        raise OperationalError(statement, None, ConnectionError("the connection is closed"))

    call = DatabaseCall(
        database=_NAME,
        statement=statement,
        find_footprint=lambda: statement_footprint(dialect.name, statement),
        fail=fail,
        undoes=statement == "ROLLBACK",
        is_open=lambda: finish is None,
        finish=finish or (lambda: None),
    )
    try:
        intercept(call, lambda: None)
    except WorkerInterrupt:
        roll_back()
        raise


_LISTENERS: dict[str, Callable[..., None]] = {
    "before_cursor_execute": _at_statement,
    "commit": lambda connection: _at_point(connection, "COMMIT", connection.connection.commit),
    "prepare_twophase": lambda connection, *_: _at_point(connection, "COMMIT"),
    "commit_twophase": lambda connection, *_: _at_point(connection, "COMMIT"),
    "rollback": lambda connection: _at_point(connection, "ROLLBACK"),
    "rollback_twophase": lambda connection, *_: _at_point(connection, "ROLLBACK"),
}


@Patches
def following(patches: Patches) -> None:
    """Makes calls points, in a block."""
    for name, listener in _LISTENERS.items():
        event.listen(Engine, name, listener)
        patches.at_end(event.remove, Engine, name, listener)
