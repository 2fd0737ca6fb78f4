"""The threads in which a server sends push tasks: one pool for all of its projects."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Protocol

_THREADS: Final = 64
"""Maximum number of attempts of one project at the same time."""
_ALL_THREADS: Final = 512
"""Maximum of all projects that send; but each may make one at any time."""
_IDLE_SECONDS: Final = 2.0
"""How long a thread waits for another job before it ends."""


class Sender(Protocol):
    """What has jobs for threads."""

    def end_job(self) -> None:
        """Do what follows after each job."""


class SenderThreads:
    """Threads that start when there is a job for them, and end when there is none for some time.

    No job waits for another: how many there are is limited by those who ask for their share.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        """Start without a thread; a project makes at most `threads` attempts at the same time."""
        self._threads = threads
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for a job, less the jobs that wait for one of them."""
        self._running: Counter[Sender] = Counter()
        """How many jobs each sender has."""

    @property
    def share(self) -> int:
        """How many attempts a project may make at the same time, as many as send now."""
        return max(1, min(self._threads, _ALL_THREADS // max(1, len(self._running))))

    def is_busy(self, sender: Sender) -> bool:
        """Return whether a sender has jobs that have not ended."""
        return sender in self._running

    def run(self, sender: Sender, job: Callable[..., None], *arguments: object) -> None:
        """Run a job of a sender."""
        with self._lock:
            self._running[sender] += 1
            self._idle -= 1
            if self._idle < 0:
                self._idle = 0
                threading.Thread(target=self._work, name="pullqueue attempt", daemon=True).start()
        self._jobs.put(partial(self._run, sender, job, *arguments))

    def _run(self, sender: Sender, job: Callable[..., None], *arguments: object) -> None:
        try:
            job(*arguments)
        finally:
            with self._lock:
                self._running[sender] -= 1
                if not self._running[sender]:
                    del self._running[sender]
            sender.end_job()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:  # else a job is about to come
                        self._idle -= 1
                        return
                continue
            job()  # if it raises, its thread ends
            with self._lock:
                self._idle += 1
