"""The settings and the contents of a queue: everything that can be asked without a change."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeGuard

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, Clock, from_usec
from pullqueue.config.text import quoted
from pullqueue.engine import validation
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.interceptors import Interceptors, interceptable
from pullqueue.engine.store import QueueRecord, Retention, TaskFilter, TaskStore
from pullqueue.errors import InvalidTaskNameError
from pullqueue.limits import Limits
from pullqueue.tasks import Task, TaskState

if TYPE_CHECKING:
    from pullqueue.config.model import QueueMode, QueueSettings


class QueueStatistics(NamedTuple):
    """The statistics of a queue at one time."""

    tasks: int
    """All tasks: available, leased and scheduled."""
    available: int
    """Can be leased now."""
    leased: int
    """Leased by a worker."""
    scheduled: int
    """Never leased, with an eta in the future."""
    exhausted: int
    """Used up their leases, and are kept to be looked at; not among `tasks`."""
    oldest_eta: datetime | None
    """The first eta among all tasks, leased ones included; None in an empty queue."""
    leased_last_minute: int
    """Tasks leased in the last minute."""
    leased_last_hour: int
    """Tasks leased in the last hour."""
    bytes_stored: int
    """Payloads, names and tags, in bytes of UTF-8."""


class QueueState(Enum):
    """Whether tasks can be leased from a queue."""

    RUNNING = "running"
    PAUSED = "paused"
    """Tasks can be added, but not leased."""
    DISABLED = "disabled"
    """The queue was removed from queue.yaml; its tasks are kept."""


class AnyTask(Protocol):
    """A task of this package or of App Engine's SDK."""

    @property
    def name(self) -> str | None:
        """Its name; None before it is added without one."""

    @property
    def payload(self) -> bytes | str | None:
        """Its payload."""


class QueueView:
    """The settings and the questions of a queue; `Queue` adds the verbs."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        store: TaskStore,
        limits: Limits,
        storage_limit_bytes: int | None,
        clock: Clock,
        interceptors: Interceptors,
    ) -> None:
        self.clock = clock
        self.interceptors = interceptors
        self._store = store
        self._limits = limits
        self._settings = settings
        self._storage_limit_bytes = storage_limit_bytes
        self._retention = retention_of(settings)
        self._disabled = False
        self._record = QueueRecord()
        # A store that outlives the process may know the queue by another limit.
        store.change_retention(settings.name, self._retention)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    def configure(self, settings: QueueSettings, *, storage_limit_bytes: int | None) -> None:
        """Apply other settings; see `Emulator.reconfigure`."""
        before, self._retention = self._retention, retention_of(settings)
        self._settings = settings
        self._storage_limit_bytes = storage_limit_bytes
        # Last: a lease made meanwhile has the new limit already.
        if self._retention != before:
            self._store.change_retention(self.name, self._retention)

    def set_disabled(self, disabled: bool) -> None:  # noqa: FBT001 - the name says it
        """Refuse every change from now on and keep the tasks, or stop that."""
        self._disabled = disabled

    def set_record(self, record: QueueRecord) -> None:
        """Set what the store has recorded of the queue."""
        self._record = record

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._settings.name

    @property
    def mode(self) -> QueueMode:
        """Pull or push."""
        return self._settings.mode

    @property
    def settings(self) -> QueueSettings:
        """The queue's entry in queue.yaml."""
        return self._settings

    @property
    def retention(self) -> Retention:
        """When its tasks are exhausted."""
        return self._retention

    @property
    def state(self) -> QueueState:
        """Whether tasks can be leased."""
        if self._disabled:
            return QueueState.DISABLED
        return QueueState.PAUSED if self._record.paused else QueueState.RUNNING

    @property
    def disabled(self) -> bool:
        """Whether the queue was removed from queue.yaml."""
        return self._disabled

    @property
    def created(self) -> bool:
        """Whether the queue was created at run time and is not one of queue.yaml."""
        return self._record.settings is not None

    @property
    def purged(self) -> datetime | None:
        """When the queue was last purged, or None."""
        purged_usec = self._record.purged_usec
        return None if purged_usec is None else from_usec(purged_usec)

    @interceptable
    def get_task(self, task_name: str) -> Task:
        """Return one task without leasing it.

        Raises:
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
        """
        return self._store.get(self.name, task_name)

    @interceptable
    def list_tasks(
        self,
        limit: int = 100,
        *,
        state: TaskState | None = None,
        tag: str | None = None,
        after: Task | tuple[int, int] | None = None,
    ) -> list[Task]:
        """Return the first tasks in order of eta and arrival, without leasing them.

        `state` and `tag` narrow the list; `after` is the last task of the page before, or its
        eta (microseconds) and sequence.

        Raises:
            InvalidMaxTasksError: `limit` is not an integer from 0 on.
        """
        count = validation.list_limit(limit)
        position = None if after is None else after[:2]
        task_filter = TaskFilter(state=state, tag=tag, after=position)
        return self._store.list_tasks(self.name, task_filter, limit=count)

    @interceptable
    def fetch_statistics(self) -> QueueStatistics:
        """Return the numbers of the queue."""
        counts = self._store.counts(self.name)._asdict()
        oldest = counts.pop("oldest_eta_usec")
        return QueueStatistics(
            **counts,
            available=counts["tasks"] - counts["leased"] - counts["scheduled"],
            oldest_eta=None if oldest is None else from_usec(oldest),
        )

    @property
    def exhausted(self) -> list[Task]:
        """The tasks that used up their leases, oldest first, as they were at the end."""
        return self._store.exhausted(self.name)

    def history(self, task: AnyTask | str) -> list[Event]:
        """Return what happened to a task (or to the task of a name), oldest first."""
        return self._store.events(self.name, name_of(task))

    def events(self) -> list[Event]:
        """Return what happened to the queue's tasks, oldest first, as far back as is recorded."""
        return self._store.events(self.name)

    def count_events(self, *, last: timedelta) -> Counter[EventKind]:
        """Return how many events of each kind there were within the last time span.

        Leases that expired are not counted, nor what is no longer recorded.
        """
        return self._store.count_events(self.name, last_usec=last // timedelta(microseconds=1))

    def now_usec(self) -> int:
        """Return the time by which its tasks become due, in microseconds: that of the store."""
        return self._store.now_usec()

    def last_lease_end(self) -> datetime | None:
        """Return the end of the current lease that ends last, or None."""
        end_usec = self._store.last_lease_end_usec(self.name)
        return None if end_usec is None else from_usec(end_usec)

    def next_change(self) -> datetime | None:
        """Return the next time at which an eta or a lease ends or a task is exhausted, or None."""
        change_usec = self._store.next_change_usec(self.name)
        if change_usec is None or change_usec > LAST_USEC:
            return None  # no datetime can represent it: an age limit can be of any length
        return from_usec(change_usec)


def name_of(task: AnyTask | str) -> str:
    """Return the name of a task, also of the SDK's, or the name that is given.

    Raises:
        InvalidTaskNameError: it is neither, or a task without a name.
    """
    if isinstance(task, str):
        return task
    if not is_task(task):
        raise InvalidTaskNameError(f"{quoted(task)} is neither a task nor a task name")
    if not isinstance(task.name, str):
        raise InvalidTaskNameError(f"{quoted(task)} has no name: add it first, or set its name")
    return task.name


def is_task(value: object) -> TypeGuard[AnyTask]:
    """Return whether a value is a task, also of the SDK's."""
    return isinstance(value, Task) or (hasattr(value, "payload") and hasattr(value, "name"))


def retention_of(settings: QueueSettings) -> Retention:
    """Return how long a queue with some settings keeps tasks and names."""
    retry, lifetime = settings.retry_parameters, settings.task_lifetime_seconds
    tombstone = settings.tombstone_seconds
    if lifetime is not None and lifetime >= LAST_USEC // USEC_PER_SECOND:
        lifetime = None  # no task can reach it
    retention = Retention(
        lifetime_usec=None if lifetime is None else lifetime * USEC_PER_SECOND,
        tombstone_usec=None if tombstone is None else tombstone * USEC_PER_SECOND,
    )
    if retry is None or retry.task_retry_limit is None:
        # An age limit alone exhausts no task of a pull queue (as in Google's stub).
        return retention
    age_usec = (retry.task_age_limit_seconds or 0) * USEC_PER_SECOND
    # queue.yaml bounds no age, but a database bounds numbers.
    return retention._replace(leases=retry.task_retry_limit, age_usec=min(age_usec, LAST_USEC))
