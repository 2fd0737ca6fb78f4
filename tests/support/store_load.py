"""Workers that load stores and servers which are killed, and what must be there afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path

from interfaces import Interface
from requests import HTTPError, RequestException
from soak_checker import check_journals
from soak_workers import QUEUES, Worker

from pullqueue import Emulator, TransientError

QUEUE_YAML = "queue:\n" + "".join(f"- name: {name}\n  mode: pull\n" for name in QUEUES)
OPTIONS = ("--no-lease-rate-limit", "--log-level=error")
Connect = Callable[[], AbstractContextManager[Interface]]

_PATIENCE_SECONDS = 60
_numbers = count(1)


class Load:
    """Workers in threads, and the journals of what they were answered."""

    def __init__(self, folder: Path) -> None:
        """Write the journals into a folder."""
        self._folder = folder
        self._stop = threading.Event()

    def start(self, connect: Connect, *, workers: int = 2) -> list[threading.Thread]:
        """Start workers, which end when they are stopped or their server is gone.

        What may be tried again is not done, or its answer is lost; nothing else is refused.
        """

        def work(number: int) -> None:
            journal = self._folder / f"worker-{number}.jsonl"
            refusals = (TransientError,)
            with (
                connect() as interface,
                closing(
                    Worker(f"w{number}", interface, journal, seed=number, refusals=refusals)
                ) as worker,
            ):
                try:
                    while not self._stop.is_set():
                        worker.work()
                except HTTPError:
                    raise
                except RequestException:
                    pass  # the server was killed

        numbers = [next(_numbers) for _ in range(workers)]
        threads = [threading.Thread(target=work, args=[n], daemon=True) for n in numbers]
        for thread in threads:
            thread.start()
        return threads

    def wait(self, seconds: float, *, server: subprocess.Popen[str] | None = None) -> None:
        """Wait that long, and on a busy machine until a task was deleted; `server` does not end."""
        before, patience = self._deleted(), time.monotonic() + _PATIENCE_SECONDS
        self._stop.wait(seconds)
        while self._deleted() == before:
            assert time.monotonic() < patience, "nothing is deleted"
            assert server is None or server.poll() is None, f"the server ended: {server.poll()}"
            self._stop.wait(0.01)

    def stop(self, threads: list[threading.Thread]) -> None:
        """Stop all workers, and wait for some."""
        self._stop.set()
        finish(threads)

    def check(self, emulator: Emulator) -> None:
        """Compare the contents of the queues with the journals."""
        there: set[str] = set()
        for name in QUEUES:
            queue = emulator.queue(name)
            tasks = queue.list_tasks(limit=1_000_000)
            numbers = queue.fetch_statistics()
            assert numbers.tasks == len(tasks)
            assert numbers.bytes_stored == sum(task.stored_bytes for task in tasks)
            there |= {task.name for task in tasks}
        journals = sorted(self._folder.glob("*.jsonl"))
        verdict = check_journals(journals, gone=set(), there=there, most_leases=sys.maxsize)
        assert verdict.faults == []
        assert verdict.deleted

    def _deleted(self) -> int:
        return sum(path.read_text().count('"deleted"') for path in self._folder.glob("*.jsonl"))


def finish(threads: list[threading.Thread]) -> None:
    """Wait for workers."""
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
