"""A counter in a database, as apps have one: each module `visits_*` has it in another database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path


class Visits(ABC):
    """The counter; each way to count is a method, which says in its name how."""

    name: str
    """Of the database, as reports show it."""
    error: type[Exception]
    """What a write raises that fails."""

    @abstractmethod
    def reset(self) -> None:
        """Begin with 0."""

    @abstractmethod
    def value(self) -> int:
        """Return the number."""

    @abstractmethod
    def write(self) -> None:
        """Set it to 1."""

    def pay(self, then: Callable[[], object]) -> None:
        """Where it is 0, set it to 1 in a transaction, and call a function after the commit."""
        raise NotImplementedError


Open = Callable[[str, Path], AbstractContextManager[Visits]]
"""Makes the counter in a variant of the database, in a folder."""
