"""What one operation of a store does in its database: the session that executes its statements."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import ClassVar, ParamSpec, TypeVar

from pullqueue.errors import TransientError
from pullqueue.stores.rows import Row, decode_task, encode_task
from pullqueue.tasks import Task

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Keys:
    """The keys that the queues of a project have in the tables, which all projects share."""

    def __init__(self, number: int | None = None) -> None:
        """Make the keys of the project with a number; None: of the server's own.

        These are the names of the queues. Those of others begin with a character that sorts after
        all of a name, and end their project with one that no name has.
        """
        self.prefix = "" if number is None else f"~{number}/"
        self.scope: Mapping[str, object] = {
            "project": self.prefix,
            "first_key": self.prefix,
            "last_key": f"{self.prefix}~",
        }
        """The parameters of statements on all queues."""

    def key(self, queue_name: str) -> str:
        """Return the key of a queue."""
        return self.prefix + queue_name

    def name(self, key: str) -> str:
        """Return the name of a queue."""
        return key[len(self.prefix) :]

    def decode_task(self, row: Row) -> Task:
        """Return the task of a row."""
        task = decode_task(row)
        return task._replace(queue_name=self.name(task.queue_name)) if self.prefix else task

    def encode_task(self, task: Task) -> Row:
        """Return the row of a task."""
        return encode_task(task._replace(queue_name=self.key(task.queue_name)))


OWN = Keys()
"""Those of the server's own project."""


def closed_error() -> TransientError:
    """Return the error of an operation that ends after its project."""
    return TransientError("the store is closed: its project was deleted, or the server ends")


class Session(ABC):
    """The statements of one operation; it has one time, in `now_usec`."""

    scoped: ClassVar[Collection[str]]
    """The statements with parameters of `Keys.scope`."""
    now_usec: int
    clock_usec: int | None
    """The same, or None where each statement asks the database for the time."""

    def __init__(self, keys: Keys) -> None:
        """Execute statements on the queues of a project."""
        self._keys = keys

    def bound(self, statement: str, given: dict[str, object]) -> dict[str, object]:
        """Return the parameters of a statement; `queue` is given as a name."""
        keys = self._keys
        if keys.prefix and given.get("queue") is not None:
            given["queue"] = keys.prefix + str(given["queue"])
        # Added to those of each statement they would take 4 us of the 80 of an add to SQLite.
        return {**keys.scope, **given} if statement in self.scoped else given

    @abstractmethod
    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """Execute a statement and return its rows; the parameter `queue` is a name."""

    @abstractmethod
    def change(self, statement: str, **parameters: object) -> int:
        """Execute a statement and return the number of rows it changed."""

    @abstractmethod
    def change_many(self, statement: str, rows: Iterable[Row]) -> int:
        """Execute a statement for each row of parameters; return the number of rows changed."""

    @abstractmethod
    def listed(self, values: Sequence[object]) -> object:
        """Return the parameter for a list of values."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[object]:
        """Run the statements of a block on one snapshot of the database."""

    def row(self, statement: str, **parameters: object) -> Row | None:
        """Execute a statement and return its first row, or None."""
        return next(iter(self.rows(statement, **parameters)), None)


class DeadlockError(TransientError):
    """two operations waited for each other, and this one was undone"""


def retried(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate an operation that is tried again after a deadlock, up to four times.

    Each time it waits longer: an operation that starts again at once can take the same lock before
    the other one has it, and so make the same deadlock.
    """

    @wraps(method)
    def operation(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for pause_seconds in (0.02, 0.05, 0.2, 0.5):
            try:
                return method(*args, **kwargs)
            except DeadlockError:
                share = random.uniform(0.5, 1)  # noqa: S311 - not secret
                threading.Event().wait(share * pause_seconds)  # a sleep would move a test's clock
        return method(*args, **kwargs)

    return operation
