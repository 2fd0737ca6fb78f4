"""A call to a database, and who gets it before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol, TypeVar, cast

from pullqueue.testing.points.actors import is_carried_out
from pullqueue.testing.points.footprint import Footprint
from pullqueue.text import shorten

_T = TypeVar("_T")


@dataclass(eq=False, kw_only=True)
class DatabaseCall:
    """One call to a database."""

    database: str
    """The package by which it is made, as reports show it."""
    statement: str
    find_footprint: Callable[[], Footprint]
    fail: Callable[[], object]
    """Does what the package does where the call fails, and nothing was done."""
    undoes: bool = False
    """True if it ends a transaction without an effect, as the end of an instance does."""
    is_open: Callable[[], bool] = lambda: False
    """Returns whether a transaction is open after it, which ends with who has begun it."""
    finish: Callable[[], object] = lambda: None
    """Carries it out, where the package does that only after its hook."""
    has_ended: bool = field(default=False, init=False)
    """True once it was carried out, and no transaction is open after it."""

    @cached_property
    def footprint(self) -> Footprint:
        """What it reads and writes."""
        return self.find_footprint()

    @property
    def has_lasted(self) -> bool:
        """True if what it has written is there whatever follows."""
        return self.has_ended and not self.undoes and bool(self.footprint.writes)

    @property
    def releases(self) -> bool:
        """True if it may have ended a transaction, or a lock, for which others wait."""
        text = self.statement.lower()
        return self.undoes or self.has_ended or "commit" in text or "unlock" in text

    def __str__(self) -> str:
        return f"{self.database}: {shorten(' '.join(self.statement.split()), limit=80)}"


class Observer(Protocol):
    """Gets the calls to databases, and those of `point`."""

    def at_point(self, call: DatabaseCall | str, call_next: Callable[[], object]) -> object:
        """Carry a call out, or not, and return its result."""

    def note_seen(self, name: str) -> None:
        """Note that calls of the current actor to a database or service are seen."""

    def note_unseen(self, name: str, port: int) -> None:
        """Note what the current actor uses that has no points, and to which port it connects."""

    def note_expiry(self, name: str, *, begins: bool) -> None:
        """Note a call to a database whose time is not the clock's; `begins`: of what expires."""


observers: list[Observer] = []
"""Those that get the calls that are made now."""


@contextmanager
def passed_to(observer: Observer) -> Iterator[None]:
    """Pass the calls that are made in the block to an observer; blocks may end in any order."""
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)


def is_observed() -> bool:
    """Return whether a call would be passed on; not if it is part of another."""
    return bool(observers) and not is_carried_out()


def note_unseen(name: str, port: int = 0) -> None:
    """Note what the current actor uses that has no points, and to which port it connects."""
    for observer in [*observers]:
        observer.note_unseen(name, port)


def intercept(call: DatabaseCall, carry_out: Callable[[], _T]) -> _T:
    """Pass a call on, and return its result."""

    def note_result() -> _T:
        result = carry_out()
        call.has_ended = not call.is_open()
        return result

    call_next: Callable[[], object] = note_result
    for observer in [*observers]:
        call_next = partial(observer.at_point, call, call_next)
    return cast("_T", call_next())
