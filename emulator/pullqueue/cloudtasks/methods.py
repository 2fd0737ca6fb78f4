"""The methods of the service: one table for both transports.

Paths and bodies are those of Google's HTTP annotations of the service (`transports/rest_base.py` in
`google-cloud-tasks`); permissions are named as in Google's documentation of Cloud Tasks' roles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

NAME: Final = "cloudtasks"
VERSION: Final = "v2beta2"
TITLE: Final = "Cloud Tasks API"
DESCRIPTION: Final = "App Engine's pull queues under the API of Cloud Tasks."
SERVICE: Final = "google.cloud.tasks.v2beta2.CloudTasks"
LOCATIONS_SERVICE: Final = "google.cloud.location.Locations"

_PROJECT = "projects/<project>"
_LOCATION = f"{_PROJECT}/locations/<location>"
_QUEUE = f"{_LOCATION}/queues/<queue>"
_TASK = f"{_QUEUE}/tasks/<task>"
_CAPITAL = re.compile(r"(?<!^)([A-Z])")


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
    """The message that is returned."""
    permission: str = ""
    """What callers need on the queue where access is restricted; empty: to be authenticated."""
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
    def depth(self) -> int:
        """How many parts the resource's name has: 1 for a project, 4 for a task."""
        return self.resource.count("<")

    @property
    def function(self) -> str:
        """The name of the function that carries it out: `lease_tasks`."""
        return _CAPITAL.sub(r"_\1", self.name).lower()


METHODS: Final = (
    Method("ListQueues", "GET", "parent", _LOCATION, "/queues", "", "ListQueuesResponse"),
    Method("GetQueue", "GET", "name", _QUEUE, "", "", "Queue", "queues.get"),
    Method("CreateQueue", "POST", "parent", _LOCATION, "/queues", "queue", "Queue"),
    Method("UpdateQueue", "PATCH", "queue.name", _QUEUE, "", "queue", "Queue"),
    Method("DeleteQueue", "DELETE", "name", _QUEUE, "", "", "Empty", "queues.delete"),
    Method("PurgeQueue", "POST", "name", _QUEUE, ":purge", "*", "Queue", "queues.purge"),
    Method("PauseQueue", "POST", "name", _QUEUE, ":pause", "*", "Queue", "queues.pause"),
    Method("ResumeQueue", "POST", "name", _QUEUE, ":resume", "*", "Queue", "queues.resume"),
    Method(
        *("GetIamPolicy", "POST", "resource", _QUEUE, ":getIamPolicy", "*", "Policy"),
        permission="queues.getIamPolicy",
    ),
    Method("SetIamPolicy", "POST", "resource", _QUEUE, ":setIamPolicy", "*", "Policy"),
    Method(
        *("TestIamPermissions", "POST", "resource", _QUEUE, ":testIamPermissions", "*"),
        "TestIamPermissionsResponse",
    ),
    Method("UploadQueueYaml", "POST", "app_id", "", "api/queue/update", "http_body"),
    Method("ListTasks", "GET", "parent", _QUEUE, "/tasks", "", "ListTasksResponse", "tasks.list"),
    Method("GetTask", "GET", "name", _TASK, "", "", "Task", "tasks.get"),
    Method("CreateTask", "POST", "parent", _QUEUE, "/tasks", "*", "Task", "tasks.create"),
    Method("DeleteTask", "DELETE", "name", _TASK, "", "", "Empty", "tasks.delete"),
    Method(
        *("LeaseTasks", "POST", "parent", _QUEUE, "/tasks:lease", "*", "LeaseTasksResponse"),
        permission="tasks.lease",
    ),
    Method(
        *("AcknowledgeTask", "POST", "name", _TASK, ":acknowledge", "*", "Empty"),
        permission="tasks.acknowledge",
    ),
    Method("RenewLease", "POST", "name", _TASK, ":renewLease", "*", "Task", "tasks.renewLease"),
    Method("CancelLease", "POST", "name", _TASK, ":cancelLease", "*", "Task", "tasks.cancelLease"),
    Method("RunTask", "POST", "name", _TASK, ":run", "*", "Task", "tasks.run"),
    Method(
        *("ListLocations", "GET", "name", _PROJECT, "/locations", "", "ListLocationsResponse"),
        service=LOCATIONS_SERVICE,
    ),
    Method("GetLocation", "GET", "name", _LOCATION, "", "", "Location", service=LOCATIONS_SERVICE),
)
"""Whoever is authenticated can call the methods without a permission: no acl is about them."""

UNIMPLEMENTED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "getCmekConfig": ("GET", f"{_LOCATION}/cmekConfig"),
        "updateCmekConfig": ("PATCH", f"{_LOCATION}/cmekConfig"),
        "batchCreate": ("POST", f"{_QUEUE}/tasks:batchCreate"),
        "batchDelete": ("POST", f"{_QUEUE}/tasks:batchDelete"),
        "buffer": ("POST", f"{_TASK}:buffer"),
    }
)
"""Methods of Google's newest discovery document that are in no client library."""
