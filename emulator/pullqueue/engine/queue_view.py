"""What a queue is and what it holds: all that can be asked without changing anything."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeGuard

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, Clock, from_usec
from pullqueue.engine import checks
from pullqueue.engine.events import Event
from pullqueue.engine.interceptors import Interceptors, interceptable
from pullqueue.engine.statistics import QueueStatistics
from pullqueue.engine.store import RetryLimit, TaskFilter, TaskStore
from pullqueue.errors import InvalidTaskNameError
from pullqueue.limits import Limits
from pullqueue.tasks import Task, TaskState

if TYPE_CHECKING:
    from pullqueue.config.model import QueueMode, QueueSettings


class AnyTask(Protocol):
    """A task of this package or of App Engine's SDK."""

    @property
    def name(self) -> str | None:
        """Its name; None before it is added without one."""

    @property
    def payload(self) -> bytes | str | None:
        """What it carries."""


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
        self._retry_limit = _retry_limit(settings)
        self._disabled = False
        # A store that outlives the process may know the queue by another limit.
        store.change_retry_limit(settings.name, self._retry_limit)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    def configure(self, settings: QueueSettings, *, storage_limit_bytes: int | None) -> None:
        """Take other settings; see `Emulator.reconfigure`."""
        before, self._retry_limit = self._retry_limit, _retry_limit(settings)
        self._settings = settings
        self._storage_limit_bytes = storage_limit_bytes
        self._disabled = False
        # Told last: a lease made meanwhile knows the new limit already.
        if self._retry_limit != before:
            self._store.change_retry_limit(self.name, self._retry_limit)

    def disable(self) -> None:
        """Refuse every change from now on, and keep the tasks; see `Emulator.reconfigure`."""
        self._disabled = True

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
    def retry_limit(self) -> RetryLimit:
        """When its tasks are given up, as the store is told."""
        return self._retry_limit

    @property
    def disabled(self) -> bool:
        """Whether the queue was removed from queue.yaml."""
        return self._disabled

    @interceptable
    def get_task(self, task_name: str) -> Task:
        """Give one task without leasing it.

        Raises:
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or given up.
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
        """Give the first tasks in order of eta and arrival, without leasing them.

        `state` and `tag` narrow the list; `after` is the last task of the page before, or its
        eta (microseconds) and sequence.

        Raises:
            InvalidMaxTasksError: `limit` is no whole number from 0 on.
        """
        count = checks.listed_tasks(limit)
        behind = None if after is None else after[:2]
        task_filter = TaskFilter(state=state, tag=tag, after=behind)
        return self._store.list_tasks(self.name, task_filter, limit=count)

    @interceptable
    def fetch_statistics(self) -> QueueStatistics:
        """Give the numbers of the queue."""
        counts = self._store.counts(self.name)
        oldest = counts.oldest_eta_usec
        return QueueStatistics(
            tasks=counts.tasks,
            available=counts.tasks - counts.leased - counts.scheduled,
            leased=counts.leased,
            scheduled=counts.scheduled,
            oldest_eta=None if oldest is None else from_usec(oldest),
            leased_last_minute=counts.leased_last_minute,
            leased_last_hour=counts.leased_last_hour,
            bytes_stored=counts.bytes_stored,
        )

    @property
    def exhausted(self) -> list[Task]:
        """The tasks that used up their leases, oldest first, as they were at the end."""
        return self._store.exhausted(self.name)

    def history(self, task: AnyTask | str) -> list[Event]:
        """Give what happened to a task (or to the task of a name), oldest first."""
        return self._store.events(self.name, name_of(task))

    def events(self) -> list[Event]:
        """Give what happened to the queue's tasks, oldest first, as far back as is remembered."""
        return self._store.events(self.name)

    def last_lease_end(self) -> datetime | None:
        """Give the moment at which the last of the leases now held ends, or None."""
        end_usec = self._store.last_lease_end_usec(self.name)
        return None if end_usec is None else from_usec(end_usec)

    def next_change(self) -> datetime | None:
        """Give the next moment at which an eta, a lease or a task's life ends, or None."""
        change_usec = self._store.next_change_usec(self.name)
        if change_usec is None or change_usec > LAST_USEC:
            return None  # an age limit can lie behind all time
        return from_usec(change_usec)


def name_of(task: AnyTask | str) -> str:
    """Give the name of a task, be it the SDK's, or a name itself.

    Raises:
        InvalidTaskNameError: it is neither, or a task that has no name yet.
    """
    if isinstance(task, str):
        return task
    if not is_task(task):
        raise InvalidTaskNameError(f"{task!r} is neither a task nor the name of one")
    if not isinstance(task.name, str):
        raise InvalidTaskNameError(f"{task!r} has no name: add it first, or give it one")
    return task.name


def is_task(value: object) -> TypeGuard[AnyTask]:
    """Tell whether something is a task, be it the SDK's."""
    return isinstance(value, Task) or (hasattr(value, "payload") and hasattr(value, "name"))


def _retry_limit(settings: QueueSettings) -> RetryLimit:
    retry = settings.retry_parameters
    if retry is None or retry.task_retry_limit is None:
        # An age limit alone gives up no task of a pull queue (as in Google's stub).
        return RetryLimit()
    age_usec = (retry.task_age_limit_seconds or 0) * USEC_PER_SECOND
    # queue.yaml bounds no age, but a database bounds numbers.
    return RetryLimit(leases=retry.task_retry_limit, age_usec=min(age_usec, LAST_USEC))
