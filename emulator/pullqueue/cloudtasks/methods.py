"""The methods of the service: one table for both transports and all versions.

Paths and bodies are those of Google's HTTP annotations of the service (`transports/rest_base.py` in
`google-cloud-tasks`); permissions are named as in Google's documentation of Cloud Tasks' roles.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pullqueue.cloudtasks.messages import Message

NAME: Final = "cloudtasks"
BUFFER_TASK: Final = "BufferTask"
LOCATIONS_SERVICE: Final = "google.cloud.location.Locations"

PROJECT = "projects/<project>"
LOCATION = f"{PROJECT}/locations/<location>"
QUEUE = f"{LOCATION}/queues/<queue>"
TASK = f"{QUEUE}/tasks/<task>"
_CAPITAL = re.compile(r"(?<!^)([A-Z])")
_COLLECTION = re.compile("(?<=[a-z])(Queue|Task|Location)s?$")


class Method(NamedTuple):
    """One method of the service."""

    name: str
    """As in the service's definition, such as `LeaseTasks`."""
    verb: str
    """The HTTP verb."""
    field: str
    """The field of the request that names the resource, such as `parent`."""
    resource: str
    """The pattern of that name, as Flask's routes write it; empty: the field is a project."""
    suffix: str = ""
    """What follows the resource in the path, such as `/tasks:lease`."""
    body: str = ""
    """What the HTTP body holds: `*` for the whole request, a field of it, or nothing."""
    response: str = "Empty"
    """The name of the response's message."""
    permission: str = ""
    """What callers need on the queue where access is restricted; empty: to be authenticated.

    Where the request names no queue they need it on each queue that the call changes.
    """
    creates: bool = False
    """True if a queue that does not exist is created, for which no permission is needed."""
    mixin: str = ""
    """The service that defines it; empty: Cloud Tasks itself."""
    version: str = ""
    """The version of the API that it is a method of."""
    any_mode: bool = False
    """True if it is for pull queues, too, in a version that does not show them."""

    @property
    def service(self) -> str:
        """The full name of its service over gRPC."""
        return self.mixin or f"google.cloud.tasks.{self.version}.CloudTasks"

    @property
    def request(self) -> str:
        """The name of the request's message."""
        return f"{self.name}Request"

    @property
    def path(self) -> str:
        """The path below the API's version, as Flask's routes write it."""
        return f"{self.resource}{self.suffix}"

    @property
    def method_id(self) -> str:
        """Its name in Google's documentation: `projects.locations.queues.tasks.lease`."""
        # `ListTasks` of a queue is a method of its tasks: the collection is in the suffix.
        path = f"{self.resource}{self.suffix.partition(':')[0]}"
        parts = re.findall("(?<![<a-z])[a-z]+(?![a-z>])", path)
        if self.resource:
            name = "patch" if self.verb == "PATCH" else _COLLECTION.sub("", self.name)
            parts.append(f"{name[0].lower()}{name[1:]}")
        return ".".join(parts)

    def read_resource(self, request: Message) -> str:
        """Return the name of the resource in a request."""
        return str(reduce(getattr, self.field.split("."), request))

    def read_queue(self, request: Message) -> tuple[str, str]:
        """Return the location and the id of the queue that a request is about, or empty texts."""
        path = request.queue.name if self.name == "CreateQueue" else self.read_resource(request)
        _, _, _, location, _, queue, *_ = f"{path}/////".split("/")
        return location, queue

    @property
    def function(self) -> str:
        """The name of the function that carries it out: `lease_tasks`."""
        return _CAPITAL.sub(r"_\1", self.name).lower()


_SHARED = (
    Method("ListQueues", "GET", "parent", LOCATION, "/queues", response="ListQueuesResponse"),
    Method("GetQueue", "GET", "name", QUEUE, response="Queue", permission="queues.get"),
    Method("CreateQueue", "POST", "parent", LOCATION, "/queues", "queue", "Queue"),
    Method(
        name="UpdateQueue",
        verb="PATCH",
        field="queue.name",
        resource=QUEUE,
        body="queue",
        response="Queue",
        permission="queues.update",
        creates=True,
    ),
    Method("DeleteQueue", "DELETE", "name", QUEUE, permission="queues.delete"),
    Method(
        "PurgeQueue", "POST", "name", QUEUE, ":purge", "*", "Queue", "queues.purge", any_mode=True
    ),
    Method("PauseQueue", "POST", "name", QUEUE, ":pause", "*", "Queue", "queues.pause"),
    Method("ResumeQueue", "POST", "name", QUEUE, ":resume", "*", "Queue", "queues.resume"),
    Method(
        name="GetIamPolicy",
        verb="POST",
        field="resource",
        resource=QUEUE,
        suffix=":getIamPolicy",
        body="*",
        response="Policy",
        permission="queues.getIamPolicy",
    ),
    Method(
        name="SetIamPolicy",
        verb="POST",
        field="resource",
        resource=QUEUE,
        suffix=":setIamPolicy",
        body="*",
        response="Policy",
        permission="queues.setIamPolicy",
    ),
    Method(
        name="TestIamPermissions",
        verb="POST",
        field="resource",
        resource=QUEUE,
        suffix=":testIamPermissions",
        body="*",
        response="TestIamPermissionsResponse",
    ),
    Method(
        name="ListTasks",
        verb="GET",
        field="parent",
        resource=QUEUE,
        suffix="/tasks",
        response="ListTasksResponse",
        permission="tasks.list",
    ),
    Method("GetTask", "GET", "name", TASK, response="Task", permission="tasks.get"),
    Method("CreateTask", "POST", "parent", QUEUE, "/tasks", "*", "Task", "tasks.create"),
    Method("DeleteTask", "DELETE", "name", TASK, permission="tasks.delete"),
    Method(
        name=BUFFER_TASK,
        verb="POST",
        field="queue",
        resource=QUEUE,
        suffix="/tasks/<task_id>:buffer",
        body="*",
        response="BufferTaskResponse",
        permission="tasks.create",
    ),
    Method("RunTask", "POST", "name", TASK, ":run", "*", "Task", "tasks.run"),
    Method(
        name="ListLocations",
        verb="GET",
        field="name",
        resource=PROJECT,
        suffix="/locations",
        response="ListLocationsResponse",
        mixin=LOCATIONS_SERVICE,
    ),
    Method("GetLocation", "GET", "name", LOCATION, response="Location", mixin=LOCATIONS_SERVICE),
)
"""Whoever is authenticated can call those without a permission: no acl is about them.

Who creates a queue is its `user_email`; so CreateQueue grants no rights on an existing one.
"""
_V2BETA2_ONLY = (
    Method(
        name="UploadQueueYaml",
        verb="POST",
        field="app_id",
        resource="",
        suffix="api/queue/update",
        body="http_body",
        permission="queues.update",
    ),
    Method(
        name="LeaseTasks",
        verb="POST",
        field="parent",
        resource=QUEUE,
        suffix="/tasks:lease",
        body="*",
        response="LeaseTasksResponse",
        permission="tasks.lease",
    ),
    Method(
        "AcknowledgeTask", "POST", "name", TASK, ":acknowledge", "*", permission="tasks.acknowledge"
    ),
    Method("RenewLease", "POST", "name", TASK, ":renewLease", "*", "Task", "tasks.renewLease"),
    Method("CancelLease", "POST", "name", TASK, ":cancelLease", "*", "Task", "tasks.cancelLease"),
)
_V2_ONLY = (
    Method(
        name="BatchCreateTasks",
        verb="POST",
        field="parent",
        resource=QUEUE,
        suffix="/tasks:batchCreate",
        body="*",
        response="Operation",
        permission="tasks.create",
    ),
    Method(
        name="BatchDeleteTasks",
        verb="POST",
        field="parent",
        resource=QUEUE,
        suffix="/tasks:batchDelete",
        body="*",
        response="Operation",
        permission="tasks.delete",
        any_mode=True,
    ),
)
"""App Engine's SDK deletes pull tasks with BatchDeleteTasks, and purges their queues."""


def _methods(version: str, *methods: Method) -> tuple[Method, ...]:
    return tuple(method._replace(version=version) for method in methods)


V2BETA2_METHODS: Final = _methods("v2beta2", *_SHARED, *_V2BETA2_ONLY)
V2_METHODS: Final = _methods("v2", *_SHARED, *_V2_ONLY)
V2BETA3_METHODS: Final = _methods("v2beta3", *_SHARED, *_V2_ONLY)
