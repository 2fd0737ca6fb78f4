"""Workers of the soak run: they use a queue through one interface, and write down what they did.

A line of a journal is JSON: what, the task's name, the real time (monotonic, the same for
all processes), and facts. What is about to be done is written before, what was done after, so that
a worker killed in between leaves its intent. Run as a program, this is one worker in a process:

    python soak_workers.py rest 127.0.0.1:8124 journal.jsonl 42
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from pullqueue import PullQueueError, Queue

QUEUES = ("open", "limited")
LEASE_SECONDS = 30
LARGEST_LEASE = 7
DEEPEST = 400
TAGS = ("red", "green", None)


class Leased(NamedTuple):
    """A task as a worker holds it."""

    name: str
    retry_count: int
    eta_usec: int
    raw: Any
    """The interface's own form of it."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The interface did not do what was asked, or its answer was lost; over REST, the status."""


class SoakInterface(Protocol):
    """What a worker does with a queue."""

    def add(self, queue: str, name: str, tag: str | None) -> None:
        """Add a task."""

    def lease(self, queue: str, count: int) -> list[Leased]:
        """Lease tasks, for LEASE_SECONDS unless the interface has other ones."""

    def extend(self, queue: str, task: Leased, seconds: int) -> Leased:
        """Change the end of a lease; 0 releases the task."""

    def delete(self, queue: str, task: Leased) -> None:
        """Delete a task."""


class PythonSoakInterface:
    """The Python interface."""

    def __init__(self, queue_of: Callable[[str], Queue], *, seconds: int = LEASE_SECONDS) -> None:
        self._queue_of = queue_of
        self._seconds = seconds

    def add(self, queue: str, name: str, tag: str | None) -> None:
        """Add a task."""
        self._try(lambda: self._queue_of(queue).add(b"work", name=name, tag=tag))

    def lease(self, queue: str, count: int) -> list[Leased]:
        """Lease tasks."""
        tasks = self._try(lambda: self._queue_of(queue).lease_tasks(self._seconds, count))
        return [Leased(task.name, task.retry_count, task.eta_usec, task) for task in tasks]

    def extend(self, queue: str, task: Leased, seconds: int) -> Leased:
        """Return a lease another end."""
        changed = self._try(lambda: self._queue_of(queue).modify_task_lease(task.raw, seconds))
        return Leased(changed.name, changed.retry_count, changed.eta_usec, changed)

    def delete(self, queue: str, task: Leased) -> None:
        """Delete a task."""
        self._try(lambda: self._queue_of(queue).delete_tasks(task.name))

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except PullQueueError as error:
            raise Refused from error


class SdkSoakInterface:
    """App Engine's own library, in process or over the bridge."""

    def __init__(self) -> None:
        from google.appengine.api import taskqueue  # noqa: PLC0415 - only these workers need it
        from google.appengine.runtime import apiproxy_errors  # noqa: PLC0415 - the same

        self._taskqueue = taskqueue
        self._errors = (taskqueue.Error, apiproxy_errors.Error)

    def add(self, queue: str, name: str, tag: str | None) -> None:
        """Add a task."""
        task = self._taskqueue.Task(payload=b"work", name=name, tag=tag, method="PULL")
        self._try(lambda: self._taskqueue.Queue(queue).add(task))

    def lease(self, queue: str, count: int) -> list[Leased]:
        """Lease tasks."""
        lease = self._taskqueue.Queue(queue).lease_tasks
        return [self._leased(task) for task in self._try(lambda: lease(LEASE_SECONDS, count))]

    def extend(self, queue: str, task: Leased, seconds: int) -> Leased:
        """Return a lease another end."""
        modify = self._taskqueue.Queue(queue).modify_task_lease
        self._try(lambda: modify(task.raw, seconds))
        return self._leased(task.raw)

    def delete(self, queue: str, task: Leased) -> None:
        """Delete a task."""
        by_name = self._taskqueue.Queue(queue).delete_tasks_by_name
        self._try(lambda: by_name(task.name))

    def _leased(self, task: Any) -> Leased:
        return Leased(task.name, task.retry_count, round(task.eta_posix * 1e6), task)

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._errors as error:
            raise Refused from error


class RestSoakInterface:
    """REST over one kept connection."""

    def __init__(self, address: str, *, seconds: int = LEASE_SECONDS) -> None:
        self._connection = HTTPConnection(address, timeout=60)
        self._seconds = seconds

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def add(self, queue: str, name: str, tag: str | None) -> None:
        """Add a task."""
        task = {"queueName": queue, "id": name, "payloadBase64": "d29yaw=="}
        self._call("POST", f"{queue}/tasks", task if tag is None else task | {"tag": tag})

    def lease(self, queue: str, count: int) -> list[Leased]:
        """Lease tasks."""
        query = urlencode({"leaseSecs": self._seconds, "numTasks": count})
        answer = self._call("POST", f"{queue}/tasks/lease?{query}")
        return [self._leased(item) for item in answer.get("items", [])]

    def extend(self, queue: str, task: Leased, seconds: int) -> Leased:
        """Return a lease another end."""
        held = {"id": task.name, "queueName": queue, "leaseTimestamp": str(task.eta_usec)}
        path = f"{queue}/tasks/{task.name}?newLeaseSeconds={seconds}"
        return self._leased(self._call("POST", path, held))

    def delete(self, queue: str, task: Leased) -> None:
        """Delete a task."""
        self._call("DELETE", f"{queue}/tasks/{task.name}")

    def _leased(self, item: dict[str, Any]) -> Leased:
        return Leased(item["id"], item["retry_count"], int(item["leaseTimestamp"]), None)

    def _call(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        url = f"/taskqueue/v1beta2/projects/p/taskqueues/{path}"
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(verb, url, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise Refused(response.status)
        return dict(json.loads(data)) if data else {}


class Worker:
    """Adds tasks, leases them, and finishes, extends, releases or abandons them, at random."""

    def __init__(self, name: str, interface: SoakInterface, journal: Path, *, seed: int) -> None:
        self._name = name
        self._interface = interface
        self._journal = journal.open("a", buffering=1)
        self._random = random.Random(seed)
        self._added = 0

    def work(self, *, adds: bool = True) -> int:
        """Do one round, and return how many tasks were leased."""
        queue = self._random.choice(QUEUES)
        if adds and self._random.random() < 0.6:
            for _ in range(self._random.randint(1, 5)):
                self._add(queue)
        return self._lease(queue)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _add(self, queue: str) -> None:
        self._added += 1
        name = f"{self._name}-{self._added}"
        self._write("adding", name)
        try:
            self._interface.add(queue, name, self._random.choice(TAGS))
        except Refused:
            return
        self._write("added", name)

    def _lease(self, queue: str) -> int:
        count = self._random.randint(1, LARGEST_LEASE)
        asked = time.monotonic()
        try:
            tasks = self._interface.lease(queue, count)
        except Refused:
            return 0
        for task in tasks:
            facts = {"asked": asked, "queue": queue, "count": count, "got": len(tasks)}
            self._write("leased", task.name, n=task.retry_count, eta=task.eta_usec, **facts)
        for task in tasks:
            try:
                self._handle(queue, task)
            except Refused:
                continue
        return len(tasks)

    def _handle(self, queue: str, task: Leased) -> None:
        chance = self._random.random()
        if chance < 0.6:
            self._write("deleting", task.name)
            self._interface.delete(queue, task)
            self._write("deleted", task.name)
        elif chance < 0.75:
            changed = self._interface.extend(queue, task, 2 * LEASE_SECONDS)
            self._write("extended", task.name, n=task.retry_count, eta=changed.eta_usec)
        elif chance < 0.85:
            self._write("releasing", task.name, n=task.retry_count)
            self._interface.extend(queue, task, 0)
        # Otherwise the task is abandoned, as by a worker that crashed.

    def _write(self, what: str, name: str, **facts: object) -> None:
        line = {"what": what, "name": name, "at": time.monotonic(), **facts}
        self._journal.write(json.dumps(line) + "\n")


def main(kind: str, address: str, journal: str, seed: str) -> None:
    """Work until killed."""
    interface: SoakInterface
    if kind == "rest":
        interface = RestSoakInterface(address)
    else:
        from pullqueue.sdk import connect  # noqa: PLC0415 - only this worker needs it

        connect(address)
        interface = SdkSoakInterface()
    worker = Worker(f"{kind}{seed}", interface, Path(journal), seed=int(seed))
    while True:
        worker.work()


if __name__ == "__main__":
    main(*sys.argv[1:])
