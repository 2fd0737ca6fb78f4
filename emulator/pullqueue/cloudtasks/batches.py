"""The methods on several tasks at once: each task succeeds or fails on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from google.rpc import code_pb2

from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import CloudTasksError, as_service_error, invalid_field
from pullqueue.cloudtasks.messages import Empty, Message, build_status, check_range, write_time
from pullqueue.cloudtasks.methods import TASK
from pullqueue.cloudtasks.task_messages import insert_tasks, read_new_task, write_tasks
from pullqueue.engine.queue import Queue
from pullqueue.engine.task_errors import unknown_task
from pullqueue.errors import DuplicateTaskNameError, InvalidTaskError, OverQuotaError
from pullqueue.tasks import DeleteResult, NewTask, Task

_Results = dict[int, Task | CloudTasksError]
"""What became of each task, by its place in the request."""


def batch_create_tasks(call: Call) -> Message:
    """BatchCreateTasks: add up to 100 tasks; the operation is done when it is returned."""
    queue, requests = call.queue, call.request.requests
    check_range(len(requests), 1, call.emulator.limits.tasks_per_add, "requests", " tasks")
    started_usec = queue.now_usec()
    results: _Results = {}
    new: dict[int, NewTask] = {}
    for index, request in enumerate(requests):
        try:
            if request.parent not in ("", call.request.parent):
                raise invalid_field(
                    "requests.parent",
                    f'is "{request.parent:.200}": it must be the parent of the batch, '
                    f'"{call.request.parent:.200}"',
                )
            new[index] = read_new_task(call, queue, request.task)
        except CloudTasksError as error:
            results[index] = error
    results |= _insert(queue, new)
    response = call.message("BatchCreateTasksResponse")
    for index, result in sorted(results.items()):
        if isinstance(result, Task):
            write_tasks(replace(call, request=requests[index]), [result], response.tasks.add)
    failures = {i: each for i, each in results.items() if isinstance(each, CloudTasksError)}
    return _operation(call, response, failures, len(requests), started_usec)


def batch_delete_tasks(call: Call) -> Message:
    """BatchDeleteTasks: delete up to 1000 tasks; the operation is done when it is returned."""
    queue, names = call.queue, call.request.names
    most = call.emulator.limits.tasks_per_batch_delete
    check_range(len(names), 1, most, "names", " tasks")
    started_usec = queue.now_usec()
    failures: dict[int, CloudTasksError] = {}
    ids: dict[int, str] = {}
    for index, name in enumerate(names):
        try:
            ids[index] = ResourceName.parse(name, TASK, field="names", parent=call.name).task
        except CloudTasksError as error:
            failures[index] = error
    deleted = queue.delete_tasks(list(ids.values()))
    for (index, name), result in zip(ids.items(), deleted, strict=True):
        if result is not DeleteResult.DELETED:
            failures[index] = as_service_error(unknown_task(queue.name, name))
    return _operation(call, Empty(), failures, len(names), started_usec)


def _insert(queue: Queue, new: Mapping[int, NewTask]) -> _Results:
    """Add tasks at once; one after the other if some of them cannot be added."""
    try:
        results = insert_tasks(queue, list(new.values()))
    except (InvalidTaskError, DuplicateTaskNameError, OverQuotaError) as error:
        if len(new) == 1:
            return dict.fromkeys(new, as_service_error(error))
        alone = [_insert(queue, {index: task}) for index, task in new.items()]
        return {index: result for each in alone for index, result in each.items()}
    return dict(zip(new, results, strict=True))


def _operation(
    call: Call,
    response: Message,
    failures: Mapping[int, CloudTasksError],
    count: int,
    started_usec: int,
) -> Message:
    name = call.method.name
    metadata = call.message(f"{name}Metadata")
    write_time(metadata.start_time, started_usec)
    write_time(metadata.end_time, call.queue.now_usec())
    metadata.state = metadata.PARTIALLY_SUCCEEDED if failures else metadata.SUCCEEDED
    for index, error in failures.items():
        metadata.failed_requests[index].CopyFrom(build_status(error))
    location = call.name._replace(queue="")
    operation = call.message("Operation", name=f"{location}/operations/{uuid4()}", done=True)
    operation.metadata.Pack(metadata)
    if len(failures) == count:
        operation.error.code = code_pb2.ABORTED
        operation.error.message = (
            f"None of the requests succeeded, refer to {name}Metadata.failed_requests for "
            "individual error details"
        )
    else:
        operation.response.Pack(response)
    return operation
