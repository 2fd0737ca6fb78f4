"""Calls to databases by Django's ORM: its wrapper of statements, and commits and rollbacks.

Django has no hook before a commit, so `commit` and `rollback`, which are called by `atomic` and by
`django.db.transaction`, are decorated. A connection of SQLite that was made in the test is left to
`sqlite`. Not seen is what is called by the driver's own connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NoReturn
from weakref import WeakSet

from django.conf import settings
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from pullqueue.testing.interrupt import WorkerInterrupt
from pullqueue.testing.patching import Patches
from pullqueue.testing.points.databases.calls import DatabaseCall, intercept
from pullqueue.testing.points.databases.sql import statement_footprint
from pullqueue.testing.points.databases.sqlite import ObservedConnection

_NAME = "Django"
_wrapped: WeakSet[Any] = WeakSet()


def _at_point(connection: Any, statement: str, execute: Callable[[], object]) -> object:
    if isinstance(connection.connection, ObservedConnection):
        connection.connection.used_by = _NAME
        return execute()

    def fail() -> NoReturn:
        if statement == "COMMIT":
            connection.rollback()
        raise OperationalError("the connection is closed")

    call = DatabaseCall(
        database=_NAME,
        statement=statement,
        find_footprint=lambda: statement_footprint(connection.vendor, statement),
        fail=fail,
        undoes=statement == "ROLLBACK",
        is_open=lambda: (
            statement == "BEGIN" or not (statement == "COMMIT" or connection.get_autocommit())
        ),
    )
    return intercept(call, execute)


def _execute(
    execute: Callable[..., object], sql: str, params: object, many: object, context: dict[str, Any]
) -> object:
    carry_out = partial(execute, sql, params, many, context)
    return _at_point(context["connection"], sql, carry_out)


def _wrap(connection: Any, **_: object) -> None:
    if connection not in _wrapped:
        connection.execute_wrappers.append(_execute)
        _wrapped.add(connection)


def _unwrap() -> None:
    for connection in [*_wrapped]:
        connection.execute_wrappers.remove(_execute)
    _wrapped.clear()


def _ending(statement: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    def decorate(end: Callable[..., object]) -> Callable[..., object]:
        @wraps(end)
        def end_at_point(connection: Any) -> object:
            if connection.connection is None or connection.get_autocommit():
                return end(connection)
            try:
                return _at_point(connection, statement, lambda: end(connection))
            except WorkerInterrupt:
                # `atomic` rolls back only where the commit raises an error of the database.
                connection.rollback()
                raise

        return end_at_point

    return decorate


@Patches
def following(patches: Patches) -> None:
    """Makes calls points, in a block."""
    if settings.configured:  # otherwise there is no connection, and Django would refuse to look
        for connection in connections.all(initialized_only=True):
            _wrap(connection)
    connection_created.connect(_wrap)
    patches.at_end(_unwrap)
    patches.at_end(connection_created.disconnect, _wrap)
    patches.decorate(BaseDatabaseWrapper, "commit", _ending("COMMIT"))
    patches.decorate(BaseDatabaseWrapper, "rollback", _ending("ROLLBACK"))
