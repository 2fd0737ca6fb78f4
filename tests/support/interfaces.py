"""What every interface of an emulator can do, in one form, so that one suite can test each.

An interface has an emulator with a clock that the suite moves, and is used as a user would use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, TypedDict, Unpack

from stores import store_url

from pullqueue import (
    Emulator,
    HttpRequest,
    InvalidQueueModeError,
    Limits,
    ManualClock,
    NameInUseError,
    OverQuotaError,
    PullQueueError,
    Queue,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
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


class Refusal(Enum):
    """Why an interface refused a call, as far as all interfaces can tell."""

    LEASE_EXPIRED = "the lease is not held"
    NAME_TAKEN = "the name is taken"
    UNKNOWN_TASK = "no such task"
    UNKNOWN_QUEUE = "no such queue"
    WRONG_MODE = "a push queue"
    OVER_QUOTA = "the storage limit"
    INVALID = "an argument is not valid"


class Refused(Exception):  # noqa: N818 - reads as what happened
    """An interface refused a call."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.value)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A leased task as a worker sees it."""

    name: str
    payload: bytes
    tag: str | None
    eta_usec: int
    retry_count: int


class Listed(NamedTuple):
    """A push task as a call that does not run it shows it."""

    name: str
    payload: bytes
    method: str
    url: str
    eta_usec: int


class TaskFields(TypedDict, total=False):
    """What a new task can have besides its payload."""

    name: str | None
    tag: str | None
    eta: datetime | None


def manual_emulator(store: str = "memory") -> Emulator:
    """Return an emulator with the suite's queues, whose clock the suite moves."""
    return Emulator(CONFIG, clock=ManualClock(), limits=LIMITS, store=open_store(store))


class Interface(ABC):
    """One way to use an emulator."""

    zero_tasks_means_one = False
    """Whether a lease of 0 tasks cannot be distinguished from one that names no number."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        movable_clock(self.emulator).advance(seconds)

    @abstractmethod
    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        """Add a task and return its name."""

    @abstractmethod
    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Held]:
        """Lease tasks."""

    @abstractmethod
    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Held]:
        """Lease tasks of one tag."""

    @abstractmethod
    def modify(self, held: Held, seconds: float, *, queue: str = "pull") -> Held:
        """Return a lease another end."""

    @abstractmethod
    def delete(self, name: str, *, queue: str = "pull") -> bool:
        """Delete a task and tell whether it was there."""

    @abstractmethod
    def count(self, *, queue: str = "pull") -> int:
        """Count all tasks, leased ones included."""


InterfaceMaker = Callable[[], AbstractContextManager[Interface]]

PUSH = "push"
"""The push queue of the suite."""
URL = "/work"
"""Where the tasks of the suite are posted to."""


class PushInterface(Interface):
    """One way to use push queues as well; the REST API of pull queues is none."""

    @abstractmethod
    def add_push(
        self, payload: bytes = b"", *, name: str | None = None, eta: datetime | None = None
    ) -> str:
        """Add a push task and return its name."""

    @abstractmethod
    def get(self, name: str) -> Listed:
        """Return a push task."""

    @abstractmethod
    def listed(self) -> list[Listed]:
        """Return all push tasks, in order of eta."""

    @abstractmethod
    def purge(self) -> None:
        """Delete all push tasks."""


class PythonInterface(PushInterface):
    """The Python interface."""

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        with _refusals():
            return self._queue(queue).add(payload, **fields).name

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Held]:
        with _refusals():
            return [_held(task) for task in self._queue(queue).lease_tasks(seconds, count)]

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Held]:
        with _refusals():
            tasks = self._queue(queue).lease_tasks_by_tag(seconds, count, tag)
            return [_held(task) for task in tasks]

    def modify(self, held: Held, seconds: float, *, queue: str = "pull") -> Held:
        with _refusals():
            changed = self._queue(queue).modify_lease(
                held.name, seconds, expected_eta_usec=held.eta_usec
            )
            return _held(changed)

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        with _refusals():
            return self._queue(queue).delete_tasks(name) == [DeleteResult.DELETED]

    def count(self, *, queue: str = "pull") -> int:
        with _refusals():
            return self._queue(queue).fetch_statistics().tasks

    def add_push(
        self, payload: bytes = b"", *, name: str | None = None, eta: datetime | None = None
    ) -> str:
        with _refusals():
            request = HttpRequest(URL)
            return self._queue(PUSH).add(payload, name=name, eta=eta, request=request).name

    def get(self, name: str) -> Listed:
        with _refusals():
            return _listed(self._queue(PUSH).get_task(name))

    def listed(self) -> list[Listed]:
        with _refusals():
            return [_listed(task) for task in self._queue(PUSH).list_tasks()]

    def purge(self) -> None:
        with _refusals():
            self._queue(PUSH).purge()

    def _queue(self, name: str) -> Queue:
        return self.emulator.queue(name)


@contextmanager
def python_interface(store: str = "memory") -> Iterator[Interface]:
    """Yield the Python interface to an emulator with an empty store of a kind."""
    with store_url(store) as url:
        interface = PythonInterface(manual_emulator(url))
        interface.emulator.reset()
        yield interface
        interface.emulator.close()


_REFUSALS: dict[type[PullQueueError], Refusal] = {
    TaskLeaseExpiredError: Refusal.LEASE_EXPIRED,
    NameInUseError: Refusal.NAME_TAKEN,
    UnknownTaskError: Refusal.UNKNOWN_TASK,
    UnknownQueueError: Refusal.UNKNOWN_QUEUE,
    InvalidQueueModeError: Refusal.WRONG_MODE,
    OverQuotaError: Refusal.OVER_QUOTA,
}


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except TombstonedTaskError as error:
        raise Refused(Refusal.NAME_TAKEN if error.refused else Refusal.UNKNOWN_TASK) from error
    except PullQueueError as error:
        found = (refusal for kind, refusal in _REFUSALS.items() if isinstance(error, kind))
        raise Refused(next(found, Refusal.INVALID)) from error


def _held(task: Task) -> Held:
    return Held(
        name=task.name,
        payload=task.payload,
        tag=task.tag,
        eta_usec=task.eta_usec,
        retry_count=task.retry_count,
    )


def _listed(task: Task) -> Listed:
    request = task.request or HttpRequest("")
    return Listed(task.name, task.payload, request.method, request.url, task.eta_usec)
