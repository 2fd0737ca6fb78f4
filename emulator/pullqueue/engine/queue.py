"""A queue as its users see it: the verbs of the Task Queue API, with every argument checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.engine import checks
from pullqueue.engine.events import Event
from pullqueue.engine.statistics import QueueStatistics
from pullqueue.engine.store import (
    Draft,
    Insertion,
    Lease,
    LeaseRequest,
    RetryLimit,
    TaskFilter,
    TaskStore,
)
from pullqueue.errors import (
    InvalidQueueModeError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    QueueDisabledError,
    TombstonedTaskError,
)
from pullqueue.limits import Limits
from pullqueue.tasks import DeleteResult, NewTask, Task, TaskState

_log = logging.getLogger("pullqueue.engine")


class Queue:
    """One queue of an emulator; get it with `Emulator.queue`. Safe under threads.

    Every verb that changes something raises `InvalidQueueModeError` on a push queue and
    `QueueDisabledError` on one that was removed from queue.yaml.
    """

    def __init__(
        self,
        settings: QueueSettings,
        *,
        store: TaskStore,
        limits: Limits,
        storage_limit_bytes: int | None,
    ) -> None:
        self._store = store
        self._limits = limits
        self._settings = settings
        self._storage_limit_bytes = storage_limit_bytes
        self._retry_limit = _retry_limit(settings)
        self._disabled = False

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    # -- settings --------------------------------------------------------------------------------

    def configure(self, settings: QueueSettings, *, storage_limit_bytes: int | None) -> None:
        """Take other settings; see `Emulator.reconfigure`."""
        retry_limit = _retry_limit(settings)
        if retry_limit != self._retry_limit:
            self._store.change_retry_limit(self.name, retry_limit)
        self._settings = settings
        self._storage_limit_bytes = storage_limit_bytes
        self._retry_limit = retry_limit
        self._disabled = False

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

    # -- verbs -----------------------------------------------------------------------------------

    def add(
        self,
        payload: bytes | str = b"",
        *,
        name: str | None = None,
        tag: str | None = None,
        eta: datetime | None = None,
    ) -> Task:
        """Add one task and give it as stored.

        `payload` is at most 1 MB, text as UTF-8; `name` is made up when None; `eta` is an aware
        datetime, at most 30 days ahead, and None means at once.

        Raises:
            InvalidTaskError: an argument is not valid (a subclass tells which).
            TaskAlreadyExistsError: the name is in use.
            TombstonedTaskError: the name was in use until not long ago.
            OverQuotaError: total_storage_limit would be passed.
        """
        return self.add_many([NewTask(payload=payload, name=name, tag=tag, eta=eta)])[0]

    def add_many(self, tasks: Sequence[NewTask]) -> list[Task]:
        """Add up to 100 tasks and give them as stored, in the same order.

        What is not valid refuses the whole batch before anything is stored, and so does the
        storage limit. A taken name fails alone: the other tasks are added.

        Raises:
            TooManyTasksError: there are more than 100.
            DuplicateTaskNameError: a name stands twice in the batch.
            InvalidTaskError: a task is not valid (a subclass tells what).
            TaskAlreadyExistsError: names were in use; `.added` has the tasks that were added,
                `.refused` the other names.
            TombstonedTaskError: the same, where the first such name belonged to a deleted task.
            OverQuotaError: total_storage_limit would be passed; nothing was added.
        """
        added, refused = self.insert(tasks)
        if refused:
            name, error = next(iter(refused.items()))
            state = "was deleted not long ago" if error is TombstonedTaskError else "exists"
            raise error(
                f"task {name!r} of queue {self.name!r} {state}: choose another name, or give none",
                queue_name=self.name,
                task_name=name,
                added=added,
                refused=refused,
            )
        return added

    def insert(self, tasks: Sequence[NewTask]) -> Insertion:
        """Add like `add_many`, but tell of taken names in the result instead of raising."""
        drafts = self._drafts(tasks)
        return self._store.insert(self.name, drafts, storage_limit_bytes=self._storage_limit_bytes)

    def check(self, tasks: Sequence[NewTask]) -> None:
        """Refuse what `add_many` would refuse whole, but for the storage limit; add nothing.

        Raises:
            TooManyTasksError: there are more than 100.
            DuplicateTaskNameError: a name stands twice in the batch.
            InvalidTaskError: a task is not valid (a subclass tells what).
        """
        self._drafts(tasks)

    def lease_tasks(self, lease_seconds: float, max_tasks: int) -> list[Task]:
        """Lease the first available tasks, in order of eta and arrival.

        `lease_seconds` is 0 to 604 800, `max_tasks` 1 to 1000. Fewer tasks come where fewer are
        available or where their payloads pass 32 MB together; none where leases are asked for too
        often (`Limits.leases_per_second`).

        Raises:
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        return self.lease(lease_seconds, max_tasks).tasks

    def lease_tasks_by_tag(
        self, lease_seconds: float, max_tasks: int, tag: str | None = None
    ) -> list[Task]:
        """Lease like `lease_tasks`, but only tasks with one tag.

        Without a `tag` it is that of the first available task; where that one has none, the
        untagged tasks are leased.

        Raises:
            InvalidTagError: `tag` is not valid.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        return self.lease(lease_seconds, max_tasks, group_by_tag=True, tag=tag).tasks

    def lease(
        self,
        lease_seconds: float,
        max_tasks: int,
        *,
        group_by_tag: bool = False,
        tag: str | None = None,
        payload_bytes: int | None = None,
    ) -> Lease:
        """Lease tasks and also tell whether there are none because of the lease rate.

        `payload_bytes` replaces the limit on what the payloads weigh together.

        Raises:
            InvalidTagError: `tag` is not valid, or given without `group_by_tag`.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        self._check_usable()
        checks.tag_bytes(tag, self._limits)
        if tag is not None and not group_by_tag:
            raise InvalidTagError(f"tag {tag!r} is given without group_by_tag: ask for both")
        lease = self._store.lease(
            self.name,
            LeaseRequest(
                lease_usec=checks.lease_usec(lease_seconds, self._limits),
                max_tasks=checks.max_tasks(max_tasks, self._limits),
                payload_bytes=payload_bytes or self._limits.lease_payload_bytes,
                group_by_tag=group_by_tag,
                tag=tag,
                retry_limit=self._retry_limit,
                calls_per_second=self._limits.leases_per_second,
            ),
        )
        if lease.rate_limited:
            _log.warning(
                "queue %r: more than %s lease calls in a second; this one gives no tasks",
                self.name,
                self._limits.leases_per_second,
            )
        return lease

    def modify_task_lease(self, task: Task, lease_seconds: float) -> Task:
        """Let a lease end `lease_seconds` from now and give the task with its new eta.

        `task` is the task as it was leased: its eta tells which lease is meant. 0 gives the task
        back at once; after its last permitted lease it is then exhausted.

        Raises:
            TaskLeaseExpiredError: the lease has ended, or another one is current.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
        """
        if not isinstance(task, Task):
            raise InvalidTaskError(f"{task!r} is no task: give one that was leased")
        return self.modify_lease(task.name, lease_seconds, held_eta_usec=task.eta_usec)

    def modify_lease(
        self, task_name: str, lease_seconds: float, *, held_eta_usec: int | None = None
    ) -> Task:
        """Modify a lease like `modify_task_lease`, by the task's name.

        `held_eta_usec` is the end of the lease that is meant; None means the current one,
        whoever holds it.

        Raises:
            TaskLeaseExpiredError: the lease has ended, or another one is current.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
        """
        self._check_usable()
        return self._store.modify_lease(
            self.name,
            task_name,
            held_eta_usec=held_eta_usec,
            lease_usec=checks.lease_usec(lease_seconds, self._limits),
            retry_limit=self._retry_limit,
        )

    def delete_tasks(self, tasks: Task | str | Iterable[Task | str]) -> list[DeleteResult]:
        """Delete one task or many, given as tasks or names, leased or not.

        Gives one result per task, in order; unknown and already deleted ones are no error.

        Raises:
            InvalidTaskNameError: something given is neither a task nor a name; nothing is deleted.
        """
        self._check_usable()
        given = [tasks] if isinstance(tasks, Task | str) else tasks
        return self._store.delete(self.name, [name_of(task) for task in given])

    def purge(self) -> int:
        """Delete every task and tell how many there were."""
        self._check_usable()
        return self._store.purge(self.name)

    def free_names(self, task_names: Iterable[str] | None = None) -> None:
        """Let the names of deleted tasks be used again at once: some of them, or all (None)."""
        self._store.free_names(self.name, task_names)

    # -- questions -------------------------------------------------------------------------------

    def get_task(self, task_name: str) -> Task:
        """Give one task without leasing it.

        Raises:
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted.
        """
        return self._store.get(self.name, task_name)

    def list_tasks(
        self,
        limit: int = 100,
        *,
        state: TaskState | None = None,
        tag: str | None = None,
        after: Task | None = None,
    ) -> list[Task]:
        """Give the first tasks in order of eta and arrival, without leasing them.

        `state` and `tag` narrow the list; `after` is the last task of the page before.
        """
        behind = None if after is None else (after.eta_usec, after.sequence)
        task_filter = TaskFilter(state=state, tag=tag, after=behind)
        return self._store.list_tasks(self.name, task_filter, limit=limit)

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

    def history(self, task: Task | str) -> list[Event]:
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
        return None if change_usec is None else from_usec(change_usec)

    def _drafts(self, tasks: Sequence[NewTask]) -> list[Draft]:
        self._check_usable()
        return checks.drafts_of(tasks, self._limits, self._store.now_usec())

    def _check_usable(self) -> None:
        if self._settings.mode is not QueueMode.PULL:
            raise InvalidQueueModeError(
                f"queue {self.name!r} is a push queue: only queues with `mode: pull` in queue.yaml "
                "can be used this way",
                queue_name=self.name,
            )
        if self._disabled:
            raise QueueDisabledError(
                f"queue {self.name!r} is disabled, since it is no longer in queue.yaml: put it "
                "back to use its tasks",
                queue_name=self.name,
            )


def name_of(task: Task | str) -> str:
    """Give the name of a task, or a name itself.

    Raises:
        InvalidTaskNameError: it is neither.
    """
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str):
        return task
    raise InvalidTaskNameError(f"{task!r} is neither a task nor the name of one")


def _retry_limit(settings: QueueSettings) -> RetryLimit:
    retry = settings.retry_parameters
    if retry is None or retry.task_retry_limit is None:
        # An age limit alone gives up no task of a pull queue (as in Google's stub).
        return RetryLimit()
    age_seconds = retry.task_age_limit_seconds or 0
    return RetryLimit(leases=retry.task_retry_limit, age_usec=age_seconds * USEC_PER_SECOND)
