"""Functions that call others: what begins a run, workers, and handlers of push tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pullqueue import Queue


def in_turn(*calls: Callable[[], object]) -> Callable[[], None]:
    """Return a function that makes some calls, one after the other."""

    def call_all() -> None:
        for call in calls:
            call()

    return call_all


def adding(queue: Queue, *names: str, **fields: Any) -> Callable[[], None]:
    """Return a function that adds tasks with some names, which are otherwise the same."""
    return in_turn(*(partial(queue.add, name=name, **fields) for name in names))


def handling(*calls: Callable[[], object]) -> Callable[[object], int]:
    """Return a handler that makes some calls, and then responds with 200."""

    def send(_: object) -> int:
        for call in calls:
            call()
        return 200

    return send
