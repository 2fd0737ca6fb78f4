"""A lock that counts who waits for it, so that tests of threads do not depend on timing."""

from __future__ import annotations

import threading
from typing import Self

_PATIENCE_SECONDS = 60
"""How long a test waits for threads that never come, before it fails."""


class WatchedLock:
    """A lock in place of another; `wait_for` returns when so many threads stand before it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition()
        self._waiting = 0

    def wait_for(self, count: int) -> bool:
        """Wait until so many threads have found the lock taken; False: they do not come."""
        with self._arrived:
            return self._arrived.wait_for(lambda: self._waiting == count, _PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        if not self._lock.acquire(blocking=False):
            with self._arrived:
                self._waiting += 1
                self._arrived.notify_all()
            self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
