"""Workers of the soak run: they use a queue through one interface, and write down what they did.

A line of a journal is JSON: what, the task's name, the real time (monotonic, the same for
all processes), and facts. What is about to be done is written before, what was done after, so that
a worker killed in between leaves its intent. Run as a program, this is one worker in a process:

    python soak_workers.py rest http://127.0.0.1:8124 journal.jsonl 42
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interfaces import Interface, Shown
from requests import Session
from rest_interface import RestInterface

from pullqueue import Emulator, PullQueueError
from pullqueue.config.model import QueueConfig

QUEUES = ("open", "limited")
LEASE_SECONDS = 30
LARGEST_LEASE = 7
DEEPEST = 400
TAGS = ("red", "green", None)
NO_EMULATOR = Emulator(QueueConfig())
"""For interfaces to an emulator in another process."""


class Worker:
    """Adds tasks, leases them, and finishes, extends, releases or abandons them, at random."""

    def __init__(
        self,
        name: str,
        interface: Interface,
        journal: Path,
        *,
        seed: int,
        refusals: tuple[type[Exception], ...] = (PullQueueError, ValueError),
    ) -> None:
        """Work through an interface; all errors but `refusals`, as Python has them, are raised."""
        self._name = name
        self._interface = interface
        self._journal = journal.open("a", buffering=1)
        self._random = random.Random(seed)
        self._refusals = refusals
        self._added = 0

    def work(self, *, adds: bool = True) -> None:
        queue = self._random.choice(QUEUES)
        if adds and self._random.random() < 0.6:
            for _ in range(self._random.randint(1, 5)):
                with self._refused():
                    self._add(queue)
        tasks: list[Shown] = []
        with self._refused():
            tasks = self._lease(queue)
        for task in tasks:
            with self._refused():
                self._handle(queue, task)

    def close(self) -> None:
        self._journal.close()

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Go on after a call that was not done, or whose answer was lost."""
        try:
            yield
        except Exception as error:
            if not issubclass(self._interface.error_of(error), self._refusals):
                raise

    def _add(self, queue: str) -> None:
        self._added += 1
        name = f"{self._name}-{self._added}"
        self._write("adding", name)
        self._interface.add(b"work", queue=queue, name=name, tag=self._random.choice(TAGS))
        self._write("added", name)

    def _lease(self, queue: str) -> list[Shown]:
        count = self._random.randint(1, LARGEST_LEASE)
        asked = time.monotonic()
        tasks = self._interface.lease(LEASE_SECONDS, count, queue=queue)
        for task in tasks:
            facts = {"asked": asked, "queue": queue, "count": count, "got": len(tasks)}
            self._write("leased", task.name, n=task.retry_count, eta=task.eta_usec, **facts)
        return tasks

    def _handle(self, queue: str, task: Shown) -> None:
        chance = self._random.random()
        if chance < 0.6:
            self._write("deleting", task.name)
            self._interface.delete(task.name, queue=queue)
            self._write("deleted", task.name)
        elif chance < 0.75:
            changed = self._interface.modify(task, 2 * LEASE_SECONDS, queue=queue)
            self._write("extended", task.name, n=task.retry_count, eta=changed.eta_usec)
        elif chance < 0.85:
            self._write("releasing", task.name, n=task.retry_count)
            self._interface.modify(task, 0, queue=queue)
        # Otherwise the task is abandoned, as by a worker that crashed.

    def _write(self, what: str, name: str, **facts: object) -> None:
        line = {"what": what, "name": name, "at": time.monotonic(), **facts}
        self._journal.write(json.dumps(line) + "\n")


@contextmanager
def rest(url: str) -> Iterator[Interface]:
    """Yield the REST interface to a server in another process."""
    with Session() as session:
        yield RestInterface(NO_EMULATOR, url, session)


@contextmanager
def bridge(url: str) -> Iterator[Interface]:
    """Yield the SDK's interface to a server in another process."""
    from sdk_interface import SdkInterface  # noqa: PLC0415 - only this worker needs it

    from pullqueue.sdk import connect  # noqa: PLC0415 - only this worker needs it

    connect(url.removeprefix("http://"))
    yield SdkInterface(NO_EMULATOR)


def main(kind: str, url: str, journal: str, seed: str) -> None:
    """Work until killed."""
    with {"rest": rest, "bridge": bridge}[kind](url) as interface:
        worker = Worker(f"{kind}{seed}", interface, Path(journal), seed=int(seed))
        while True:
            worker.work()


if __name__ == "__main__":
    main(*sys.argv[1:])
