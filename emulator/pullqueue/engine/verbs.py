"""The verbs of a queue as interfaces call them, with the options and results only they need."""

from __future__ import annotations

from collections.abc import Sequence

from pullqueue.engine import validation
from pullqueue.engine.interceptors import interceptable, touch, touched
from pullqueue.engine.queue_base import QueueBase, QueueState
from pullqueue.engine.store import Insertion, Lease, LeaseChange, LeaseRequest, Target
from pullqueue.errors import InvalidTagError, QueuePausedError, is_expected_error
from pullqueue.limits import Limits
from pullqueue.tasks import HttpRequest, NewTask, Task, default_url
from pullqueue.text import quoted

__tracebackhide__ = is_expected_error


@interceptable
def insert(
    queue: QueueBase,
    tasks: Sequence[NewTask],
    *,
    absolute_urls: bool = False,
    push_task_bytes: int | None = None,
) -> Insertion:
    """Add tasks like `Queue.add_many`, but return the names in use instead of raising.

    With `absolute_urls` requests can have such a URL; `push_task_bytes` replaces the limit on
    the size of a push task.
    """
    limits = queue.limits
    if push_task_bytes is not None:
        limits = limits._replace(push_task_bytes=push_task_bytes)
    tasks = check_new_tasks(queue, tasks, limits, absolute_urls=absolute_urls)
    target = Target(queue.name, queue.is_runtime, queue.retention, queue.storage_limit_bytes)
    insertion = queue.store.insert(target, tasks)
    touch(queue.name, [*insertion.added, *insertion.refused])
    return insertion


@interceptable
def lease(
    queue: QueueBase,
    lease_seconds: float,
    max_tasks: int,
    *,
    group_by_tag: bool = False,
    tag: str | None = None,
    payload_bytes: int | None = None,
) -> Lease:
    """Lease tasks and also return whether there are none because of the lease rate.

    `payload_bytes` replaces the limit on the size of the payloads together. Raise like
    `Queue.lease_tasks_by_tag`, and InvalidTagError for a tag without `group_by_tag`.
    """
    queue.check_pull()
    if queue.state is QueueState.PAUSED:
        raise QueuePausedError(
            f'queue "{queue.name}" is paused: resume it to lease its tasks', queue_name=queue.name
        )
    validation.check_tag(tag, queue.limits)
    if tag is not None and not group_by_tag:
        raise InvalidTagError(f"tag {quoted(tag)} requires group_by_tag: set it, or remove the tag")
    leased = queue.store.lease(
        queue.name,
        LeaseRequest(
            lease_usec=_lease_usec(queue, lease_seconds),
            max_tasks=validation.check_max_tasks(max_tasks, queue.limits),
            payload_bytes=payload_bytes or queue.limits.lease_payload_bytes,
            group_by_tag=group_by_tag,
            tag=tag,
            retention=queue.retention,
        ),
    )
    touch(queue.name, leased.tasks)
    if (record := touched()) is not None:
        record.lease_tags.append(tag)
        record.rate_limited |= leased.rate_limited
    if leased.rate_limited:
        queue.warn_of_rate()
    return leased


@interceptable
def modify_lease(
    queue: QueueBase, task_name: str, lease_seconds: float, *, expected_eta_usec: int | None = None
) -> Task:
    """Modify a lease like `Queue.modify_task_lease`, by the task's name.

    `expected_eta_usec` is the end of the lease to change; None means the current one of
    any worker. Raise like `Queue.modify_task_lease`.
    """
    queue.check_pull()
    touch(queue.name, [task_name])
    change = LeaseChange(expected_eta_usec, _lease_usec(queue, lease_seconds), queue.retention)
    return queue.store.modify_lease(queue.name, task_name, change)


@interceptable
def acknowledge(queue: QueueBase, task_name: str, *, expected_eta_usec: int) -> None:
    """Delete a leased task by the end of the caller's lease; raise like `modify_lease`."""
    queue.check_pull()
    touch(queue.name, [task_name])
    queue.store.acknowledge(queue.name, task_name, expected_eta_usec=expected_eta_usec)


def check_new_tasks(
    queue: QueueBase, tasks: Sequence[NewTask], limits: Limits, *, absolute_urls: bool = False
) -> Sequence[NewTask]:
    """Check new tasks, and return them as they are stored: on a push queue with a request."""
    queue.check_exists()
    is_push, now_usec = queue.is_push, queue.store.now_usec
    if is_push:
        default = HttpRequest(default_url(queue.name))
        tasks = [validation.with_request(task, default) for task in tasks]
    validation.check_new_tasks(tasks, limits, now_usec, absolute_urls=absolute_urls)
    for task in tasks:
        if task.request is not None and not is_push:
            raise queue.wrong_mode("its tasks cannot have a request")
        if task.tag is not None and is_push:
            raise queue.wrong_mode("its tasks cannot have a tag")
    return tasks


def _lease_usec(queue: QueueBase, lease_seconds: float) -> int:
    return validation.check_lease_seconds(lease_seconds, queue.limits, queue.clock.now_usec())
