"""The methods of the service: one table for both transports.

Paths and bodies are those of Google's HTTP annotations of the service (`transports/rest_base.py` in
`google-cloud-tasks`); permissions are named as in Google's documentation of Cloud Tasks' roles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pullqueue.cloudtasks.messages import Message

NAME: Final = "cloudtasks"
VERSION: Final = "v2beta2"
SERVICE: Final = "google.cloud.tasks.v2beta2.CloudTasks"
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
    permission: str = ""
    """What callers need on the queue where access is restricted; empty: to be authenticated.

    Where the request names no queue they need it on each queue that the call changes.
    """
    creates: bool = False
    """Whether a queue that does not exist is created, for which no permission is needed."""
    service: str = SERVICE

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

    def resource_of(self, request: Message) -> str:
        """Return the name of the resource in a request."""
        return str(reduce(getattr, self.field.split("."), request))

    @property
    def function(self) -> str:
        """The name of the function that carries it out: `lease_tasks`."""
        return _CAPITAL.sub(r"_\1", self.name).lower()


METHODS: Final = (
    Method("ListQueues", "GET", "parent", LOCATION, "/queues"),
    Method("GetQueue", "GET", "name", QUEUE, "", "", "queues.get"),
    Method("CreateQueue", "POST", "parent", LOCATION, "/queues", "queue"),
    Method("UpdateQueue", "PATCH", "queue.name", QUEUE, "", "queue", "queues.update", creates=True),
    Method("DeleteQueue", "DELETE", "name", QUEUE, "", "", "queues.delete"),
    Method("PurgeQueue", "POST", "name", QUEUE, ":purge", "*", "queues.purge"),
    Method("PauseQueue", "POST", "name", QUEUE, ":pause", "*", "queues.pause"),
    Method("ResumeQueue", "POST", "name", QUEUE, ":resume", "*", "queues.resume"),
    Method("GetIamPolicy", "POST", "resource", QUEUE, ":getIamPolicy", "*", "queues.getIamPolicy"),
    Method("SetIamPolicy", "POST", "resource", QUEUE, ":setIamPolicy", "*", "queues.setIamPolicy"),
    Method("TestIamPermissions", "POST", "resource", QUEUE, ":testIamPermissions", "*"),
    Method(
        "UploadQueueYaml", "POST", "app_id", "", "api/queue/update", "http_body", "queues.update"
    ),
    Method("ListTasks", "GET", "parent", QUEUE, "/tasks", "", "tasks.list"),
    Method("GetTask", "GET", "name", TASK, "", "", "tasks.get"),
    Method("CreateTask", "POST", "parent", QUEUE, "/tasks", "*", "tasks.create"),
    Method("DeleteTask", "DELETE", "name", TASK, "", "", "tasks.delete"),
    Method("LeaseTasks", "POST", "parent", QUEUE, "/tasks:lease", "*", "tasks.lease"),
    Method("AcknowledgeTask", "POST", "name", TASK, ":acknowledge", "*", "tasks.acknowledge"),
    Method("RenewLease", "POST", "name", TASK, ":renewLease", "*", "tasks.renewLease"),
    Method("CancelLease", "POST", "name", TASK, ":cancelLease", "*", "tasks.cancelLease"),
    Method("RunTask", "POST", "name", TASK, ":run", "*", "tasks.run"),
    Method("ListLocations", "GET", "name", PROJECT, "/locations", service=LOCATIONS_SERVICE),
    Method("GetLocation", "GET", "name", LOCATION, service=LOCATIONS_SERVICE),
)
"""Whoever is authenticated can call the methods without a permission: no acl is about them.

Who creates a queue is its `user_email`; so CreateQueue grants no rights on an existing one.
"""

UNIMPLEMENTED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "getCmekConfig": ("GET", f"{LOCATION}/cmekConfig"),
        "updateCmekConfig": ("PATCH", f"{LOCATION}/cmekConfig"),
        "batchCreate": ("POST", f"{QUEUE}/tasks:batchCreate"),
        "batchDelete": ("POST", f"{QUEUE}/tasks:batchDelete"),
        "buffer": ("POST", f"{TASK}:buffer"),
    }
)
"""Methods of Google's newest discovery document that are in no client library."""
