"""A PostgreSQL store that several emulators and threads use at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stores import own_schema

from pullqueue import Emulator, SystemClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.stores import open_store

CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(
            name="once",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=1),
        ),
    )
)
THREADS = 4


class WrongClock(SystemClock):
    """The clock of a machine that has another time than its database."""

    def __init__(self, ahead_seconds: int) -> None:
        """Be ahead by seconds, or behind if they are negative."""
        self._ahead_usec = ahead_seconds * 1_000_000

    def now_usec(self) -> int:
        """Return the wrong time."""
        return super().now_usec() + self._ahead_usec


def emptied(purpose: str) -> str:
    """Return the URL of an empty store."""
    url = own_schema(purpose)
    emulator = Emulator(CONFIG, store=open_store(url))
    emulator.reset()
    emulator.close()
    return url


def together(*work: Callable[[], object]) -> None:
    """Do things at the same time, each in several threads."""
    start = threading.Barrier(THREADS * len(work))

    def begin(do: Callable[[], object]) -> object:
        start.wait()
        return do()

    with ThreadPoolExecutor(THREADS * len(work)) as threads:
        for done in [threads.submit(begin, do) for do in work for _ in range(THREADS)]:
            done.result(timeout=60)
