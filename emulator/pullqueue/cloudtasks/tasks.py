"""The methods on tasks: what each does with the engine."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

from pullqueue.clock import from_usec
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import StatusError, invalid
from pullqueue.cloudtasks.messages import (
    FULL,
    Empty,
    Message,
    TaskMessage,
    message_class,
    page_position,
    page_size,
    page_token,
    timestamp_usec,
    whole_seconds,
    write_task,
)
from pullqueue.config.model import QueueMode
from pullqueue.errors import NameInUseError, UnknownTaskError
from pullqueue.tasks import DeleteResult, NewTask, Task

_MOST_LISTED: Final = 1000
_POSITION: Final = re.compile(r"(-?\d{1,18}) (\d{1,18})", re.ASCII)
"""Eta and sequence; numbers that every store can compare with."""
_TAG: Final = re.compile(r'tag\s*=\s*(?:"(?P<quoted>.*)"|(?P<plain>(?!").*))', re.DOTALL)
"""gcloud writes a tag in quotes and leaves quotes within it as they are."""
_OLDEST_TAG: Final = re.compile(r"tag_function\s*=\s*oldest_tag\(\)")


def list_tasks(call: Call) -> Message:
    """ListTasks: a page of tasks, leased or not, in order of schedule time."""
    response = message_class("ListTasksResponse")()
    if call.queue.mode is not QueueMode.PULL:
        return response
    size = page_size(call.request.page_size, most=_MOST_LISTED)
    start = page_position(call.request.page_token, _POSITION)
    after = (int(start[1]), int(start[2])) if start else None
    found = call.queue.list_tasks(size + 1, after=after)
    tasks = found[:size]
    if _is_full(call):
        tasks = _fitting(tasks, call.emulator.limits.lease_payload_bytes)
    _write_tasks(response.tasks, tasks, call)
    if len(tasks) < len(found):
        last = tasks[-1]
        response.next_page_token = page_token(f"{last.eta_usec} {last.sequence}")
    return response


def get_task(call: Call) -> Message:
    """GetTask: one task, without a lease."""
    return _task_message(_found(call), call)


def create_task(call: Call) -> Message:
    """CreateTask: add a task."""
    if call.queue.mode is not QueueMode.PULL:
        raise invalid(
            f"queue {call.name.queue!r} is a push queue: only pull queues take tasks here",
            field="parent",
        )
    task = call.request.task
    if task.WhichOneof("payload_type") not in (None, "pull_message"):
        raise invalid(
            f"queue {call.name.queue!r} is a pull queue: set pull_message, no other payload",
            field="task",
        )
    eta = None
    if task.HasField("schedule_time"):
        eta_usec = timestamp_usec(task.schedule_time, "task.schedule_time")
        # A time that has passed means now, which the store decides.
        eta = from_usec(eta_usec) if eta_usec > call.queue.now_usec() else None
    new = NewTask(
        payload=task.pull_message.payload,
        name=_new_name(task.name, call.name),
        tag=task.pull_message.tag or None,
        eta=eta,
    )
    try:
        added = call.queue.add_many([new])[0]
    except NameInUseError as error:
        raise StatusError("ALREADY_EXISTS", str(error)) from None
    return _task_message(added, call)


def delete_task(call: Call) -> Message:
    """DeleteTask: delete a task, leased or not."""
    _check_pull(call)
    if call.queue.delete_tasks(call.name.task)[0] is not DeleteResult.DELETED:
        raise _not_found(call)
    return Empty()


def lease_tasks(call: Call) -> Message:
    """LeaseTasks: lease the first available tasks, of one tag where a filter is given."""
    request = call.request
    limits = call.emulator.limits
    by_tag, tag = _tag_filter(request.filter)
    full = _is_full(call)
    lease = call.queue.lease(
        _lease_seconds(request),
        request.max_tasks or 1,
        group_by_tag=by_tag,
        tag=tag,
        # Without payloads a response stays small, whatever is leased.
        payload_bytes=None if full else limits.tasks_per_lease * limits.task_bytes,
    )
    if lease.rate_limited:
        raise StatusError(
            "RESOURCE_EXHAUSTED",
            f"more than {limits.leases_per_second} LeaseTasks calls in a second on queue "
            f"{call.name.queue!r}: lease more tasks at a time, or wait",
        )
    response = message_class("LeaseTasksResponse")()
    _write_tasks(response.tasks, lease.tasks, call)
    return response


def acknowledge_task(call: Call) -> Message:
    """AcknowledgeTask: delete a task whose lease the caller holds."""
    _check_pull(call)
    call.queue.acknowledge(call.name.task, expected_eta_usec=_held_eta_usec(call))
    return Empty()


def renew_lease(call: Call) -> Message:
    """RenewLease: let the lease that the caller holds end later, or earlier."""
    return _modified(call, _lease_seconds(call.request))


def cancel_lease(call: Call) -> Message:
    """CancelLease: release the task, which is then available at once."""
    return _modified(call, 0)


def run_task(call: Call) -> Message:
    """RunTask: is for push tasks."""
    _found(call)
    raise invalid(f"task {call.name.task!r} is a pull task: lease it instead", field="name")


def _modified(call: Call, lease_seconds: int) -> Message:
    _check_pull(call)
    task = call.queue.modify_lease(
        call.name.task, lease_seconds, expected_eta_usec=_held_eta_usec(call)
    )
    return _task_message(task, call)


def _held_eta_usec(call: Call) -> int:
    if not call.request.HasField("schedule_time"):
        raise invalid(
            "schedule_time is missing: give that of the lease, as LeaseTasks or RenewLease "
            "returned it",
            field="schedule_time",
        )
    return timestamp_usec(call.request.schedule_time, "schedule_time")


def _lease_seconds(request: Message) -> int:
    if not request.HasField("lease_duration"):
        raise invalid('lease_duration is missing: give one such as "60s"', field="lease_duration")
    return whole_seconds(request.lease_duration, "lease_duration")


def _tag_filter(text: str) -> tuple[bool, str | None]:
    """Return whether to lease by tag, and the tag; None is that of the oldest task."""
    stripped = text.strip()
    if not stripped:
        return False, None
    if _OLDEST_TAG.fullmatch(stripped):
        return True, None
    match = _TAG.fullmatch(stripped)
    if match is None:
        raise invalid(
            f'filter is "{text:.200}": use tag=TAG, tag="TAG" or tag_function=oldest_tag()',
            field="filter",
        )
    if match["plain"] is not None:
        return True, match["plain"]
    return True, re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)


def _new_name(text: str, queue: ResourceName) -> str | None:
    if not text:
        return None
    name = ResourceName.parse(text, field="task.name", depth=4)
    if name.parent != queue:
        raise invalid(
            f'task.name is "{text:.200}": it must begin with "{queue}", the parent',
            field="task.name",
        )
    return name.task


def _found(call: Call) -> Task:
    _check_pull(call)
    return call.queue.get_task(call.name.task)


def _check_pull(call: Call) -> None:
    """Check that the queue can have tasks: no push queue has any."""
    if call.queue.mode is not QueueMode.PULL:
        raise _not_found(call)


def _not_found(call: Call) -> UnknownTaskError:
    return UnknownTaskError(
        f"queue {call.name.queue!r} has no task {call.name.task!r}",
        queue_name=call.name.queue,
        task_name=call.name.task,
    )


def _is_full(call: Call) -> bool:
    return bool(call.request.response_view == FULL)


def _task_message(task: Task, call: Call) -> Message:
    message = TaskMessage()
    write_task(message, task, queue_path=_queue_path(call), full=_is_full(call))
    return message


def _write_tasks(repeated: Message, tasks: list[Task], call: Call) -> None:
    queue_path, full = _queue_path(call), _is_full(call)
    for task in tasks:
        write_task(repeated.add(), task, queue_path=queue_path, full=full)


def _queue_path(call: Call) -> str:
    return str(call.name._replace(task=""))


def _fitting(tasks: list[Task], most_bytes: int) -> list[Task]:
    """Return the tasks from the first on whose payloads fit one response; one always does."""
    sizes = accumulate(len(task.payload) for task in tasks)
    return tasks[: max(1, sum(1 for size in sizes if size <= most_bytes))]
