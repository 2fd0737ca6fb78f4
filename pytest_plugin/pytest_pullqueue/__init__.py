"""The pytest plugin of pullqueue.

The types of the fixtures are here, for annotations; nothing is loaded before one is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullqueue.testing import FixtureClock, LiveServer
    from pytest_pullqueue.intercepting import InterceptedRequests

__all__ = ["FixtureClock", "InterceptedRequests", "LiveServer"]


def __getattr__(name: str) -> object:
    if name == "InterceptedRequests":
        return import_module("pytest_pullqueue.intercepting").InterceptedRequests
    if name in __all__:
        return getattr(import_module("pullqueue.testing"), name)
    raise AttributeError(f'module "{__name__}" has no attribute "{name}"')
