"""The surface of the API: which verb and path lead to which method, in each version."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pullqueue.api import handlers
from pullqueue.api.auth import Right
from pullqueue.api.handlers import Call, Reply

_QUEUE = "<project>/taskqueues/<taskqueue>"
_TASKS = f"{_QUEUE}/tasks"
_TASK = f"{_TASKS}/<task>"
TASK_PATH = re.compile(
    r"(?P<tasks>/taskqueue/[^/]+/projects/[^/]+/taskqueues/[^/]+/tasks/)"
    r"(?!lease\Z)(?P<name>[A-Za-z0-9_-]+)",
    re.ASCII,
)
"""A whole path as `_TASK` has it, in any version, but for one that may lease."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One method of the API."""

    id: str
    """Its name in the discovery document, without the API's."""
    verb: str
    path: str
    """Behind `/taskqueue/VERSION/projects/`, as a Flask rule."""
    handle: Callable[[Call], Reply]
    right: Right = Right.USE


_GET_QUEUE = Method(id="taskqueues.get", verb="GET", path=_QUEUE, handle=handlers.get_queue)
_INSERT = Method(
    id="tasks.insert",
    verb="POST",
    path=_TASKS,
    handle=handlers.insert_task,
    right=Right.INSERT,
)
_LIST = Method(id="tasks.list", verb="GET", path=_TASKS, handle=handlers.list_tasks)
_LEASE = Method(id="tasks.lease", verb="POST", path=f"{_TASKS}/lease", handle=handlers.lease_tasks)
_LEASE_UNTAGGED = replace(_LEASE, handle=handlers.lease_tasks_whatever_their_tag)
_GET = Method(id="tasks.get", verb="GET", path=_TASK, handle=handlers.get_task)
_UPDATE = Method(id="tasks.update", verb="POST", path=_TASK, handle=handlers.update_task)
_PATCH = Method(id="tasks.patch", verb="PATCH", path=_TASK, handle=handlers.patch_task)
_DELETE = Method(id="tasks.delete", verb="DELETE", path=_TASK, handle=handlers.delete_task)

METHODS: dict[str, tuple[Method, ...]] = {
    "v1beta1": (_GET_QUEUE, _LIST, _LEASE_UNTAGGED, _GET, _DELETE),
    "v1beta2": (_GET_QUEUE, _INSERT, _LIST, _LEASE, _GET, _UPDATE, _PATCH, _DELETE),
}
"""The methods of each version. `POST .../tasks/lease` leases, even if a task is called lease."""
