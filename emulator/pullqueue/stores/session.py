"""What one operation of a store does in its database: the session that executes its statements."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from pullqueue.errors import TransientError
from pullqueue.stores.rows import Row

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Session(ABC):
    """The statements of one operation; it has one time, in `now_usec`."""

    now_usec: int
    clock_usec: int | None
    """The same, or None where each statement asks the database for the time."""

    @abstractmethod
    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """Execute a statement and return its rows."""

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


class Target(NamedTuple):
    """The queue that tasks are added to."""

    queue: str
    is_runtime: bool
    """True if it was made at run time."""
    lifetime_usec: int | None


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
