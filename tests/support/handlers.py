"""Handlers of push tasks."""

from __future__ import annotations

from collections.abc import Callable


def handling(*calls: Callable[[], object]) -> Callable[[object], int]:
    """Return a handler that makes some calls, and then responds with 200."""

    def send(_: object) -> int:
        for call in calls:
            call()
        return 200

    return send
