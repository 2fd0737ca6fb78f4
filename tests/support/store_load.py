"""`pullqueue serve` as a process of its own, and workers that load it over REST."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest

from pullqueue import Emulator, Queue, Task, TombstonedTaskError, TransientError

LEASE_SECONDS = 86_400
"""No lease ends while a test runs: a leased task has one holder."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The server answered that it could not do it."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(str(status))


class Served:
    """A running server."""

    def __init__(self, queue_yaml: Path, store: str, *options: str) -> None:
        program = Path(sys.executable).with_name("pullqueue")
        command = [str(program), "serve", str(queue_yaml), "--port=0"]
        self.process = subprocess.Popen(
            [*command, "--no-lease-rate-limit", "--log-level=error", f"--store={store}", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("pullqueue listening on "):
            message = line + self.process.communicate()[1]
            raise RuntimeError(message)
        self.address = urlsplit(line.split()[-1]).netloc

    def kill(self) -> None:
        """End the server as a power button would."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """End the server as Ctrl-C would."""
        self.process.terminate()
        self.process.communicate()


class Client(Protocol):
    """What a worker does with a queue."""

    def add(self, name: str) -> None:
        """Add a task of a name, which is its payload too."""

    def lease(self, count: int) -> list[str]:
        """Lease tasks and return their names."""

    def delete(self, name: str) -> None:
        """Delete a task."""

    def close(self) -> None:
        """Let go of the connection."""


class QueueClient:
    """A worker in the process of the queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def add(self, name: str) -> None:
        """Add a task of a name."""
        self._queue.add(name, name=name)

    def lease(self, count: int) -> list[str]:
        """Lease tasks and return their names."""
        return [task.name for task in self._queue.lease_tasks(LEASE_SECONDS, count)]

    def delete(self, name: str) -> None:
        """Delete a task."""
        self._queue.delete_tasks(name)

    def close(self) -> None:
        """Do nothing."""


class RestClient:
    """A worker that speaks to a server."""

    def __init__(self, address: str, *, timeout: float = 60) -> None:
        self._connection = HTTPConnection(address, timeout=timeout)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def add(self, name: str) -> None:
        """Add a task of a name."""
        payload = urlsafe_b64encode(name.encode()).decode()
        self._call("POST", "tasks", {"queueName": "pull", "id": name, "payloadBase64": payload})

    def lease(self, count: int) -> list[str]:
        """Lease tasks and return their names."""
        answer = self._call("POST", f"tasks/lease?leaseSecs={LEASE_SECONDS}&numTasks={count}")
        return [item["id"] for item in answer.get("items", [])]

    def delete(self, name: str) -> None:
        """Delete a task."""
        self._call("DELETE", f"tasks/{name}")

    def _call(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        url = f"/taskqueue/v1beta2/projects/s~app/taskqueues/pull/{path}"
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(verb, url, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise Refused(response.status)
        return dict(json.loads(data)) if data else {}


class Ledger:
    """What the workers of a test got as answers, and what they never heard the end of."""

    def __init__(self) -> None:
        self.added: set[str] = set()
        self.leased: Counter[str] = Counter()
        self.deleted: set[str] = set()
        self.perhaps_added: set[str] = set()
        self.perhaps_deleted: set[str] = set()
        self.answers = 0
        self._numbers = 0
        self._lock = threading.Lock()

    def next_name(self) -> str:
        """Return a name that was never used."""
        with self._lock:
            self._numbers += 1
            return f"task-{self._numbers}"

    def produce(self, client: Client) -> None:
        """Add a task."""
        name = self.next_name()
        self.perhaps_added.add(name)
        client.add(name)
        self.added.add(name)
        self.answers += 1

    def consume(self, client: Client) -> None:
        """Lease some tasks, and delete some of them."""
        names = client.lease(5)
        with self._lock:
            self.leased.update(names)
        for name in names[::2]:
            self.perhaps_deleted.add(name)
            client.delete(name)
            self.deleted.add(name)
        self.answers += 1

    def wait(self, seconds: float) -> None:
        """Wait that long, and on a busy machine until there was an answer."""
        before, pause = self.answers, threading.Event()
        pause.wait(seconds)
        while self.answers == before:
            pause.wait(0.01)


def worker(
    client: Client, step: Callable[[Client], None], stop: threading.Event
) -> threading.Thread:
    """Repeat a step in a thread until it is stopped or its server is gone.

    What may be tried again is tried again, and the ledger knows that its end was not heard of.
    """

    def work() -> None:
        try:
            while not stop.is_set():
                with suppress(TransientError):
                    step(client)
        except (OSError, HTTPException):
            pass
        finally:
            client.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def load(
    ledger: Ledger, clients: Iterable[tuple[Client, Client]], stop: threading.Event
) -> list[threading.Thread]:
    """Let pairs of workers add and consume tasks until they are stopped."""
    threads: list[threading.Thread] = []
    for producer, consumer in clients:
        threads.append(worker(producer, ledger.produce, stop))
        threads.append(worker(consumer, ledger.consume, stop))
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
    assert all(task.payload == task.name.encode() for task in tasks.values())
    for name in list(ledger.deleted)[:500]:
        with pytest.raises(TombstonedTaskError):
            queue.get_task(name)
    numbers = queue.fetch_statistics()
    assert numbers.tasks == len(tasks)
    assert numbers.bytes_stored == sum(task.stored_bytes for task in tasks.values())
    assert numbers.leased == sum(task.retry_count for task in tasks.values())
    assert numbers.leased_last_hour >= ledger.leased.total()
