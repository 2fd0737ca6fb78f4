"""The pytest plugin of pullqueue.

The types of the fixtures are here, for annotations; nothing is loaded before one is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_pullqueue.clock import FixtureClock
    from pytest_pullqueue.intercepting import AnsweredRequests
    from pytest_pullqueue.server import LiveServer

__all__ = ["AnsweredRequests", "FixtureClock", "LiveServer"]

_MODULES = {"AnsweredRequests": "intercepting", "FixtureClock": "clock", "LiveServer": "server"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
