"""The operations on queues and tasks."""

from __future__ import annotations

from typing import Final

from pullqueue.control import queues, schemas
from pullqueue.control.operations import LIMIT, Operation, Parameter
from pullqueue.control.schemas import (
    DELETED,
    STATES,
    TASK,
    TASKS,
    TEXT,
    TRUTH,
    component,
    listed,
    record,
)

_QUEUE = "/queues/{queue}"
_TASK = f"{_QUEUE}/tasks/{{task}}"

QUEUES: Final = (
    Operation(
        id="listQueues",
        verb="GET",
        path="/queues",
        summary="List all queues with their numbers and settings",
        handle=queues.list_queues,
        answer=schemas.QUEUES,
    ),
    Operation(
        id="getQueue",
        verb="GET",
        path=_QUEUE,
        summary="Give one queue",
        handle=queues.get_queue,
        answer=record(queue=component("Queue")),
    ),
    Operation(
        id="purgeQueue",
        verb="POST",
        path=f"{_QUEUE}/purge",
        summary="Delete all tasks of a queue",
        handle=queues.purge_queue,
        answer=DELETED,
    ),
    Operation(
        id="listTasks",
        verb="GET",
        path=f"{_QUEUE}/tasks",
        summary="List tasks in order of eta and arrival, without leasing them",
        handle=queues.list_tasks,
        parameters=(
            LIMIT,
            Parameter(
                name="state", description="Only these.", schema={"type": "string", "enum": STATES}
            ),
            Parameter(name="tag", description="Only those with this tag.", schema=TEXT),
            Parameter(
                name="search",
                description="Only those with this in name or payload, whatever the case.",
                schema=TEXT,
            ),
            Parameter(name="after", description="`next` of the page before.", schema=TEXT),
            Parameter(
                name="payload",
                description="How much of each payload: its first 256 bytes, or all.",
                schema={"type": "string", "enum": ["preview", "full"], "default": "preview"},
            ),
        ),
        answer=TASKS,
    ),
    Operation(
        id="addTasks",
        verb="POST",
        path=f"{_QUEUE}/tasks",
        summary="Add up to 100 tasks; taken names are told in `refused`, the others are added",
        handle=queues.add_tasks,
        body=schemas.ADD,
        answer=record(
            tasks=listed(component("Task")),
            refused={"type": "object", "additionalProperties": TEXT},
        ),
    ),
    Operation(
        id="leaseTasks",
        verb="POST",
        path=f"{_QUEUE}/lease",
        summary="Lease the first available tasks",
        handle=queues.lease_tasks,
        body=schemas.LEASE,
        answer=record(tasks=listed(component("Task")), rate_limited=TRUTH),
    ),
    Operation(
        id="deleteTasks",
        verb="POST",
        path=f"{_QUEUE}/delete",
        summary="Delete tasks by name, leased or not",
        handle=queues.delete_tasks,
        body=schemas.NAMES,
        answer=record(results=listed(record(task=TEXT, result=TEXT))),
    ),
    Operation(
        id="getTask",
        verb="GET",
        path=_TASK,
        summary="Give one task with its payload",
        handle=queues.get_task,
        answer=TASK,
    ),
    Operation(
        id="deleteTask",
        verb="DELETE",
        path=_TASK,
        summary="Delete one task, leased or not",
        handle=queues.delete_task,
        answer=DELETED,
    ),
    Operation(
        id="changeLease",
        verb="POST",
        path=f"{_TASK}/lease",
        summary="Let the current lease of a task end at another moment, or now",
        handle=queues.change_lease,
        body=schemas.CHANGE_LEASE,
        answer=TASK,
    ),
)
"""The operations on queues and tasks."""
