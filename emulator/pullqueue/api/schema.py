"""The resources and parameters of the API in the terms of Google's discovery format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pullqueue.api.encoding import Json

NAME: Final = "taskqueue"
SCOPES: Final = {
    "https://www.googleapis.com/auth/taskqueue": "Use queues and their tasks in every way",
    "https://www.googleapis.com/auth/taskqueue.consumer": "Lease tasks and finish them",
}

_MICROSECONDS = "microseconds since 1970, UTC"


def _text(description: str, **more: object) -> Json:
    return {"type": "string", "description": description, **more}


def _int64(description: str) -> Json:
    return _text(description, format="int64")


def _int32(description: str, **more: object) -> Json:
    return {"type": "integer", "format": "int32", "description": description, **more}


def _boolean(description: str, **more: object) -> Json:
    return {"type": "boolean", "description": description, **more}


def _emails(description: str) -> Json:
    return {"type": "array", "description": description, "items": {"type": "string"}}


def _object(identifier: str, properties: Json) -> Json:
    return {"id": identifier, "type": "object", "properties": properties}


def _list(identifier: str, kind: str, what: str) -> Json:
    items = {
        "type": "array",
        "description": f"{what}; absent where there is none.",
        "items": {"$ref": "Task"},
    }
    return _object(identifier, {"items": items, "kind": _text("A list of tasks.", default=kind)})


_TASK: Json = {
    "enqueueTimestamp": _int64(f"When the task was inserted, in {_MICROSECONDS}."),
    "id": _text("The task's name, unique in its queue."),
    "kind": _text("A task.", default="taskqueues#task"),
    "leaseTimestamp": _int64(
        f"When the lease ends, in {_MICROSECONDS}; in an insert, when the task may first be leased."
    ),
    "payloadBase64": _text("The work, in URL-safe base64."),
    "queueName": _text("The queue that holds the task."),
}
_TASK_SINCE_V1BETA2: Json = {
    "retry_count": _int32("How often the task has been leased."),
    "tag": _text("The group the task can be leased by."),
}
_QUEUE: Json = {
    "acl": {
        "type": "object",
        "description": "Who may use the queue.",
        "properties": {
            "adminEmails": _emails("Who may change the queue; never set here."),
            "consumerEmails": _emails("Who may do everything but insert."),
            "producerEmails": _emails("Who may insert tasks."),
        },
    },
    "id": _text("The queue's long name."),
    "kind": _text("A queue.", default="taskqueues#taskqueue"),
    "maxLeases": _int32("How often a task can be leased; absent where there is no limit."),
    "stats": {
        "type": "object",
        "description": "The queue's numbers; only with getStats.",
        "properties": {
            "leasedLastHour": _int64("Tasks leased in the last hour."),
            "leasedLastMinute": _int64("Tasks leased in the last minute."),
            "oldestTask": _int64("The first eta of all tasks, in seconds since 1970."),
            "totalTasks": _int32("All tasks, leased ones included."),
        },
    },
}
PARAMETERS: Final[Json] = {
    "project": _text("The application id.", required=True, location="path"),
    "taskqueue": _text("The queue's name.", required=True, location="path"),
    "task": _text("The task's name.", required=True, location="path"),
    "getStats": _boolean("Whether to give the queue's numbers.", location="query"),
    "numTasks": _int32("How many tasks at most.", required=True, location="query"),
    "leaseSecs": _int32("How long the lease lasts, in seconds.", required=True, location="query"),
    "groupByTag": _boolean("Whether all tasks must have one tag.", location="query"),
    "tag": _text(
        "With groupByTag: which tag; if absent, that of the oldest task.", location="query"
    ),
    "newLeaseSeconds": _int32(
        "How long the lease lasts from now, in seconds; 0 ends it.", required=True, location="query"
    ),
}
STANDARD_PARAMETERS: Final[Json] = {
    "alt": _text(
        "The form of the answer.",
        default="json",
        enum=["json"],
        enumDescriptions=["JSON"],
        location="query",
    ),
    "fields": _text("Which fields the answer is to have.", location="query"),
    "key": _text("An API key; not looked at.", location="query"),
    "oauth_token": _text("An access token, if not in a header.", location="query"),
    "prettyPrint": _boolean("Whether the answer is indented.", default="true", location="query"),
    "quotaUser": _text("Whose quota counts; not looked at.", location="query"),
    "userIp": _text("Where a user's call came from; not looked at.", location="query"),
}


def schemas(version: str) -> Json:
    """Return the resources of a version."""
    task = _TASK if version == "v1beta1" else {**_TASK, **_TASK_SINCE_V1BETA2}
    return {
        "Task": _object("Task", task),
        "TaskQueue": _object("TaskQueue", _QUEUE),
        "Tasks": _list("Tasks", "taskqueue#tasks", "The tasks that were leased"),
        "Tasks2": _list("Tasks2", "taskqueues#tasks", "The first tasks of the queue"),
    }


class MethodSchema(NamedTuple):
    """What a method takes and returns."""

    description: str
    query: tuple[str, ...] = ()
    """Its parameters in the query; those of the path are in every route."""
    request: str | None = None
    """The resource in the body."""
    response: str | None = None
    """The resource in the response."""


_NEW_LEASE = ("newLeaseSeconds",)
METHODS: Final[Mapping[str, MethodSchema]] = {
    "taskqueues.get": MethodSchema("Give one queue.", ("getStats",), response="TaskQueue"),
    "tasks.delete": MethodSchema("Delete a task."),
    "tasks.get": MethodSchema("Give one task.", response="Task"),
    "tasks.lease": MethodSchema(
        "Lease the first available tasks.",
        ("numTasks", "leaseSecs", "groupByTag", "tag"),
        response="Tasks",
    ),
    "tasks.list": MethodSchema("Give the first tasks.", response="Tasks2"),
    "tasks.insert": MethodSchema("Insert a task.", (), "Task", "Task"),
    "tasks.patch": MethodSchema(
        "Change the lease of a task; the body needs its queueName alone.",
        _NEW_LEASE,
        "Task",
        "Task",
    ),
    "tasks.update": MethodSchema(
        "Change the lease that the body holds.", _NEW_LEASE, "Task", "Task"
    ),
}
SINCE_V1BETA2: Final = frozenset({"groupByTag", "tag"})
"""Parameters that the older version does not have."""
