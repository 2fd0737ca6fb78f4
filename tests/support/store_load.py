"""Workers that load stores and servers which are killed, and what was answered to them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlsplit

import pytest
from soak_workers import PythonSoakInterface, Refused, RestSoakInterface

from pullqueue import Emulator, Task, TombstonedTaskError, TransientError

QUEUES = "queue:\n- name: pull\n  mode: pull\n"
OPTIONS = ("--no-lease-rate-limit", "--log-level=error")
LEASE_SECONDS = 86_400
"""No lease ends while a test runs: a leased task has one holder."""

LoadInterface = PythonSoakInterface | RestSoakInterface


def rest(url: str) -> RestSoakInterface:
    """Connect to a server."""
    return RestSoakInterface(urlsplit(url).netloc, seconds=LEASE_SECONDS)


class Ledger:
    """What the workers of a test got as answers, and what they never heard the end of."""

    def __init__(self) -> None:
        self.added: set[str] = set()
        self.leased: Counter[str] = Counter()
        self.deleted: set[str] = set()
        self.perhaps_added: set[str] = set()
        self.perhaps_deleted: set[str] = set()
        self._answers = 0
        self._numbers = 0
        self._lock = threading.Lock()

    def produce(self, interface: LoadInterface) -> None:
        """Add a task of a name that was never used."""
        with self._lock:
            self._numbers += 1
            name = f"task-{self._numbers}"
        self.perhaps_added.add(name)
        interface.add("pull", name, None)
        self.added.add(name)
        self._answers += 1

    def consume(self, interface: LoadInterface) -> None:
        """Lease some tasks, and delete some of them."""
        tasks = interface.lease("pull", 5)
        with self._lock:
            self.leased.update(task.name for task in tasks)
        for task in tasks[::2]:
            self.perhaps_deleted.add(task.name)
            interface.delete("pull", task)
            self.deleted.add(task.name)
        self._answers += 1

    def wait(self, seconds: float) -> None:
        """Wait that long, and on a busy machine until there was an answer."""
        before, pause = self._answers, threading.Event()
        pause.wait(seconds)
        while self._answers == before:
            pause.wait(0.01)


def load(
    ledger: Ledger, connect: Callable[[], LoadInterface], stop: threading.Event, *, pairs: int = 1
) -> list[threading.Thread]:
    """Let pairs of workers add and consume tasks until they are stopped or their server is gone.

    What may be tried again is tried again, and the ledger knows that its end was not heard of.
    """

    def work(step: Callable[[LoadInterface], None]) -> None:
        interface = connect()
        with suppress(OSError, HTTPException):
            while not stop.is_set():
                try:
                    step(interface)
                except Refused as refused:
                    if not isinstance(refused.__cause__, TransientError):
                        raise
        if isinstance(interface, RestSoakInterface):
            interface.close()

    steps = [ledger.produce, ledger.consume] * pairs
    threads = [threading.Thread(target=work, args=[step], daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    return threads


def finish(threads: list[threading.Thread]) -> None:
    """Wait for workers."""
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


def check(emulator: Emulator, ledger: Ledger) -> None:
    """Compare the contents of a queue with the responses that the workers got."""
    queue = emulator.queue("pull")
    tasks: dict[str, Task] = {task.name: task for task in queue.list_tasks(limit=1_000_000)}
    assert ledger.added - ledger.perhaps_deleted <= tasks.keys()
    assert tasks.keys() <= ledger.perhaps_added - ledger.deleted
    assert set(ledger.leased.values()) <= {1}
    assert all(tasks[name].retry_count == 1 for name in ledger.leased.keys() & tasks.keys())
    assert all(task.retry_count <= 1 for task in tasks.values())
    for name in list(ledger.deleted)[:500]:
        with pytest.raises(TombstonedTaskError):
            queue.get_task(name)
    numbers = queue.fetch_statistics()
    assert numbers.tasks == len(tasks)
    assert numbers.bytes_stored == sum(task.stored_bytes for task in tasks.values())
    assert numbers.leased == sum(task.retry_count for task in tasks.values())
    assert numbers.leased_last_hour >= ledger.leased.total()
