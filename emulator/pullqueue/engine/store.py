"""The seam between the rules of a pull queue and the place where its tasks are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from pullqueue.clock import Clock
from pullqueue.engine.events import Event
from pullqueue.engine.names import NameSource
from pullqueue.errors import NameTakenError
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, Task, TaskState

Draft = tuple[str | None, bytes, str | None, int | None, int]
"""A task that passed every check and has only to be stored: name, payload, tag, eta, weight.

Without a name, one is to be made up; the eta is in microseconds, and None means the moment it is
stored. The weight is that of payload, tag and, where it is given, name. A plain tuple, since one is
made for each task that is added.
"""
DRAFT_NAME: Final = 0
DRAFT_BYTES: Final = 4


class Insertion(NamedTuple):
    """What an insert did: the tasks stored, and the names that were taken and why."""

    added: list[Task]
    refused: dict[str, type[NameTakenError]]


class RetryLimit(NamedTuple):
    """When a task is given up."""

    leases: int | None = None
    """How often it can be leased; None: for ever."""
    age_usec: int = 0
    """It must be this old as well."""


class LeaseRequest(NamedTuple):
    """What one lease asks for."""

    lease_usec: int
    max_tasks: int
    payload_bytes: int
    """What the payloads may weigh together; one task always fits."""
    group_by_tag: bool
    tag: str | None
    """With `group_by_tag`: the tag wanted; None: that of the first task."""
    retry_limit: RetryLimit
    calls_per_second: int | None
    """How many leases a second the queue admits; None: any number."""


class Lease(NamedTuple):
    """What one lease gave."""

    tasks: list[Task]
    rate_limited: bool = False
    """Whether it is empty because too many leases were asked for in one second."""


class TaskFilter(NamedTuple):
    """Which tasks of a queue to list."""

    state: TaskState | None = None
    tag: str | None = None
    after: tuple[int, int] | None = None
    """Only what lies behind this eta (microseconds) and sequence."""


class QueueCounts(NamedTuple):
    """The numbers of one queue at one moment."""

    tasks: int
    leased: int
    scheduled: int
    oldest_eta_usec: int | None
    leased_last_minute: int
    leased_last_hour: int
    bytes_stored: int


class QueueContents(NamedTuple):
    """What a store keeps of one queue, but for the record of events."""

    tasks: list[Task]
    """In order of eta and sequence."""
    exhausted: list[Task]
    """Oldest first."""
    tombstones: dict[str, int]
    """The names that are taken though their task is gone, and when (microseconds) they are free."""
    leased: list[tuple[int, int]]
    """Seconds since the epoch within the last hour, and how many tasks were leased in each."""


class TaskStore(ABC):
    """Keeps tasks. Each method is one operation, done whole or not at all, safe under threads.

    A queue is known by its name and needs no creation. The store tells the time, so that a store
    that many processes share can have one. Exhausted tasks leave at the end of their last lease:
    no method ever shows one that is past it.
    """

    @abstractmethod
    def now_usec(self) -> int:
        """Give the time by which tasks become due and leases run out."""

    @abstractmethod
    def insert(
        self, queue_name: str, drafts: Sequence[Draft], *, storage_limit_bytes: int | None
    ) -> Insertion:
        """Store tasks, all but those whose name is taken; make up missing names.

        Raises:
            OverQuotaError: the bytes of all queues would pass the limit; nothing is stored.
            StoreFullError: the store takes no more tasks; nothing is stored.
        """

    @abstractmethod
    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks."""

    @abstractmethod
    def modify_lease(
        self,
        queue_name: str,
        task_name: str,
        *,
        held_eta_usec: int | None,
        lease_usec: int,
        retry_limit: RetryLimit,
    ) -> Task:
        """Let the current lease of a task end `lease_usec` from now; 0 gives the task back.

        `held_eta_usec` is the end of the lease that the caller holds; None takes any.

        Raises:
            UnknownTaskError: there never was such a task.
            TombstonedTaskError: the task was deleted, or given up.
            TaskLeaseExpiredError: the task is not leased, or not by the caller.
        """

    @abstractmethod
    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name, leased or not; one result for each name, in order."""

    @abstractmethod
    def purge(self, queue_name: str) -> int:
        """Delete every task of a queue and tell how many."""

    @abstractmethod
    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        """Let names of deleted tasks be used again: some, or all of the queue (None)."""

    @abstractmethod
    def get(self, queue_name: str, task_name: str) -> Task:
        """Give one task.

        Raises:
            UnknownTaskError: there never was such a task.
            TombstonedTaskError: the task was deleted, or given up.
        """

    @abstractmethod
    def list_tasks(self, queue_name: str, task_filter: TaskFilter, *, limit: int) -> list[Task]:
        """Give the first tasks that pass the filter, in order of eta and arrival."""

    @abstractmethod
    def counts(self, queue_name: str) -> QueueCounts:
        """Give the numbers of a queue."""

    @abstractmethod
    def exhausted(self, queue_name: str) -> list[Task]:
        """Give the tasks that used up their leases, oldest first, as they were at the end."""

    @abstractmethod
    def events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Give what happened to the tasks of a queue, or to one of them, oldest first."""

    @abstractmethod
    def next_change_usec(self, queue_name: str) -> int | None:
        """Give the next moment at which an eta or a lease ends or a task is exhausted, or None."""

    @abstractmethod
    def last_lease_end_usec(self, queue_name: str) -> int | None:
        """Give the end of the longest lease now held, or None."""

    @abstractmethod
    def bytes_stored(self) -> int:
        """Give what all tasks of all queues weigh together."""

    @abstractmethod
    def change_retry_limit(self, queue_name: str, retry_limit: RetryLimit) -> None:
        """Hold the leases now current to another limit."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything: tasks, tombstones, records."""

    def close(self) -> None:  # noqa: B027 - only some stores hold something open
        """Let go of files and connections; the store is of no use after this."""

    @abstractmethod
    def export(self) -> dict[str, QueueContents]:
        """Give the contents of every queue that has any, all as of one moment."""

    @abstractmethod
    def restore(
        self, contents: Mapping[str, QueueContents], *, retry_limits: Mapping[str, RetryLimit]
    ) -> None:
        """Forget everything and keep these contents instead, as they were exported.

        Tasks are held to the retry limits of their queues at once; new tasks get sequence numbers
        above those restored.
        """


class StoreFactory(Protocol):
    """Makes the store of an emulator."""

    def __call__(self, *, clock: Clock, limits: Limits, names: NameSource) -> TaskStore:
        """Give an empty or a newly opened store that goes by `clock`."""
