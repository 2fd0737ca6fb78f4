"""The queue that users call: the verbs of the Task Queue API, with every argument validated."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from pullqueue.clock import FIRST_USEC, LAST_USEC, duration_usec
from pullqueue.engine import task_errors, validation, verbs
from pullqueue.engine.events import ClientLeases, Event, EventKind, Flow
from pullqueue.engine.interceptors import interceptable, touch
from pullqueue.engine.queue_base import QueueBase
from pullqueue.engine.store import Insertion, QueueStatistics, TaskFilter
from pullqueue.engine.validation import AnyTask, is_task, name_of
from pullqueue.errors import InvalidTaskError, is_expected_error
from pullqueue.tasks import AttemptResult, DeleteResult, HttpRequest, NewTask, Task, TaskState
from pullqueue.text import quoted

__tracebackhide__ = is_expected_error


class Queue(QueueBase):
    """One queue of an emulator; returned by `Emulator.queue`. Thread-safe.

    On a queue that was removed from queue.yaml, tasks can be added, but every verb that leases,
    changes or deletes some raises `QueueDisabledError`.
    Those that lease tasks, or change a lease, raise `InvalidQueueModeError` on a push queue and
    `QueuePausedError` on one that is paused.
    """

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
        added, refused = verbs.insert(self, tasks)
        if refused:
            raise task_errors.names_in_use(self.name, added, refused)
        return added

    def check(self, tasks: Sequence[NewTask]) -> None:
        """Raise what `add_many` raises, except for names in use and the storage limit."""
        verbs.check_new_tasks(self, tasks, self.limits)

    def lease_tasks(self, lease_seconds: float, max_tasks: int) -> list[Task]:
        """Lease the first available tasks, in order of eta and arrival.

        `lease_seconds` is 0 to 604 800, `max_tasks` 1 to 1000. Fewer tasks are returned if
        fewer are available or if their payloads exceed 32 MB together, and none if there are too
        many lease calls (`Limits.leases_per_second`).

        Raises:
            InvalidLeaseTimeError: `lease_seconds` is out of range.
            InvalidMaxTasksError: `max_tasks` is out of range.
        """
        return verbs.lease(self, lease_seconds, max_tasks).tasks

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
        return verbs.lease(self, lease_seconds, max_tasks, group_by_tag=True, tag=tag).tasks

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
        return verbs.modify_lease(self, task.name, lease_seconds, expected_eta_usec=task.eta_usec)

    @interceptable
    def delete_tasks(self, tasks: AnyTask | str | Iterable[AnyTask | str]) -> list[DeleteResult]:
        """Delete one or several tasks, leased or not; pass tasks (also the SDK's) or names.

        Return one result per task, in order; unknown and already deleted ones are not errors.

        Raises:
            InvalidTaskNameError: an element is neither a task nor a name; nothing is deleted.
        """
        self.check_usable()
        if isinstance(tasks, str) or is_task(tasks) or not isinstance(tasks, Iterable):
            names = [name_of(tasks)]
        else:
            names = list(map(name_of, tasks))
        touch(self.name, names)
        return self.store.delete(self.name, names)

    @interceptable
    def purge(self) -> int:
        """Delete every task and the payloads of exhausted tasks; return the number deleted."""
        self.check_usable()
        purged = self.store.purge(self.name)
        self.record = self.record._replace(purged_usec=self.now_usec())
        return purged

    def pause(self) -> None:
        """Neither lease nor send tasks until `resume`; tasks can be added.

        Leases can be modified, but not by Google's SDK, which gets QueuePausedError.
        """
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Lease and send tasks again, also of a queue that was removed from queue.yaml.

        A push queue with `rate: 0` sends nothing until it has another rate.
        """
        self._set_paused(paused=False)
        self.is_disabled = False

    def free_names(self, task_names: Iterable[str] | None = None) -> None:
        """Permit names of deleted tasks again: these names, or all if None."""
        self.store.free_names(self.name, task_names)

    def requeue(
        self,
        task_names: Iterable[str],
        *,
        payload: bytes | None = None,
        request: HttpRequest | None = None,
    ) -> Insertion:
        """Add exhausted tasks again, by name, to be leased or sent at once and counted from 0.

        Names of tasks that are not exhausted are ignored; those in use again are refused. `payload`
        and `request` replace those of the tasks.

        Raises:
            InvalidTaskError: a payload was deleted when the queue was purged, or what replaces
                payload or request is not valid; nothing is added.
            OverQuotaError: total_storage_limit would be exceeded; the tasks stay exhausted.
        """
        self.check_usable()
        wanted = set(task_names)
        by_name = {task.name: task for task in self.exhausted if task.name in wanted}
        exhausted = list(by_name.values())
        for task in exhausted:
            if payload is None and lost_payload(task):
                raise InvalidTaskError(
                    f'task "{task.name}" of queue "{self.name}" cannot be added again, since its '
                    "payload was deleted when the queue was purged: add a new task"
                )
        given = {"payload": payload, "request": request}
        changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        result = Insertion([], {})
        for start in range(0, len(exhausted), self.limits.tasks_per_add):
            batch = exhausted[start : start + self.limits.tasks_per_add]
            tasks = [_added_again(task)._replace(**changes) for task in batch]
            if changes:
                # Before the names are free: else they were, whether or not the tasks are valid.
                known = any(task.request and task.request.is_http_target for task in batch)
                size = self.limits.push_task_bytes if payload is not None else sys.maxsize
                limits = self.limits._replace(push_task_bytes=size)
                verbs.check_new_tasks(self, tasks, limits, absolute_urls=known)
            self.free_names(task.name for task in batch)
            added, refused = verbs.insert(
                self, tasks, absolute_urls=True, push_task_bytes=sys.maxsize
            )
            self.remove_exhausted(task.name for task in added)
            result.added.extend(added)
            result.refused.update(refused)
        return result

    def remove_exhausted(self, task_names: Iterable[str]) -> int:
        """Delete the records of exhausted tasks by name; return how many there were."""
        return self.store.remove_exhausted(self.name, task_names)

    # -- questions -------------------------------------------------------------------------------

    @interceptable
    def get_task(self, task_name: str) -> Task:
        """Return one task without leasing it.

        Raises:
            UnknownTaskError: the queue has no such task.
            TombstonedTaskError: the task was deleted, or exhausted.
        """
        touch(self.name, [task_name])
        return self.store.get(self.name, task_name)

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
        count = validation.check_list_limit(limit)
        position = None if after is None else validation.clamp_position(*after[:2])
        task_filter = TaskFilter(state=state, tag=tag, after=position)
        return self.store.list_tasks(self.name, task_filter, limit=count)

    def count_tags(self, limit: int = 100) -> dict[str, int]:
        """Return how many tasks have each tag, for the tags that most have, the most first."""
        return self.store.count_tags(self.name, limit=limit)

    @interceptable
    def fetch_statistics(self) -> QueueStatistics:
        """Return the statistics of the queue."""
        return self.store.collect_statistics(self.name)

    @property
    def exhausted(self) -> list[Task]:
        """The tasks that used up their leases or retries, oldest first, as they were at the end."""
        return self.store.list_exhausted(self.name)

    def history(self, task: AnyTask | str) -> list[Event]:
        """Return what happened to a task (or to the task of a name), oldest first."""
        return self.store.list_events(self.name, name_of(task))

    def events(self) -> list[Event]:
        """Return what happened to the queue's tasks, oldest first, as far back as is recorded."""
        return self.store.list_events(self.name)

    def last_leases(self, task_names: Collection[str]) -> dict[str, Event]:
        """Return the latest lease of each of these tasks, by name, as far as it is recorded."""
        return self.store.find_last_leases(self.name, task_names)

    def count_leases(self) -> dict[str, ClientLeases]:
        """Count the leases of each client (empty: not known), as far as they are recorded."""
        return self.store.count_leases(self.name)

    def count_events(self, *, last: timedelta) -> Counter[EventKind]:
        """Return how many events of each kind there were within the last time span.

        Leases that expired are not counted, nor what is no longer recorded.
        """
        return self.store.count_events(self.name, last_usec=_span_usec(last))

    def count_failures(self, *, last: timedelta) -> Counter[AttemptResult]:
        """Return how many attempts failed within the last time span, by their results."""
        return self.store.count_failures(self.name, last_usec=_span_usec(last))

    def flow(self, *, since_usec: int) -> Flow:
        """Return how many events of each kind there were in each minute since a time, in order.

        Minutes without events, and events that are no longer recorded, are not included.
        """
        return self.store.count_flow(self.name, since_usec=max(since_usec, FIRST_USEC))

    def last_lease_end_usec(self) -> int | None:
        """Return the end of the current lease or attempt that ends last, or None."""
        return self.store.last_lease_end_usec(self.name)

    def next_change_usec(self) -> int | None:
        """Return the next eta, end of a lease or exhaustion of a task, or None."""
        change_usec = self.store.next_change_usec(self.name)
        # After the year 9999 nothing changes: an age limit can be of any length.
        return None if change_usec is None or change_usec > LAST_USEC else change_usec

    def _set_paused(self, *, paused: bool) -> None:
        self.check_exists()
        self.store.change_queue_record(self.name, paused=paused)
        self.record = self.record._replace(paused=paused)


def walk(
    queue: Queue,
    *,
    page: int,
    state: TaskState | None = None,
    tag: str | None = None,
    after: Task | tuple[int, int] | None = None,
) -> Iterator[Task]:
    """Yield the tasks of a queue as `list_tasks` does, reading a page of them at a time."""
    while True:
        tasks = queue.list_tasks(page, state=state, tag=tag, after=after)
        yield from tasks
        if len(tasks) < page:
            return
        after = tasks[-1]


def lost_payload(task: Task) -> bool:
    """Return whether the payload of an exhausted task was deleted when its queue was purged."""
    return task.stored_bytes != _added_again(task).stored_bytes


def _span_usec(last: timedelta) -> int:
    """Return a time span in microseconds: of what is longer than all years, all years."""
    return min(duration_usec(last), LAST_USEC - FIRST_USEC)


def _added_again(task: Task) -> NewTask:
    return NewTask(task.payload, task.name, task.tag, request=task.request)
