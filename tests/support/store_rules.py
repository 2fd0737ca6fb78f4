"""The queues that the rules of the stores are tried on, and threads that use them together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pullqueue import Emulator, Limits, SystemClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters

LIMITS = Limits(
    events_kept=50, exhausted_kept=3, exhausted_payload_bytes=100, tombstone_seconds=100
)
THREADS = 4
ONLY_POSTGRES = pytest.mark.parametrize("url", ["postgres"], indirect=True)
Start = Callable[..., Emulator]
"""The fixture `start`."""


class WrongClock(SystemClock):
    """The clock of a machine that has another time than its database."""

    def __init__(self, ahead_seconds: int) -> None:
        """Be ahead by seconds, or behind if they are negative."""
        self._ahead_usec = ahead_seconds * 1_000_000

    def now_usec(self) -> int:
        """Return the wrong time."""
        return super().now_usec() + self._ahead_usec


def config_of(limit: int | None) -> QueueConfig:
    """Return a queue with a retry limit, and one without."""
    retry = RetryParameters(task_retry_limit=limit, task_age_limit_seconds=300)
    return QueueConfig(
        queues=(
            QueueSettings(name="pull", mode=QueueMode.PULL),
            QueueSettings(name="limited", mode=QueueMode.PULL, retry_parameters=retry),
        )
    )


def together(*work: Callable[[], object]) -> None:
    """Do things at the same time, each in several threads."""
    start = threading.Barrier(THREADS * len(work))

    def begin(do: Callable[[], object]) -> object:
        start.wait()
        return do()

    with ThreadPoolExecutor(THREADS * len(work)) as threads:
        for done in [threads.submit(begin, do) for do in work for _ in range(THREADS)]:
            done.result(timeout=60)
