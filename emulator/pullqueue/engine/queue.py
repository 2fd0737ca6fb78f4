"""The queue that users call: the verbs of the Task Queue API, with every argument validated."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, Clock, from_usec
from pullqueue.config.text import quoted
from pullqueue.engine import task_errors, validation
from pullqueue.engine.events import Event, EventKind, Flow
from pullqueue.engine.interceptors import Interceptors, interceptable, touch
from pullqueue.engine.retention import Retention, retention_of
from pullqueue.engine.store import (
    AttemptedTask,
    Insertion,
    Lease,
    LeaseRequest,
    QueueRecord,
    QueueStatistics,
    TaskFilter,
    TaskStore,
)
from pullqueue.engine.validation import AnyTask, is_task, name_of
from pullqueue.errors import (
    InvalidQueueModeError,
    InvalidTagError,
    InvalidTaskError,
    QueueDisabledError,
    QueuePausedError,
    TombstonedTaskError,
    is_expected_error,
)
from pullqueue.limits import Limits
from pullqueue.tasks import (
    AttemptOutcome,
    AttemptRecord,
    DeleteResult,
    HttpRequest,
    NewTask,
    Task,
    TaskState,
    why_in_use,
)

if TYPE_CHECKING:
    from pullqueue.config.model import QueueMode, QueueSettings

__tracebackhide__ = is_expected_error


class QueueState(StrEnum):
    """Whether tasks can be leased from a queue, or are sent."""

    RUNNING = "running"
    PAUSED = "paused"
    """Tasks can be added, but are neither leased nor sent."""
    DISABLED = "disabled"
    """The queue was removed from queue.yaml; its tasks are kept."""


class Queue:
    """One queue of an emulator; returned by `Emulator.queue`. Thread-safe.

    Every verb of the API raises `QueueDisabledError` on a queue that was removed from queue.yaml.
    Those that lease tasks, or change a lease, raise `InvalidQueueModeError` on a push queue and
    `QueuePausedError` on one that is paused.
    """

    _rate_warning_usec = 0
    """When the lease rate can be logged again."""

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
        """Set whether every change is refused; the tasks are kept."""
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
    def is_push(self) -> bool:
        """True if App Engine sends its tasks, rather than workers leasing them."""
        return not self._settings.is_pull

    @property
    def settings(self) -> QueueSettings:
        """The queue's entry in queue.yaml."""
        return self._settings

    @property
    def retention(self) -> Retention:
        """The limits after which its tasks are exhausted."""
        return self._retention

    @property
    def state(self) -> QueueState:
        """Whether tasks can be leased or are sent."""
        if self._disabled:
            return QueueState.DISABLED
        return QueueState.PAUSED if self._record.paused else QueueState.RUNNING

    @property
    def disabled(self) -> bool:
        """True if the queue was removed from queue.yaml."""
        return self._disabled

    @property
    def is_runtime(self) -> bool:
        """True if the queue was created at run time and is not one of queue.yaml."""
        return self._record.settings is not None

    @property
    def purged_at(self) -> datetime | None:
        """When the queue was last purged, or None."""
        purged_usec = self._record.purged_usec
        return None if purged_usec is None else from_usec(purged_usec)

    # -- verbs -----------------------------------------------------------------------------------

    def add(
        self,
        payload: bytes | str = b"",
        *,
        name: str | None = None,
        tag: str | None = None,
        eta: datetime | None = None,
        request: HttpRequest | None = None,
    ) -> Task:
        """Add one task and return it as stored.

        `payload` is at most 1 MB, text as UTF-8; `name` is generated when None; `eta` is an aware
        datetime, at most 30 days ahead, and None means now. `tag` is for pull queues, `request` for
        push queues: None means POST to `/_ah/queue/NAME`; with the payload it is at most 100 KB.

        Raises:
            InvalidTaskError: an argument is not valid (a subclass for most of them).
            InvalidQueueModeError: it has a tag on a push queue, or a request on a pull queue.
            TaskAlreadyExistsError: the name is in use.
            TombstonedTaskError: the name was in use until recently.
            OverQuotaError: total_storage_limit would be exceeded.
        """
        return self.add_many([NewTask(payload, name, tag, eta, request)])[0]

    def add_many(self, tasks: Sequence[NewTask]) -> list[Task]:
        """Add up to 100 tasks and return them as stored, in the same order.

        If a task is not valid, or the storage limit is exceeded, no task is added. If a name is in
        use, the other tasks are added.

        Raises:
            TooManyTasksError: there are more than 100.
            DuplicateTaskNameError: a name occurs twice in the batch.
            InvalidTaskError: a task is not valid (a subclass for most arguments).
            InvalidQueueModeError: a task has a tag on a push queue, or a request on a pull queue.
            TaskAlreadyExistsError: names were in use; `.added` has the tasks that were added,
                `.refused` the other names.
            TombstonedTaskError: the same, if the task of the first such name was deleted.
            OverQuotaError: total_storage_limit would be exceeded; nothing was added.
        """
        added, refused = self.insert(tasks)
        if refused:
            name, error = next(iter(refused.items()))
            state = why_in_use(existing=error is not TombstonedTaskError)
            raise error(
                f'task "{name}" of queue "{self.name}" {state}: choose another name, or omit it',
                queue_name=self.name,
                task_name=name,
                added=added,
                refused=refused,
            )
        return added

    @interceptable
    def insert(
        self,
        tasks: Sequence[NewTask],
        *,
        absolute_urls: bool = False,
        push_task_bytes: int | None = None,
    ) -> Insertion:
        """Add like `add_many`, but return the names in use instead of raising.

        With `absolute_urls` requests can have such a URL; `push_task_bytes` replaces the limit on
        the size of a push task.
        """
        limits = self._limits
        if push_task_bytes is not None:
            limits = limits._replace(push_task_bytes=push_task_bytes)
        insertion = self._store.insert(
            self.name,
            self._checked(tasks, limits, absolute_urls=absolute_urls),
            is_runtime=self.is_runtime,
            retention=self._retention,
            storage_limit_bytes=self._storage_limit_bytes,
        )
        touch(self.name, insertion.added)
        return insertion

    def check(self, tasks: Sequence[NewTask]) -> None:
        """Raise what `add_many` would raise for the whole batch, except for the storage limit.

        Raises:
            TooManyTasksError: there are more than 100.
            DuplicateTaskNameError: a name occurs twice in the batch.
            InvalidTaskError: a task is not valid (a subclass for most arguments).
            InvalidQueueModeError: a task has a tag on a push queue, or a request on a pull queue.
        """
        self._checked(tasks, self._limits)

    def lease_tasks(self, lease_seconds: float, max_tasks: int) -> list[Task]:
        """Lease the first available tasks, in order of eta and arrival.

        `lease_seconds` is 0 to 604 800, `max_tasks` 1 to 1000. Fewer tasks are returned if
        fewer are available or if their payloads exceed 32 MB together, and none if there are too
        many lease calls (`Limits.leases_per_second`).

        Raises:
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        return self.lease(lease_seconds, max_tasks).tasks

    def lease_tasks_by_tag(
        self, lease_seconds: float, max_tasks: int, tag: str | None = None
    ) -> list[Task]:
        """Lease like `lease_tasks`, but only tasks with one tag.

        Without `tag`, the tag of the first available task is used; if that task has none,
        untagged tasks are leased.

        Raises:
            InvalidTagError: `tag` is not valid.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        return self.lease(lease_seconds, max_tasks, group_by_tag=True, tag=tag).tasks

    @interceptable
    def lease(
        self,
        lease_seconds: float,
        max_tasks: int,
        *,
        group_by_tag: bool = False,
        tag: str | None = None,
        payload_bytes: int | None = None,
    ) -> Lease:
        """Lease tasks and also return whether there are none because of the lease rate.

        `payload_bytes` replaces the limit on the size of the payloads together.

        Raises:
            InvalidTagError: `tag` is not valid, or passed without `group_by_tag`.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        self.check_pull()
        if self._record.paused:
            raise QueuePausedError(
                f'queue "{self.name}" is paused: resume it to lease its tasks',
                queue_name=self.name,
            )
        validation.check_tag(tag, self._limits)
        if tag is not None and not group_by_tag:
            raise InvalidTagError(
                f"tag {quoted(tag)} requires group_by_tag: set it, or remove the tag"
            )
        lease = self._store.lease(
            self.name,
            LeaseRequest(
                lease_usec=self._lease_usec(lease_seconds),
                max_tasks=validation.max_tasks(max_tasks, self._limits),
                payload_bytes=payload_bytes or self._limits.lease_payload_bytes,
                group_by_tag=group_by_tag,
                tag=tag,
                retention=self._retention,
                calls_per_second=self._limits.leases_per_second,
            ),
        )
        touch(self.name, lease.tasks)
        if lease.rate_limited:
            self._warn_of_rate()
        return lease

    def modify_task_lease(self, task: Task, lease_seconds: float) -> Task:
        """Change the end of a lease to `lease_seconds` from now; return the task with its new eta.

        `task` is the task as it was leased: its eta identifies the lease. 0 releases the task at
        once; after its last permitted lease it is then exhausted.

        Raises:
            TaskLeaseExpiredError: the lease has ended, or another one is current.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
        """
        if not isinstance(task, Task):
            raise InvalidTaskError(f"{quoted(task)} is not a task: pass one that was leased")
        return self.modify_lease(task.name, lease_seconds, expected_eta_usec=task.eta_usec)

    @interceptable
    def modify_lease(
        self, task_name: str, lease_seconds: float, *, expected_eta_usec: int | None = None
    ) -> Task:
        """Modify a lease like `modify_task_lease`, by the task's name.

        `expected_eta_usec` is the end of the lease to change; None means the current one of
        any worker.

        Raises:
            TaskLeaseExpiredError: the lease has ended, or another one is current.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
            InvalidLeaseTimeError: `lease_seconds` is out of range.
        """
        self.check_pull()
        touch(self.name, [task_name])
        return self._store.modify_lease(
            self.name,
            task_name,
            expected_eta_usec=expected_eta_usec,
            lease_usec=self._lease_usec(lease_seconds),
            retention=self._retention,
        )

    @interceptable
    def delete_tasks(self, tasks: AnyTask | str | Iterable[AnyTask | str]) -> list[DeleteResult]:
        """Delete one or several tasks, leased or not; pass tasks (also the SDK's) or names.

        Return one result per task, in order; unknown and already deleted ones are not errors.

        Raises:
            InvalidTaskNameError: an element is neither a task nor a name; nothing is deleted.
        """
        self._check_usable()
        if isinstance(tasks, str) or is_task(tasks) or not isinstance(tasks, Iterable):
            names = [name_of(tasks)]
        else:
            names = list(map(name_of, tasks))
        touch(self.name, names)
        return self._store.delete(self.name, names)

    @interceptable
    def acknowledge(self, task_name: str, *, expected_eta_usec: int) -> None:
        """Delete a leased task; `expected_eta_usec` is the end of the caller's lease.

        Raises:
            TaskLeaseExpiredError: the lease has ended, or another one is current.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
        """
        self.check_pull()
        touch(self.name, [task_name])
        self._store.acknowledge(self.name, task_name, expected_eta_usec=expected_eta_usec)

    def claim_dispatch(self) -> bool:
        """Return whether this process is the one that sends the tasks of the queue.

        It is the first that asks among those that share the store, until it ends.
        """
        return self._store.claim_dispatch(self.name)

    def start_attempt(self, task: Task, *, lease_seconds: float, attempts: AttemptRecord) -> Task:
        """Start an attempt to send a push task, due or not, and return the task as it is then.

        Nobody else can start an attempt within `lease_seconds`; `attempts` replaces the record of
        attempts. Interceptors are not called for this method and the two after it.

        Raises:
            TaskLeaseExpiredError: the task has changed since.
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
            InvalidTaskError: it is a pull task.
        """
        self._check_usable()
        if task.push is None:
            raise InvalidTaskError(f'task "{task.name}" of queue "{self.name}" has no request')
        lease_usec = self._pause_usec(lease_seconds)
        which = self._attempted(task)
        return self._store.start_attempt(which, lease_usec=lease_usec, attempts=attempts)

    def renew_attempt(self, task: Task, *, lease_seconds: float) -> Task:
        """Move the end of an attempt to `lease_seconds` from now; raise like `start_attempt`."""
        self._check_exists()
        lease_usec = self._pause_usec(lease_seconds)
        return self._store.renew_attempt(self._attempted(task), lease_usec=lease_usec)

    def finish_attempt(
        self,
        task: Task,
        *,
        attempts: AttemptRecord,
        outcome: AttemptOutcome,
        backoff_seconds: float = 0,
    ) -> Task:
        """End an attempt, also after its lease; raise like `start_attempt`.

        `task` is what `start_attempt` or `renew_attempt` returned. A task that succeeded is
        deleted, one that is exhausted kept among the exhausted tasks, and any other sent again
        after `backoff_seconds`.
        """
        self._check_exists()
        return self._store.finish_attempt(
            self._attempted(task),
            attempts=attempts,
            outcome=outcome,
            backoff_usec=self._pause_usec(backoff_seconds),
        )

    @interceptable
    def purge(self) -> int:
        """Delete every task and the payloads of exhausted tasks; return the number deleted."""
        self._check_usable()
        purged = self._store.purge(self.name)
        self._record = self._record._replace(purged_usec=self.now_usec())
        return purged

    def pause(self) -> None:
        """Neither lease nor send tasks until `resume`; tasks can be added, and leases modified."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Lease and send tasks again, also of a queue that was removed from queue.yaml.

        A push queue with `rate: 0` sends nothing until it has another rate.
        """
        self._set_paused(paused=False)
        self._disabled = False

    def free_names(self, task_names: Iterable[str] | None = None) -> None:
        """Permit names of deleted tasks again: these names, or all if None."""
        self._store.free_names(self.name, task_names)

    def requeue(self, task_names: Iterable[str]) -> Insertion:
        """Add exhausted tasks again, by name, to be leased or sent at once and counted from 0.

        Names of tasks that are not exhausted are ignored; those in use again are refused.

        Raises:
            InvalidTaskError: a payload was deleted when the queue was purged; nothing is added.
            OverQuotaError: total_storage_limit would be exceeded; the tasks stay exhausted.
        """
        self._check_usable()
        wanted = set(task_names)
        exhausted = list(
            {task.name: task for task in self.exhausted if task.name in wanted}.values()
        )
        for task in exhausted:
            if lost_payload(task):
                raise InvalidTaskError(
                    f'task "{task.name}" of queue "{self.name}" cannot be added again, since its '
                    "payload was deleted when the queue was purged: add a new task"
                )
        result = Insertion([], {})
        for start in range(0, len(exhausted), self._limits.tasks_per_add):
            batch = exhausted[start : start + self._limits.tasks_per_add]
            self.free_names(task.name for task in batch)
            added, refused = self.insert(
                [NewTask(t.payload, t.name, t.tag, request=t.request) for t in batch],
                absolute_urls=True,
                push_task_bytes=sys.maxsize,
            )
            self.remove_exhausted(task.name for task in added)
            result.added.extend(added)
            result.refused.update(refused)
        return result

    def remove_exhausted(self, task_names: Iterable[str]) -> int:
        """Delete the records of exhausted tasks by name; return how many there were."""
        return self._store.remove_exhausted(self.name, task_names)

    # -- questions -------------------------------------------------------------------------------

    @interceptable
    def get_task(self, task_name: str) -> Task:
        """Return one task without leasing it.

        Raises:
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
        """
        touch(self.name, [task_name])
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

    def count_tags(self, limit: int = 100) -> dict[str, int]:
        """Return how many tasks have each tag, for the tags that most have, the most first."""
        return self._store.count_tags(self.name, limit=limit)

    @interceptable
    def fetch_statistics(self) -> QueueStatistics:
        """Return the statistics of the queue."""
        return self._store.statistics(self.name)

    @property
    def exhausted(self) -> list[Task]:
        """The tasks that used up their leases or retries, oldest first, as they were at the end."""
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

    def flow(self, *, since_usec: int) -> Flow:
        """Return how many events of each kind there were in each minute since a time, in order.

        Minutes without events, and events that are no longer recorded, are not included.
        """
        return self._store.flow(self.name, since_usec=since_usec)

    def now_usec(self) -> int:
        """Return the time by which its tasks become due, in microseconds: that of the store."""
        return self._store.now_usec()

    def last_lease_end(self) -> datetime | None:
        """Return the end of the current lease or attempt that ends last, or None."""
        end_usec = self._store.last_lease_end_usec(self.name)
        return None if end_usec is None else from_usec(end_usec)

    def next_change(self) -> datetime | None:
        """Return the next eta, end of a lease or exhaustion of a task, or None."""
        change_usec = self._store.next_change_usec(self.name)
        if change_usec is None or change_usec > LAST_USEC:
            return None  # no datetime can represent it: an age limit can be of any length
        return from_usec(change_usec)

    # -- parts -----------------------------------------------------------------------------------

    def _checked(
        self, tasks: Sequence[NewTask], limits: Limits, *, absolute_urls: bool = False
    ) -> Sequence[NewTask]:
        """Check new tasks, and return them as they are stored: on a push queue with a request."""
        self._check_usable()
        is_push, now_usec = self.is_push, self._store.now_usec
        if is_push:
            default = HttpRequest(f"/_ah/queue/{self.name}")
            tasks = [validation.with_request(task, default) for task in tasks]
        validation.check_new_tasks(tasks, limits, now_usec, absolute_urls=absolute_urls)
        for task in tasks:
            if task.request is not None and not is_push:
                raise self.wrong_mode("its tasks cannot have a request")
            if task.tag is not None and is_push:
                raise self.wrong_mode("its tasks cannot have a tag")
        return tasks

    def _attempted(self, task: Task) -> AttemptedTask:
        return AttemptedTask(self.name, task.name, task.eta_usec)

    def _pause_usec(self, seconds: float) -> int:
        """Return a duration from now on in microseconds; it ends before the year 10000."""
        longest_usec = LAST_USEC - self.clock.now_usec()
        return int(max(0, min(seconds * USEC_PER_SECOND, longest_usec)))

    def _lease_usec(self, lease_seconds: float) -> int:
        return validation.lease_usec(lease_seconds, self._limits, self.clock.now_usec())

    def _set_paused(self, *, paused: bool) -> None:
        self._check_exists()
        self._store.change_queue_record(self.name, paused=paused)
        self._record = self._record._replace(paused=paused)

    def _check_exists(self) -> None:
        if self._record.deleted_usec is not None:
            raise task_errors.deleted_queue(self.name)

    def _check_usable(self) -> None:
        self._check_exists()
        if self._disabled:
            raise QueueDisabledError(
                f'queue "{self.name}" is disabled, since it is no longer in queue.yaml: put it '
                "back to use its tasks",
                queue_name=self.name,
            )

    def check_pull(self) -> None:
        """Check that tasks can be leased from the queue, unless it is paused.

        Raises:
            InvalidQueueModeError: it is a push queue.
            UnknownQueueError: it was deleted.
            QueueDisabledError: it was removed from queue.yaml.
        """
        if self.is_push:
            self._check_exists()
            raise self.wrong_mode(
                "only queues with `mode: pull` in queue.yaml can be used this way"
            )
        self._check_usable()

    def wrong_mode(self, rule: str) -> InvalidQueueModeError:
        """Return the error for a call that is for queues of the other mode, with the rule."""
        return InvalidQueueModeError(
            f'queue "{self.name}" is a {self.mode.value} queue: {rule}', queue_name=self.name
        )

    def _warn_of_rate(self) -> None:
        import logging  # noqa: PLC0415 - importing pullqueue must stay cheap

        now_usec = self.clock.now_usec()
        if now_usec < self._rate_warning_usec:
            return
        self._rate_warning_usec = now_usec + 60 * USEC_PER_SECOND
        logging.getLogger("pullqueue.engine").warning(
            'queue "%s": more than %s lease calls in a second; the excess returns no tasks',
            self.name,
            self._limits.leases_per_second,
        )


def walk(
    queue: Queue,
    *,
    page: int,
    state: TaskState | None = None,
    tag: str | None = None,
    after: tuple[int, int] | None = None,
) -> Iterator[Task]:
    """Yield the tasks of a queue as `list_tasks` does, reading a page of them at a time."""
    while True:
        tasks = queue.list_tasks(page, state=state, tag=tag, after=after)
        yield from tasks
        if len(tasks) < page:
            return
        after = tasks[-1][:2]


def lost_payload(task: Task) -> bool:
    """Return whether the payload of an exhausted task was deleted when its queue was purged."""
    left = NewTask(task.payload, task.name, task.tag, request=task.request)
    return task.stored_bytes != left.stored_bytes
