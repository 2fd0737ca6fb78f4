"""What the API looks like from outside, in the terms of Google's discovery format.

Clients generate their calls from this, and the emulator its partial responses.
"""

from __future__ import annotations

from typing import Final

from pullqueue.api.answers import Json

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
_PARAMETERS: Json = {
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
_IN_QUEUE = ("project", "taskqueue")
_IN_TASK = (*_IN_QUEUE, "task")
_QUEUE_PATH = "{project}/taskqueues/{taskqueue}"
_TASKS_PATH = f"{_QUEUE_PATH}/tasks"
_TASK_PATH = f"{_TASKS_PATH}/{{task}}"

STANDARD_PARAMETERS: Json = {
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
    """Give the resources of a version."""
    task = dict(_TASK) if version == "v1beta1" else {**_TASK, **_TASK_SINCE_V1BETA2}
    return {
        "Task": _object("Task", task),
        "TaskQueue": _object("TaskQueue", _QUEUE),
        "Tasks": _list("Tasks", "taskqueue#tasks", "The tasks that were leased"),
        "Tasks2": _list("Tasks2", "taskqueues#tasks", "The first tasks of the queue"),
    }


def resources(version: str) -> Json:
    """Give the methods of a version."""
    tagged = () if version == "v1beta1" else ("groupByTag", "tag")
    tasks: Json = {
        "delete": _method("tasks.delete", "DELETE", _TASK_PATH, "Delete a task.", _IN_TASK),
        "get": _method("tasks.get", "GET", _TASK_PATH, "Give one task.", _IN_TASK, answer="Task"),
        "lease": _method(
            "tasks.lease",
            "POST",
            f"{_TASKS_PATH}/lease",
            "Lease the first available tasks.",
            (*_IN_QUEUE, "numTasks", "leaseSecs", *tagged),
            answer="Tasks",
        ),
        "list": _method(
            "tasks.list", "GET", _TASKS_PATH, "Give the first tasks.", _IN_QUEUE, answer="Tasks2"
        ),
    }
    if version != "v1beta1":
        tasks |= _changing_methods()
    queue = _method(
        "taskqueues.get",
        "GET",
        _QUEUE_PATH,
        "Give one queue.",
        (*_IN_QUEUE, "getStats"),
        answer="TaskQueue",
    )
    return {"taskqueues": {"methods": {"get": queue}}, "tasks": {"methods": tasks}}


def _changing_methods() -> Json:
    new_lease = (*_IN_TASK, "newLeaseSeconds")
    return {
        "insert": _method(
            "tasks.insert",
            "POST",
            _TASKS_PATH,
            "Insert a task.",
            _IN_QUEUE,
            body="Task",
            answer="Task",
        ),
        "patch": _method(
            "tasks.patch",
            "PATCH",
            _TASK_PATH,
            "Change the lease of a task; the body needs its queueName alone.",
            new_lease,
            body="Task",
            answer="Task",
        ),
        "update": _method(
            "tasks.update",
            "POST",
            _TASK_PATH,
            "Change the lease that the body holds.",
            new_lease,
            body="Task",
            answer="Task",
        ),
    }


def _method(
    identifier: str,
    verb: str,
    path: str,
    description: str,
    names: tuple[str, ...],
    *,
    body: str | None = None,
    answer: str | None = None,
) -> Json:
    method: Json = {
        "id": f"{NAME}.{identifier}",
        "path": path,
        "httpMethod": verb,
        "description": description,
        "parameters": {name: _PARAMETERS[name] for name in names},
        "parameterOrder": [name for name in names if _PARAMETERS[name].get("required")],
        "scopes": list(SCOPES),
    }
    if body:
        method["request"] = {"$ref": body}
    if answer:
        method["response"] = {"$ref": answer}
    return method
