"""The methods on tasks: what each does with the engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pullqueue.api.errors import ApiError
from pullqueue.clock import LAST_USEC, USEC_PER_SECOND
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import (
    BASIC,
    FULL,
    Empty,
    Message,
    page_of,
    page_token,
    whole_seconds,
)
from pullqueue.cloudtasks.methods import TASK
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import fitting
from pullqueue.engine.task_errors import unknown_task
from pullqueue.errors import NameInUseError, UnknownTaskError
from pullqueue.tasks import DeleteResult, NewTask, Task

_MAX_LISTED: Final = 1000
_POSITION: Final = re.compile(r"(-?\d{1,18}) (\d{1,18})", re.ASCII)
"""Eta and sequence; numbers that every store can compare with."""
_TAG: Final = re.compile(r'tag\s*=\s*(?:"(?P<quoted>.*)"|(?P<plain>(?!").*))', re.DOTALL)
"""gcloud writes a tag in quotes and leaves quotes within it as they are."""
_CALL: Final = re.compile(r"\w+\s*\(\s*\)")
_OLDEST_TAG: Final = re.compile(r"tag_function\s*=\s*oldest_tag\(\)")
_SECONDS: Final = range(-62_135_596_800, LAST_USEC // USEC_PER_SECOND + 1)
"""What a timestamp may hold: the years 1 to 9999."""


def list_tasks(call: Call) -> Message:
    """ListTasks: a page of tasks, leased or not, in order of schedule time."""
    response = call.message("ListTasksResponse")
    if not call.queue.settings.is_pull:
        return response
    size, start = page_of(call.request, _POSITION, most=_MAX_LISTED)
    after = (int(start[1]), int(start[2])) if start else None
    found = call.queue.list_tasks(size + 1, after=after)
    tasks = found[:size]
    if call.request.response_view == FULL:
        tasks = fitting(tasks, call.emulator.limits.lease_payload_bytes)
    _write_tasks(response.tasks.add, tasks, call)
    if len(tasks) < len(found):
        last = tasks[-1]
        response.next_page_token = page_token(f"{last.eta_usec} {last.sequence}")
    return response


def get_task(call: Call) -> Message:
    """GetTask: one task, without a lease."""
    return _task_message(_pull_queue(call).get_task(call.name.task), call)


def create_task(call: Call) -> Message:
    """CreateTask: add a task."""
    queue, task = call.queue, call.request.task
    if not queue.settings.is_pull:
        raise invalid(
            f'queue "{queue.name}" is a push queue: only pull queues take tasks here',
            field="parent",
        )
    if not call.request.HasField("task"):
        raise invalid("task is missing: send an empty one for an empty payload", field="task")
    if task.WhichOneof("payload_type") not in (None, "pull_message"):
        raise invalid(
            f'queue "{queue.name}" is a pull queue: set pull_message, no other payload',
            field="task",
        )
    name = None
    if task.name:
        name = ResourceName.parse(task.name, TASK, field="task.name", parent=call.name).task
    eta_usec = _time_usec(task, "schedule_time") if task.HasField("schedule_time") else None
    if eta_usec is not None and eta_usec <= queue.now_usec():
        eta_usec = None  # a time that has passed means now, which the store decides
    message = task.pull_message
    new = NewTask(message.payload, name, message.tag or None, eta_usec=eta_usec)
    try:
        return _task_message(queue.add_many([new])[0], call)
    except NameInUseError as error:
        raise ApiError(str(error), rpc_code="ALREADY_EXISTS") from None


def delete_task(call: Call) -> Message:
    """DeleteTask: delete a task, leased or not."""
    if _pull_queue(call).delete_tasks(call.name.task)[0] is not DeleteResult.DELETED:
        raise _not_found(call)
    return Empty()


def lease_tasks(call: Call) -> Message:
    """LeaseTasks: lease the first available tasks, of one tag where a filter is given."""
    request = call.request
    limits = call.emulator.limits
    full = request.response_view == FULL
    by_tag, tag = _tag_filter(request.filter)
    lease = call.queue.lease(
        _lease_seconds(call),
        request.max_tasks or 1,
        group_by_tag=by_tag,
        tag=tag,
        # Without payloads a response stays small, whatever is leased.
        payload_bytes=None if full else limits.tasks_per_lease * limits.task_bytes,
    )
    if lease.rate_limited:
        raise ApiError(
            f"more than {limits.leases_per_second} LeaseTasks calls in a second on queue "
            f'"{call.name.queue}": lease more tasks at a time, or wait',
            rpc_code="RESOURCE_EXHAUSTED",
        )
    response = call.message("LeaseTasksResponse")
    _write_tasks(response.tasks.add, lease.tasks, call)
    return response


def acknowledge_task(call: Call) -> Message:
    """AcknowledgeTask: delete a task whose lease the caller holds."""
    _pull_queue(call).acknowledge(call.name.task, expected_eta_usec=_lease_end_usec(call))
    return Empty()


def renew_lease(call: Call) -> Message:
    """RenewLease: change the end of the caller's lease."""
    return _modified(call, _lease_seconds(call))


def cancel_lease(call: Call) -> Message:
    """CancelLease: release the task, which is then available at once."""
    return _modified(call, 0)


def run_task(call: Call) -> Message:
    """RunTask: is for push tasks."""
    _pull_queue(call).get_task(call.name.task)
    raise invalid(f'task "{call.name.task}" is a pull task: lease it instead', field="name")


def _modified(call: Call, lease_seconds: int) -> Message:
    task = _pull_queue(call).modify_lease(
        call.name.task, lease_seconds, expected_eta_usec=_lease_end_usec(call)
    )
    return _task_message(task, call)


def _lease_end_usec(call: Call) -> int:
    if not call.request.HasField("schedule_time"):
        raise invalid(
            "schedule_time is missing: use that of the lease, as LeaseTasks or RenewLease "
            "returned it",
            field="schedule_time",
        )
    return _time_usec(call.request, "schedule_time")


def _time_usec(message: Message, field: str) -> int:
    """Return the microseconds since the epoch in a field; what is finer is cut off."""
    time = getattr(message, field)
    if time.seconds not in _SECONDS or not 0 <= time.nanos < 10**9:
        raise invalid(
            f"{field} is not a valid time: it must be in the years 1 to 9999", field=field
        )
    return int(time.ToMicroseconds())


def _lease_seconds(call: Call) -> int:
    request, field = call.request, "lease_duration"
    if not request.HasField(field):
        raise invalid(f'{field} is missing: use one such as "60s"', field=field)
    return whole_seconds(request.lease_duration, field, most=call.emulator.limits.lease_seconds)


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
        if _CALL.fullmatch(match["plain"]):
            raise invalid(
                f'filter is "{text:.200}", which looks like a function: use '
                f'tag_function=oldest_tag(), or tag="{match["plain"]:.100}" for a tag of that name',
                field="filter",
            )
        return True, match["plain"]
    return True, re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)


def _pull_queue(call: Call) -> Queue:
    """Return the queue of a task; a push queue has none here."""
    if not call.queue.settings.is_pull:
        raise _not_found(call)
    return call.queue


def _not_found(call: Call) -> UnknownTaskError:
    return unknown_task(call.name.queue, call.name.task)


def _task_message(task: Task, call: Call) -> Message:
    message = call.message("Task")
    _write_tasks(lambda: message, [task], call)
    return message


def _write_tasks(add: Callable[[], Message], tasks: list[Task], call: Call) -> None:
    """Write tasks into the messages that `add` returns; only those of the FULL view have payloads.

    Messages that are built on their own and copied into a response take half as long again.
    """
    queue = str(call.name._replace(task=""))
    full = call.request.response_view == FULL
    for task in tasks:
        message = add()
        message.name = f"{queue}/tasks/{task.name}"
        message.view = FULL if full else BASIC
        message.pull_message.SetInParent()
        if full:
            message.pull_message.payload = task.payload
        if task.tag:
            message.pull_message.tag = task.tag
        message.schedule_time.seconds, usec = divmod(task.eta_usec, USEC_PER_SECOND)
        message.schedule_time.nanos = usec * 1000
        message.create_time.seconds = task.enqueued_usec // USEC_PER_SECOND
        if task.retry_count:
            message.status.attempt_dispatch_count = task.retry_count
