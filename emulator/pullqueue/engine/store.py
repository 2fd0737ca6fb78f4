"""The seam between the rules of a queue and the place where its tasks are stored."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from pullqueue.clock import Clock, from_usec
from pullqueue.config.model import QueueSettings
from pullqueue.engine.events import ClientLeases, Event, EventKind, Flow, Operation
from pullqueue.engine.retention import Retention
from pullqueue.limits import Limits
from pullqueue.tasks import (
    AttemptRecord,
    AttemptResult,
    DeleteResult,
    NameInUseError,
    NewTask,
    Task,
    TaskState,
)

NameSource = Callable[[], str]
"""Returns another name for a task at each call. A name that is in use is skipped."""


def random_names(seed: int | None = None) -> NameSource:
    """Return a source of names like production's: 16 lower-case hex digits.

    With a `seed` the names are the same at each run.
    """
    bits = random.Random(seed).getrandbits  # noqa: S311 - names are not secret
    return lambda: f"{bits(64):016x}"


class Insertion(NamedTuple):
    """The result of an insert: the tasks stored, and the names that were in use and why."""

    added: list[Task]
    refused: dict[str, type[NameInUseError]]


class Target(NamedTuple):
    """The queue that tasks are added to."""

    queue: str
    is_runtime: bool
    """True if it was created at run time: it exists as long as its record has its settings, any
    other one unless its record says that it was deleted."""
    retention: Retention
    storage_limit_bytes: int | None
    """The maximum size of the tasks of all queues."""


class QueueRecord(NamedTuple):
    """What a store keeps of a queue beside its tasks."""

    paused: bool = False
    purged_usec: int | None = None
    """When the queue was last purged."""
    deleted_usec: int | None = None
    """When the queue was deleted."""
    settings: QueueSettings | None = None
    """The settings of a queue that was created at run time; None: queue.yaml has them."""


class LeaseRequest(NamedTuple):
    """The arguments of one lease."""

    lease_usec: int
    max_tasks: int
    payload_bytes: int
    """The maximum size of all payloads together; one task always fits."""
    group_by_tag: bool
    tag: str | None
    """With `group_by_tag`: the tag wanted; None: that of the first task."""
    retention: Retention


class LeaseChange(NamedTuple):
    """A new end of a lease."""

    expected_eta_usec: int | None
    """The end of the lease that the caller holds; None matches any."""
    lease_usec: int
    """From now; 0 releases the task."""
    retention: Retention


class Lease(NamedTuple):
    """The result of one lease."""

    tasks: list[Task]
    rate_limited: bool = False
    """True if it is empty because there were too many leases in one second."""


class TaskFilter(NamedTuple):
    """Which tasks of a queue to list."""

    state: TaskState | None = None
    tag: str | None = None
    after: tuple[int, int] | None = None
    """Only tasks after this eta (microseconds) and sequence."""


class QueueStatistics(NamedTuple):
    """The statistics of a queue at one time."""

    tasks: int
    """All tasks: those of the next five states."""
    available: int
    """Can be leased, or sent, now."""
    leased: int
    """Leased by a worker; 0 on a push queue."""
    scheduled: int
    """Never leased or attempted, with an eta in the future."""
    running: int
    """Sent, without a response yet; 0 on a pull queue."""
    retrying: int
    """Waiting for their next attempt; 0 on a pull queue."""
    exhausted: int
    """Used up their leases or retries, and are kept to be looked at; not among `tasks`."""
    oldest_eta_usec: int | None
    """The first eta among all tasks, leased ones included; None in an empty queue."""
    leased_last_minute: int
    """Tasks leased, or attempts made, in the last minute."""
    leased_last_hour: int
    """Tasks leased, or attempts made, in the last hour."""
    bytes_stored: int
    """Payloads, names, tags, urls and headers, in bytes of UTF-8."""

    @property
    def oldest_eta(self) -> datetime | None:
        """`oldest_eta_usec` as an aware datetime (UTC)."""
        return None if self.oldest_eta_usec is None else from_usec(self.oldest_eta_usec)


class Claim(Enum):
    """Whether a process sends the tasks of a queue."""

    REFUSED = "refused"
    """Another process sends them."""
    NEW = "new"
    """This process does from now on; another one may have, until now."""
    KEPT = "kept"
    """This process does, and no other one has since its claim was new."""


class CronRun(NamedTuple):
    """The last run of a cron job; with a time alone: none yet, since a server had the job first."""

    started_usec: int
    status: int | None = None
    """The status of its response; None: there was none, or not yet."""
    reason: str | None = None
    """What its failure was; None: it succeeded."""


class StoredProject(NamedTuple):
    """Another project of a server, whose tasks are stored beside those of its own."""

    number: int
    """Another one if the project was deleted and made again."""
    record: str
    """What the server has recorded of it."""


class QueueContents(NamedTuple):
    """Everything a store keeps of one queue except the record of events."""

    tasks: list[Task]
    """In order of eta and sequence."""
    exhausted: list[Task]
    """Oldest first."""
    tombstones: dict[str, int]
    """The names of deleted tasks, and when (microseconds) they can be used again."""
    leased: list[tuple[int, int]]
    """Seconds since the epoch within the last hour, and how many tasks were leased in each."""
    record: QueueRecord | None = None


class TaskStore(ABC):
    """Stores tasks. Each method is one operation, done whole or not at all, and thread-safe.

    A queue is identified by its name and need not be created. The store provides the time, so that
    all processes that share a store have the same. Exhausted tasks are gone at the end of their
    last lease, or of their lifetime: no method ever returns one that is past it.
    """

    is_shared = False
    """True if other processes may change the records of queues."""
    url = "memory"
    """Where it is, for people: without a password."""

    @abstractmethod
    def now_usec(self) -> int:
        """Return the time by which tasks become due and leases expire."""

    @abstractmethod
    def insert(self, target: Target, new_tasks: Sequence[NewTask]) -> Insertion:
        """Store tasks, except those whose name is in use; generate missing names.

        Raises:
            UnknownQueueError: the queue was deleted; nothing is stored.
            OverQuotaError: the size of all queues would exceed the limit; nothing is stored.
            StoreFullError: the store takes no more tasks; nothing is stored.
        """

    @abstractmethod
    def lease(self, queue_name: str, request: LeaseRequest) -> Lease:
        """Lease the first due tasks."""

    @abstractmethod
    def modify_lease(self, queue_name: str, task_name: str, change: LeaseChange) -> Task:
        """Change the end of the current lease of a task.

        Raises:
            UnknownTaskError: there never was such a task.
            TombstonedTaskError: the task was deleted, or exhausted.
            TaskLeaseExpiredError: the task is not leased, or not by the caller.
        """

    @abstractmethod
    def delete(self, queue_name: str, task_names: Iterable[str]) -> list[DeleteResult]:
        """Delete tasks by name, leased or not; one result for each name, in order."""

    @abstractmethod
    def acknowledge(self, queue_name: str, task_name: str, *, expected_eta_usec: int) -> None:
        """Delete a task by the end of the caller's lease; raise like `modify_lease`."""

    @abstractmethod
    def start_attempt(
        self, task: Task, *, lease_usec: int, attempts: AttemptRecord, counted: int
    ) -> Task:
        """Start an attempt to send a push task, due or not, and return the task as it is then.

        Nobody else starts one until `lease_usec` from now. With `counted`, it is the last of that
        many that are not made. Raise like `modify_lease`; TaskLeaseExpiredError: its eta differs.
        """

    @abstractmethod
    def renew_attempt(self, task: Task, *, lease_usec: int) -> Task:
        """Move the end of an attempt to `lease_usec` from now; raise like `start_attempt`."""

    @abstractmethod
    def finish_attempt(
        self, task: Task, *, attempts: AttemptRecord, backoff_usec: int | None, counted: int
    ) -> Task:
        """End an attempt; return the task as it is then, or was when it was deleted.

        After a success the task is deleted; else its eta is `backoff_usec` from now, or with None
        it is exhausted. Raise like `start_attempt`, but not because the eta has passed.
        """

    @abstractmethod
    def count_failed(self, queue_name: str, counts: Counter[int], result: AttemptResult) -> None:
        """Count attempts that failed and are only counted, by times until now in microseconds."""

    def claim_dispatch(self, queue_name: str) -> Claim:  # noqa: ARG002 - of stores that are shared
        """Return whether this process is the one that sends the tasks of a queue.

        Of those that share the store it is the first that asks, as long as it asks again within
        seconds.
        """
        return Claim.KEPT

    def list_last_attempts(self, queue_name: str, *, limit: int) -> list[Operation]:  # noqa: ARG002 - see below
        """Return the latest starts and ends of attempts, also of other processes, oldest first.

        There are none where the store ends with its process: whoever sends its tasks knows them.
        """
        return []

    @abstractmethod
    def purge(self, queue_name: str) -> int:
        """Delete all tasks and the payloads of exhausted ones, record when; return their number."""

    @abstractmethod
    def free_names(self, queue_name: str, task_names: Iterable[str] | None) -> None:
        """Free the names of deleted tasks: some, or all of the queue (None)."""

    @abstractmethod
    def get(self, queue_name: str, task_name: str) -> Task:
        """Return one task.

        Raises:
            UnknownTaskError: there never was such a task.
            TombstonedTaskError: the task was deleted, or exhausted.
        """

    @abstractmethod
    def list_tasks(self, queue_name: str, task_filter: TaskFilter, *, limit: int) -> list[Task]:
        """Return the first tasks that match the filter, in order of eta and arrival."""

    @abstractmethod
    def count_tags(self, queue_name: str, *, limit: int) -> dict[str, int]:
        """Return how many tasks have each tag, for the tags that most have, the most first."""

    @abstractmethod
    def collect_statistics(self, queue_name: str) -> QueueStatistics:
        """Return the statistics of a queue."""

    @abstractmethod
    def list_exhausted(self, queue_name: str) -> list[Task]:
        """Return the tasks that used up their leases, oldest first, as they were at the end."""

    @abstractmethod
    def remove_exhausted(self, queue_name: str, task_names: Iterable[str]) -> int:
        """Delete the records of exhausted tasks by name; return how many there were."""

    @abstractmethod
    def list_events(self, queue_name: str, task_name: str | None = None) -> list[Event]:
        """Return what happened to the tasks of a queue, or to one of them, oldest first."""

    @abstractmethod
    def find_last_leases(self, queue_name: str, task_names: Collection[str]) -> dict[str, Event]:
        """Return the latest lease or renewal of each of these tasks, as far as it is recorded."""

    @abstractmethod
    def count_leases(self, queue_name: str) -> dict[str, ClientLeases]:
        """Count the leases of each client (empty: not known), as far as they are recorded."""

    @abstractmethod
    def count_events(self, queue_name: str, *, last_usec: int) -> Counter[EventKind]:
        """Return how many events of each recorded kind there were in the last microseconds."""

    @abstractmethod
    def count_failures(self, queue_name: str, *, last_usec: int) -> Counter[AttemptResult]:
        """Return how many attempts failed in the last microseconds, by their results."""

    @abstractmethod
    def count_flow(self, queue_name: str, *, since_usec: int) -> Flow:
        """Return how many events there were in each minute since a time, as far as recorded."""

    @abstractmethod
    def next_change_usec(self, queue_name: str) -> int | None:
        """Return the next time at which an eta or a lease ends or a task is exhausted, or None."""

    @abstractmethod
    def last_lease_end_usec(self, queue_name: str) -> int | None:
        """Return the end of the current lease or attempt that ends last, or None."""

    @abstractmethod
    def count_tasks(self) -> dict[str, int]:
        """Return how many tasks each queue has, also those that nobody has configured."""

    @abstractmethod
    def count_bytes(self) -> int:
        """Return the size of all tasks of all queues together."""

    @abstractmethod
    def change_retention(self, queue_name: str, retention: Retention) -> None:
        """Apply another retention to the tasks of a queue."""

    @abstractmethod
    def read_queue_records(self) -> dict[str, QueueRecord]:
        """Return the records of all queues that have any."""

    @abstractmethod
    def change_queue_record(
        self, queue_name: str, *, paused: bool | None = None, settings: QueueSettings | None = None
    ) -> None:
        """Change the record of a queue; None leaves a part of it as it is."""

    @abstractmethod
    def create_queue(self, queue_name: str, *, settings: QueueSettings, reserved_usec: int) -> bool:
        """Record the settings of a queue that is created at run time.

        Return False, and change nothing, if its record has settings, or if it was deleted in the
        last `reserved_usec`.
        """

    @abstractmethod
    def drop_queue_record(self, queue_name: str) -> None:
        """Delete the record of a queue."""

    @abstractmethod
    def delete_queue(self, queue_name: str) -> None:
        """Delete everything of a queue, and record the time."""

    @abstractmethod
    def clear(self) -> None:
        """Delete everything: tasks, tombstones, records."""

    def read_cron_runs(self) -> dict[str, CronRun]:
        """Return the last runs of cron jobs, by keys of their own; empty if they are not kept."""
        return {}

    def record_cron_run(self, job: str, run: CronRun) -> None:  # noqa: B027 - see `read_cron_runs`
        """Record the last run of a cron job, where tasks are kept as well."""

    def read_projects(self) -> dict[str, StoredProject]:
        """Return the other projects that are recorded, by name; empty if they are not kept."""
        return {}

    def add_project(self, name: str, record: str) -> StoredProject | None:  # noqa: ARG002 - see `read_projects`
        """Record another project, unless one of its name is; return what is recorded, if it is."""
        return None

    def find_store(self, number: int) -> StoreFactory:
        """Return what opens the store of a project that is recorded."""
        raise NotImplementedError(number)

    def drop_project(self, number: int) -> None:  # noqa: B027 - see `read_projects`
        """Delete a project, whose store is closed, and everything in it, if there is anything."""

    @abstractmethod
    def check(self) -> None:
        """Check that tasks can be stored now; on a disk, by storing one that nobody sees.

        Raises:
            StoreFullError: the store takes no more tasks.
            TransientError: they cannot, for a reason that may pass.
            InternalError: they cannot.
        """

    def close(self) -> None:  # noqa: B027 - only some stores hold something open
        """Close files and connections; the store cannot be used after this."""

    @abstractmethod
    def export(self) -> dict[str, QueueContents]:
        """Return the contents of every queue that has any, all as of one time."""

    @abstractmethod
    def restore(
        self, contents: Mapping[str, QueueContents], *, retentions: Mapping[str, Retention]
    ) -> None:
        """Delete everything and store these contents instead, as they were exported.

        The retentions of their queues apply to the tasks at once; new tasks get sequence numbers
        above those restored.
        """


class StoreFactory(Protocol):
    """Makes the store of an emulator."""

    def __call__(self, *, clock: Clock, limits: Limits, names: NameSource) -> TaskStore:
        """Return an empty or a newly opened store whose time is that of `clock`."""
