"""What every interface of an emulator can do, in one form, so that one suite can test each.

An interface has an emulator with a clock that the suite moves, and is used as a user would use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import NamedTuple, TypedDict, Unpack

import pytest
import requests
from stores import store_url

from pullqueue import Emulator, HttpRequest, Limits, ManualClock
from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine import verbs
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store
from pullqueue.tasks import DeleteResult, Task

STORAGE_LIMIT_BYTES = 4000

CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(
            name="limited",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=2),
        ),
        QueueSettings(
            name="never", mode=QueueMode.PULL, retry_parameters=RetryParameters(task_retry_limit=0)
        ),
        QueueSettings(name="push"),
    ),
    total_storage_limit_bytes=STORAGE_LIMIT_BYTES,
)
"""The queues of the suite."""

LIMITS = Limits(task_bytes=2048, lease_payload_bytes=2500, rest_lease_payload_bytes=2500)
"""Small enough that the suite can pass them."""

PUSH = "push"
"""The push queue."""
URL = "/work"
"""Where its tasks are posted to."""


class Shown(NamedTuple):
    """A task as an interface shows it."""

    name: str
    payload: bytes
    eta_usec: int
    tag: str | None = None
    retry_count: int = 0
    request: tuple[str, str] | None = None
    """Method and URL of a push task."""


class TaskFields(TypedDict, total=False):
    """What a new task can have besides its payload."""

    name: str | None
    tag: str | None
    eta: datetime | None


QUEUE_YAML = f"""
total_storage_limit: {STORAGE_LIMIT_BYTES}B
queue:
- {{name: pull, mode: pull}}
- {{name: limited, mode: pull, retry_parameters: {{task_retry_limit: 2}}}}
- {{name: never, mode: pull, retry_parameters: {{task_retry_limit: 0}}}}
- {{name: push, rate: 5/s}}
"""
"""The same, as a file."""
OTHER_LOCATION = "europe-west1"

Serving = Callable[[str], AbstractContextManager[tuple[Server, Emulator]]]
"""Serves the queues of the suite to an app of an id; returns the emulator that has them."""


def manual_emulator(store: str = "memory") -> Emulator:
    """Return an emulator with the suite's queues, whose clock the suite moves."""
    return Emulator(CONFIG, clock=ManualClock(), limits=LIMITS, store=open_store(store))


@contextmanager
def served(_app: str) -> Iterator[tuple[Server, Emulator]]:
    """Serve an emulator."""
    with Server(manual_emulator()) as server:
        yield server, server.emulator


@contextmanager
def second_project(app: str) -> Iterator[tuple[Server, Emulator]]:
    """Serve an emulator as the second project of a server."""
    own = Emulator(QueueConfig(queues=()), clock=ManualClock(), limits=LIMITS, project="own")
    made = {"name": app, "clock": "manual", "queue_yaml": QUEUE_YAML}
    with Server(own) as server:
        requests.post(f"{server.url}/_emulator/projects", json=made, timeout=60)
        yield server, server.states[1].emulator


class Interface(ABC):
    """One way to use an emulator."""

    zero_tasks_means_one = False
    """Whether a lease of 0 tasks cannot be distinguished from one that names no number."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    def reset(self) -> None:
        """Delete all tasks."""
        self.emulator.reset()

    def exhausted(self, queue: str) -> list[Task]:
        """Return the exhausted tasks of a queue."""
        return self.emulator.queue(queue).exhausted

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        movable_clock(self.emulator).advance(seconds)

    @contextmanager
    def refuses(self, kind: type[Exception]) -> Iterator[None]:
        """Expect a call to be refused for what the Python interface raises this error for."""
        try:
            yield
        except Exception as error:
            if not issubclass(self.error_of(error), kind):
                raise
        else:
            pytest.fail(f"nothing like {kind.__name__} was raised")

    def error_of(self, error: Exception) -> type[Exception]:
        """Return what the Python interface raises in place of an error of this one.

        An argument that is not valid is a ValueError.
        """
        return type(error)

    @abstractmethod
    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        """Add a task and return its name; one for the push queue has URL."""

    @abstractmethod
    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Shown]:
        """Lease tasks."""

    @abstractmethod
    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Shown]:
        """Lease tasks of one tag."""

    @abstractmethod
    def modify(self, held: Shown, seconds: float, *, queue: str = "pull") -> Shown:
        """Change the end of a lease."""

    @abstractmethod
    def delete(self, name: str, *, queue: str = "pull") -> bool:
        """Delete a task and return whether it was there."""

    @abstractmethod
    def count(self, *, queue: str = "pull") -> int:
        """Count all tasks, leased ones included."""


class PushInterface(Interface):
    """One way to use push queues as well, which the REST API of pull queues is not."""

    @abstractmethod
    def get(self, name: str) -> Shown:
        """Return a push task."""

    @abstractmethod
    def listed(self) -> list[Shown]:
        """Return all push tasks, in order of eta."""

    @abstractmethod
    def purge(self) -> None:
        """Delete all push tasks."""


InterfaceMaker = Callable[[], AbstractContextManager[Interface]]


class PythonInterface(PushInterface):
    """The Python interface."""

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        request = HttpRequest(URL) if queue == PUSH else None
        return self.emulator.queue(queue).add(payload, request=request, **fields).name

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Shown]:
        return list(map(_shown, self.emulator.queue(queue).lease_tasks(seconds, count)))

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Shown]:
        tasks = self.emulator.queue(queue).lease_tasks_by_tag(seconds, count, tag)
        return list(map(_shown, tasks))

    def modify(self, held: Shown, seconds: float, *, queue: str = "pull") -> Shown:
        task = verbs.modify_lease(
            self.emulator.queue(queue), held.name, seconds, expected_eta_usec=held.eta_usec
        )
        return _shown(task)

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        return self.emulator.queue(queue).delete_tasks(name) == [DeleteResult.DELETED]

    def count(self, *, queue: str = "pull") -> int:
        return self.emulator.queue(queue).fetch_statistics().tasks

    def get(self, name: str) -> Shown:
        return _shown(self.emulator.queue(PUSH).get_task(name))

    def listed(self) -> list[Shown]:
        return list(map(_shown, self.emulator.queue(PUSH).list_tasks()))

    def purge(self) -> None:
        self.emulator.queue(PUSH).purge()


@contextmanager
def python_interface(store: str = "memory") -> Iterator[Interface]:
    """Yield the Python interface to an emulator with an empty store of a kind."""
    with store_url(store) as url:
        interface = PythonInterface(manual_emulator(url))
        interface.emulator.reset()
        yield interface
        interface.emulator.close()


def _shown(task: Task) -> Shown:
    request = task.request and (task.request.method, task.request.url)
    return Shown(task.name, task.payload, task.eta_usec, task.tag, task.retry_count, request)
