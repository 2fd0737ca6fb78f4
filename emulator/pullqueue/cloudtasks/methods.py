"""The methods of the service: one row each, for both transports and all versions.

To add one, add its row, and a function of its name to the module of its subject. Paths and bodies
are those of Google's HTTP annotations of the service (`transports/rest_base.py` in
`google-cloud-tasks`); permissions are named as in Google's documentation of Cloud Tasks' roles.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pullqueue.text import to_snake_case

if TYPE_CHECKING:
    from pullqueue.cloudtasks.messages import Message

NAME: Final = "cloudtasks"
BUFFER_TASK: Final = "BufferTask"
LOCATIONS_SERVICE: Final = "google.cloud.location.Locations"

PROJECT = "projects/<project>"
LOCATION = f"{PROJECT}/locations/<location>"
QUEUE = f"{LOCATION}/queues/<queue>"
TASK = f"{QUEUE}/tasks/<task>"
_COLLECTION = re.compile("(?<=[a-z])(Queue|Task|Location)s?$")


class Method(NamedTuple):
    """One method of the service."""

    name: str
    """As in the service's definition, such as `LeaseTasks`."""
    verb: str
    field: str
    """The field of the request that names the resource, such as `parent`."""
    resource: str
    """The pattern of that name, as Flask's routes write it; empty: the field is a project."""
    suffix: str
    """What follows the resource in the path, such as `/tasks:lease`."""
    body: str
    """What the HTTP body holds: `*` for the whole request, a field of it, or nothing."""
    response: str
    """The name of the response's message."""
    permission: str
    """What callers need on the queue where access is restricted; empty: to be authenticated.

    Where the request names no queue they need it on each queue that the call changes.
    """
    creates: bool
    """True if a queue that does not exist is created, for which no permission is needed."""
    mixin: str
    """The service that defines it; empty: Cloud Tasks itself."""
    version: str
    """The version of the API that it is a method of."""
    any_mode: bool
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
        return to_snake_case(self.name).removeprefix("_")


# Name, HTTP verb, path with the field that names the resource, body, response (`*`: a message of
# that name), permission; then the versions, unless all have it, and what it is besides.
_TABLE: Final = """
ListQueues         GET    {parent=LOCATION}/queues          - * -
GetQueue           GET    {name=QUEUE}                      - Queue queues.get
CreateQueue        POST   {parent=LOCATION}/queues          queue Queue -
UpdateQueue        PATCH  {queue.name=QUEUE}                queue Queue queues.update creates
DeleteQueue        DELETE {name=QUEUE}                      - Empty queues.delete
PurgeQueue         POST   {name=QUEUE}:purge                * Queue queues.purge pull
PauseQueue         POST   {name=QUEUE}:pause                * Queue queues.pause
ResumeQueue        POST   {name=QUEUE}:resume               * Queue queues.resume
GetIamPolicy       POST   {resource=QUEUE}:getIamPolicy     * Policy queues.getIamPolicy
SetIamPolicy       POST   {resource=QUEUE}:setIamPolicy     * Policy queues.setIamPolicy
TestIamPermissions POST   {resource=QUEUE}:testIamPermissions * * -
ListTasks          GET    {parent=QUEUE}/tasks              - * tasks.list
GetTask            GET    {name=TASK}                       - Task tasks.get
CreateTask         POST   {parent=QUEUE}/tasks              * Task tasks.create
DeleteTask         DELETE {name=TASK}                       - Empty tasks.delete
BufferTask         POST   {queue=QUEUE}/tasks/<task_id>:buffer * * tasks.create
RunTask            POST   {name=TASK}:run                   * Task tasks.run
ListLocations      GET    {name=PROJECT}/locations          - * - locations
GetLocation        GET    {name=LOCATION}                   - Location - locations
BatchCreateTasks   POST   {parent=QUEUE}/tasks:batchCreate  * Operation tasks.create -v2beta2
BatchDeleteTasks   POST   {parent=QUEUE}/tasks:batchDelete  * Operation tasks.delete -v2beta2 pull
UploadQueueYaml    POST   {app_id=}api/queue/update         http_body Empty queues.update v2beta2
LeaseTasks         POST   {parent=QUEUE}/tasks:lease        * * tasks.lease v2beta2
AcknowledgeTask    POST   {name=TASK}:acknowledge           * Empty tasks.acknowledge v2beta2
RenewLease         POST   {name=TASK}:renewLease            * Task tasks.renewLease v2beta2
CancelLease        POST   {name=TASK}:cancelLease           * Task tasks.cancelLease v2beta2
"""
"""CreateQueue has no permission: who creates a queue is its `user_email`, and gets no rights on one
that exists. `creates`: UpdateQueue creates a queue that does not exist. `pull`: App Engine's SDK
purges pull queues and deletes their tasks by v2. `locations`: of the service of locations.
"""
_RESOURCES = {"PROJECT": PROJECT, "LOCATION": LOCATION, "QUEUE": QUEUE, "TASK": TASK, "": ""}


def _read_row(version: str, row: str) -> Method | None:
    """Return the method of a row; None: the version does not have it."""
    name, verb, path, body, response, permission, *words = row.split()
    if f"-{version}" in words or ("v2beta2" in words and version != "v2beta2"):
        return None
    field, _, rest = path.removeprefix("{").partition("=")
    kind, _, suffix = rest.partition("}")
    return Method(
        name=name,
        verb=verb,
        field=field,
        resource=_RESOURCES[kind],
        suffix=suffix,
        body="" if body == "-" else body,
        response=f"{name}Response" if response == "*" else response,
        permission="" if permission == "-" else permission,
        creates="creates" in words,
        mixin=LOCATIONS_SERVICE if "locations" in words else "",
        version=version,
        any_mode="pull" in words,
    )


def find_methods(version: str) -> tuple[Method, ...]:
    """Return the methods of a version, such as `v2`."""
    rows = _TABLE.strip().splitlines()
    return tuple(method for row in rows if (method := _read_row(version, row)) is not None)
