"""One use of the database: the statements of one operation, and the time at which it happens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pullqueue.stores.rows import Row

Parameters = Mapping[str, Any]


class Session(ABC):
    """A connection for the length of one operation.

    Each statement is a transaction unless it stands in one. Statements are written once for all
    databases. They name their parameters as `:name`, a list of values as `IN_LIST(name)`, and the
    lock on what they read as `LOCK_ROWS`.
    """

    @property
    @abstractmethod
    def now_usec(self) -> int:
        """The time of the operation; the same at each question."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether it could begin a transaction: it is open, and in none."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Let what is sent within happen whole or not at all; joins a transaction around it."""

    @abstractmethod
    def rows(self, statement: str, parameters: Parameters) -> Iterator[Row]:
        """Send a statement and give the rows of its answer, one by one."""

    @abstractmethod
    def change(self, statement: str, parameters: Parameters) -> int:
        """Send a statement and count the rows it changed."""

    @abstractmethod
    def change_many(self, statement: str, parameters: Sequence[Parameters]) -> int:
        """Send a statement for each set of parameters and count the rows it changed."""

    @abstractmethod
    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """Give the parameter of an `IN_LIST`."""

    def row(self, statement: str, parameters: Parameters) -> Row | None:
        """Send a statement and give the first row of its answer, or None."""
        return next(iter(self.rows(statement, parameters)), None)
