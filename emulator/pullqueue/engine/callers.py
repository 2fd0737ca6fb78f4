"""Who makes a call, as the code that intercepts it sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Caller(NamedTuple):
    """Who makes the current call."""

    client: str
    """What the client calls itself (User-Agent), or its interface."""
    port: str | None = None
    """The port of a client of a server, which identifies its connection; None if this thread calls,
    through an interface that needs no server.
    """


class ConnectionCut(BaseException):
    """ends a call without a response: the server closes the connection of its caller"""

    def __init__(self, port: str) -> None:
        super().__init__(f"the connection from port {port} was cut")


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def called_by(caller: Caller) -> Iterator[None]:
    """Make the calls in the block those of a client."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller | None:
    """Return who makes the current call; None if this thread does, in Python."""
    return _caller.get()
