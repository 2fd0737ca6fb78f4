"""What production's Cloud Tasks answered, word for word; `docs/conformance.yaml` has the witnesses.

Apps compare these texts, and other people's tests hold them. What the emulator adds is sent beside
them, in the details of an error.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

QUEUE_NOT_FOUND: Final = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to "
    "initialize."
)
QUEUE_EXISTS: Final = "Queue already exists"
QUEUE_DELETED: Final = (
    "The queue cannot be created because a queue with this name existed too recently."
)
QUEUE_NAME: Final = (
    "Queue name must be formatted: "
    '"projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'
)
QUEUE_ID: Final = (
    'Queue ID "{id}" can contain only letters ([A-Za-z]), numbers ([0-9]), or hyphens (-). Queue '
    "ID must be between 1 and 100 characters."
)
LOCATION: Final = (
    "Location '{location}' is not a valid location. Use ListLocations to list valid locations."
)
OTHER_LOCATION: Final = (
    "Location must equal {app} because the App Engine app that is associated with this project is "
    "located in {app}"
)
PERMISSION_DENIED: Final = "Permission denied on resource project {project}."
NOT_FOUND: Final = "Requested entity was not found."
"""For tasks, and where an unknown queue is deleted."""
TASK_GONE: Final = (
    "The task no longer exists, though a task with this name existed recently. The task either "
    "successfully completed or was deleted."
)
TASK_EXISTS: Final = "Requested entity already exists"
TASK_DELETED: Final = (
    "The task cannot be created because a task with this name existed too recently. For more "
    "information about task de-duplication see https://cloud.google.com/tasks/docs/reference/rest/v2/"
    "projects.locations.queues.tasks/create#body.request_body.FIELDS.task."
)
LACKS_PERMISSION: Final = (
    'The principal (user or service account) lacks IAM permission "{permission}" for the resource '
    '"{resource}" (or the resource may not exist).'
)
OTHER_PARENT: Final = "{name} must begin with {parent}."
RPC_DEADLINE: Final = (
    "The request deadline is {time}. The deadline cannot be more than 30s in the future."
)
ROUTING: Final = (
    '"x-goog-request-params" header is either missing or misformatted. "x-goog-request-params" '
    'must contain "{field}={name}"'
)
TASK_NAME: Final = (
    "Task name must be formatted: "
    '"projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>/tasks/<TASK_ID>".'
)
TASK_ID: Final = (
    'Task ID "{id}" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or '
    "underscores (_). Task ID must between 1 and 500 characters."
)
TASK_OF_OTHER_QUEUE: Final = (
    "The queue name from request ('{parent}') must be the same as the queue name in the named task "
    "('{queue}')."
)
TASK_TOO_LARGE: Final = "Task size too large"
TASK_EMPTY: Final = "Task.payload_type is not set."
URL_MISSING: Final = "HttpRequest.url is required."
URL_SCHEME: Final = "HttpTarget.url must start with 'http://' or 'https://'."
AUTHORIZED_SCHEME: Final = (
    "HttpRequest.url must start with 'https://' for request with HttpRequest.authorization_header"
)
DEADLINE: Final = "Task.dispatchDeadline must be between [{least}, {most}]."
TOO_FAR: Final = (
    "The Task.scheduleTime, {time}, is too far in the future. Schedule time must be no more than "
    "{most} in the future."
)
NEGATIVE: Final = "{field} cannot be negative."
TOO_LARGE: Final = "{field} must be less than or equal to {most}."
ATTEMPTS: Final = "RetryConfig.maxAttempts must be greater or equal to -1."
BACKOFF_ORDER: Final = (
    "RetryConfig.minBackoff must be less than or equal to RetryConfig.maxBackoff."
)

_REFERENCE: Final = "https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations"
QUEUE_NAME_HELP: Final = ("Definition of queue name", f"{_REFERENCE}.queues#Queue.FIELDS.name")
TASK_ID_HELP: Final = ("Definition of task ID", f"{_REFERENCE}.queues.tasks#Task.FIELDS.name")
CONSOLE_HELP: Final = ("Google developers console", "https://console.developers.google.com")


def format_span(seconds: int) -> str:
    """Return a duration as production writes it: `30m`, `24h15s`, `720h`."""
    hours, rest = divmod(seconds, 3600)
    parts = {"h": hours, "m": rest // 60, "s": rest % 60}
    return "".join(f"{count}{unit}" for unit, count in parts.items() if count) or "0s"


def format_time(time: datetime) -> str:
    """Return a time as production writes it: in the time zone of its data center in California."""
    # Where the system has no time zones, they are those of tzdata, which the extra has.
    text = time.astimezone(ZoneInfo("America/Los_Angeles")).isoformat()
    return re.sub(r"(\.\d*?)0+(?=[+-])", r"\1", text)  # recorded: `41.69`
