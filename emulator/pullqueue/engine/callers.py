"""The clients of a server, as the code that intercepts their calls sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Caller(NamedTuple):
    """The client of a server that makes the current call."""

    port: str
    """The client's port, which identifies its connection."""


class ConnectionCut(BaseException):
    """ends a call without a response: the server closes the connection of its caller"""

    def __init__(self, port: str) -> None:
        super().__init__(f"the connection from port {port} was cut")


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def called_by(caller: Caller) -> Iterator[None]:
    """Make the calls in the block those of a client of a server."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller | None:
    """Return the client whose call this thread carries out; None if the thread itself calls."""
    return _caller.get()
