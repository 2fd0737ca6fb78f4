"""The methods on tasks: what each does with the engine."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from pullqueue.cloudtasks import messages
from pullqueue.cloudtasks.calls import Call
from pullqueue.cloudtasks.errors import CloudTasksError, invalid_field
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.task_messages import (
    insert_tasks,
    read_new_task,
    read_time_usec,
    write_tasks,
)
from pullqueue.engine import verbs
from pullqueue.engine.request_validation import METHODS_WITH_BODY
from pullqueue.engine.task_errors import unknown_task
from pullqueue.errors import InvalidTaskError, TaskError
from pullqueue.push.dispatcher import make_due
from pullqueue.push.http_target import override_url
from pullqueue.tasks import DeleteResult, Task, fitting

_MAX_LISTED: Final = 1000
_POSITION: Final = re.compile(r"(-?\d{1,18}) (\d{1,18})", re.ASCII)
"""Eta and sequence; numbers that every store can compare with."""
_TAG: Final = re.compile(r'tag\s*=\s*(?:"(?P<quoted>.*)"|(?P<plain>(?!").*))', re.DOTALL)
"""gcloud writes a tag in quotes and leaves quotes within it as they are."""
_DEFAULT_CONTENT_TYPE: Final = "application/json"
"""Of a task that is added by BufferTask, with a body whose type is not given (documented)."""
_CALL: Final = re.compile(r"\w+\s*\(\s*\)")
_OLDEST_TAG: Final = re.compile(r"tag_function\s*=\s*oldest_tag\(\)")


def list_tasks(call: Call) -> Message:
    """ListTasks: a page of tasks, leased or not, in order of schedule time."""
    response = call.message("ListTasksResponse")
    size, start = messages.parse_page(call.request, _POSITION, most=_MAX_LISTED)
    after = (int(start[1]), int(start[2])) if start else None
    found = call.queue.list_tasks(size + 1, after=after)
    tasks = found[:size]
    if call.request.response_view == messages.FULL:
        tasks = fitting(tasks, call.emulator.limits.lease_payload_bytes)
    write_tasks(call, tasks, response.tasks.add)
    if len(tasks) < len(found):
        last = tasks[-1]
        response.next_page_token = messages.encode_page_token(f"{last.eta_usec} {last.sequence}")
    return response


def get_task(call: Call) -> Message:
    """GetTask: one task, without a lease."""
    return _task_message(call.queue.get_task(call.name.task), call)


def create_task(call: Call) -> Message:
    """CreateTask: add a task."""
    if not call.request.HasField("task"):
        raise invalid_field("task", "is missing: send the task to add")
    return _task_message(_insert(call, call.request.task), call)


def buffer_task(call: Call) -> Message:
    """BufferTask: add an HTTP task for the URL that its queue has for all of them."""
    queue, request = call.queue, call.request
    target = queue.settings.http_target
    if target is None or target.host is None:
        raise CloudTasksError(
            f'queue "{queue.name}" has no URL for its tasks: set http_target.uri_override.host, by '
            "CreateQueue or UpdateQueue",
            rpc_code="FAILED_PRECONDITION",
        )
    task = call.message("Task")
    if request.task_id:
        task.name = f"{call.name}/tasks/{request.task_id}"
    sent = task.http_request
    sent.url = override_url(f"{target.scheme or 'https'}://{target.host}", target)
    messages.write_method(sent, call.method.verb)
    if request.body.data and call.method.verb in METHODS_WITH_BODY:
        sent.body = request.body.data
        sent.headers["Content-Type"] = request.body.content_type or _DEFAULT_CONTENT_TYPE
    response = call.message("BufferTaskResponse")
    write_tasks(call, [_insert(call, task)], lambda: response.task)
    return response


def delete_task(call: Call) -> Message:
    """DeleteTask: delete a task, leased, attempted or not."""
    if call.queue.delete_tasks(call.name.task)[0] is not DeleteResult.DELETED:
        raise unknown_task(call.name.queue, call.name.task)
    return messages.Empty()


def lease_tasks(call: Call) -> Message:
    """LeaseTasks: lease the first available tasks, of one tag where a filter is given."""
    request = call.request
    limits = call.emulator.limits
    full = request.response_view == messages.FULL
    by_tag, tag = _tag_filter(request.filter)
    lease = verbs.lease(
        call.queue,
        _lease_seconds(call),
        request.max_tasks or 1,
        group_by_tag=by_tag,
        tag=tag,
        # Without payloads a response stays small, whatever is leased.
        payload_bytes=None if full else limits.tasks_per_lease * limits.task_bytes,
    )
    if lease.rate_limited:
        raise CloudTasksError(
            f"more than {limits.leases_per_second} LeaseTasks calls in a second on queue "
            f'"{call.name.queue}": lease more tasks at a time, or wait',
            rpc_code="RESOURCE_EXHAUSTED",
        )
    response = call.message("LeaseTasksResponse")
    write_tasks(call, lease.tasks, response.tasks.add)
    return response


def acknowledge_task(call: Call) -> Message:
    """AcknowledgeTask: delete a task whose lease the caller holds."""
    verbs.acknowledge(call.queue, call.name.task, expected_eta_usec=_lease_end_usec(call))
    return messages.Empty()


def renew_lease(call: Call) -> Message:
    """RenewLease: change the end of the caller's lease."""
    return _modify(call, _lease_seconds(call))


def cancel_lease(call: Call) -> Message:
    """CancelLease: release the task, which is then available at once."""
    return _modify(call, 0)


def run_task(call: Call) -> Message:
    """RunTask: send a push task now; make it due where a test sends them, by `run_tasks`."""
    queue, name = call.queue, call.name.task
    task = queue.get_task(name)
    if not queue.is_push:
        raise invalid_field("name", f'is "{name}", a pull task: lease it instead')
    if call.state.delivery is None:
        make_due(queue, task)
    else:
        try:
            call.state.run_now(task)
        except InvalidTaskError as error:
            raise CloudTasksError(str(error), rpc_code="FAILED_PRECONDITION") from None
    with suppress(TaskError):  # the attempt may have ended already
        task = queue.get_task(name)
    return _task_message(task, call)


def _insert(call: Call, task: Message) -> Task:
    [result] = insert_tasks(call.queue, [read_new_task(call, call.queue, task)])
    if isinstance(result, CloudTasksError):
        raise result
    return result


def _modify(call: Call, lease_seconds: int) -> Message:
    task = verbs.modify_lease(
        call.queue, call.name.task, lease_seconds, expected_eta_usec=_lease_end_usec(call)
    )
    return _task_message(task, call)


def _lease_end_usec(call: Call) -> int:
    if not call.request.HasField("schedule_time"):
        raise invalid_field(
            "schedule_time",
            "is missing: use that of the lease, as LeaseTasks or RenewLease returned it",
        )
    return read_time_usec(call.request, "schedule_time")


def _lease_seconds(call: Call) -> int:
    request, field = call.request, "lease_duration"
    if not request.HasField(field):
        raise invalid_field(field, 'is missing: use one such as "60s"')
    return messages.read_seconds(
        request.lease_duration, field, most=call.emulator.limits.lease_seconds
    )


def _tag_filter(text: str) -> tuple[bool, str | None]:
    """Return whether to lease by tag, and the tag; None is that of the oldest task."""
    stripped = text.strip()
    if not stripped:
        return False, None
    if _OLDEST_TAG.fullmatch(stripped):
        return True, None
    match = _TAG.fullmatch(stripped)
    if match is None:
        raise invalid_field(
            "filter", f'is "{text:.200}": use tag=TAG, tag="TAG" or tag_function=oldest_tag()'
        )
    if match["plain"] is not None:
        if _CALL.fullmatch(match["plain"]):
            raise invalid_field(
                "filter",
                f'is "{text:.200}", which looks like a function: use tag_function=oldest_tag(), or '
                f'tag="{match["plain"]:.100}" for a tag of that name',
            )
        return True, match["plain"]
    return True, re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)


def _task_message(task: Task, call: Call) -> Message:
    message = call.message("Task")
    write_tasks(call, [task], lambda: message)
    return message
