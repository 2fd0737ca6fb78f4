"""The resources of the API: tasks, queues and projects as they are sent, and tasks as received.

64-bit numbers are strings, 32-bit numbers are numbers; a field without a value is absent. A field
that is not valid raises ApiError.
"""

from __future__ import annotations

import binascii
import json
import re
from string import ascii_letters, ascii_lowercase, digits
from typing import Final, NamedTuple

from pullqueue.api import messages
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.queue import Queue
from pullqueue.tasks import NewTask, Task
from pullqueue.text import shorten

LEASED_KIND: Final = "taskqueue#tasks"
"""The list that a lease returns: singular, unlike every other kind (discovery)."""
LISTED_KIND: Final = "taskqueues#tasks"

_BASE64_DIGITS = f"{ascii_letters}{digits}-_".encode()
_INT64 = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


class Project(NamedTuple):
    """A project id as a request wrote it, with or without the prefix of a partition."""

    app_id: str
    """The application id alone."""
    prefix: str = "s"
    """`s` (United States), `e` (Europe), `b`...: what responses write before it."""

    @classmethod
    def of(cls, text: str) -> Project:
        """Parse `app` or `s~app`; an id with anything else before a tilde is taken as it is."""
        prefix, tilde, app_id = text.partition("~")
        if tilde and len(prefix) == 1 and prefix in ascii_lowercase:
            return cls(app_id, prefix)
        return cls(text)

    def queue_id(self, queue_name: str) -> str:
        """Return the long name of a queue: `projects/s~app/taskqueues/queue`."""
        return f"projects/{self.prefix}~{self.app_id}/taskqueues/{queue_name}"


def task_json(task: Task, queue_name: str, *, payload: bool = True) -> Json:
    """Return the Task resource; `queue_name` is in the long or short form, as the method sends."""
    enqueued_second = task.enqueued_usec // USEC_PER_SECOND
    resource: Json = {
        "kind": "taskqueues#task",
        "id": task.name,
        "queueName": queue_name,
        # Whole seconds, though in microseconds: as production sent it.
        "enqueueTimestamp": f"{enqueued_second}000000",
        "leaseTimestamp": str(_lease_usec(task)),
        "retry_count": task.retry_count,
    }
    if payload:
        encoded = binascii.b2a_base64(task.payload, newline=False)
        resource["payloadBase64"] = encoded.translate(_TO_URL_SAFE).decode()
    if task.tag is not None:
        resource["tag"] = task.tag
    return resource


def list_json(kind: str, items: list[Json]) -> Json:
    """Return a list of tasks; where there are none, `items` is absent."""
    return {"kind": kind, "items": items} if items else {"kind": kind}


def queue_json(queue: Queue, project: Project, *, statistics: bool) -> Json:
    """Return the TaskQueue resource."""
    resource: Json = {"kind": "taskqueues#taskqueue", "id": project.queue_id(queue.name)}
    retry = queue.settings.retry_parameters
    if retry is not None and retry.task_retry_limit is not None:
        resource["maxLeases"] = retry.task_retry_limit
    acl = queue.settings.acl
    if acl:
        resource["acl"] = {
            "consumerEmails": [each.user_email for each in acl if each.user_email is not None],
            "producerEmails": [each.writer_email for each in acl if each.writer_email is not None],
        }
    if statistics:
        resource["stats"] = _statistics_json(queue)
    return resource


def decode_payload(text: str) -> bytes:
    """Decode URL-safe base64; padding may be missing, and stray bits at the end are dropped."""
    encoded = text.rstrip("=").encode(errors="replace")
    # `translate` is much faster than a pattern on a large payload.
    if encoded.translate(None, _BASE64_DIGITS) or len(text) - len(encoded) > 2:
        raise _invalid_payload("use only A-Z a-z 0-9 - _")
    try:
        return binascii.a2b_base64(encoded.translate(_FROM_URL_SAFE) + b"=" * (-len(encoded) % 4))
    except binascii.Error:
        raise _invalid_payload("one character too many at its end") from None


def new_task(body: Json) -> NewTask:
    """Return the task of an insert; fields that only the server sets are ignored."""
    payload = text_field(body, "payloadBase64")
    if payload is None:
        raise ApiError(messages.PAYLOAD_REQUIRED, reason="required")
    eta_usec = integer_field(body, "leaseTimestamp") or None
    if eta_usec is not None and eta_usec < 0:  # an INVALID_ETA of the service
        raise ApiError(
            f"leaseTimestamp is {eta_usec}: must be microseconds since 1970, or 0 for now"
        )
    return NewTask(
        payload=decode_payload(payload),
        name=text_field(body, "id") or None,
        tag=text_field(body, "tag"),
        eta_usec=eta_usec,
    )


def text_field(body: Json, name: str) -> str | None:
    """Return a field that is text; null means absent."""
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ApiError(f"{name} is {shorten(json.dumps(value))}: use a JSON string")


def integer_field(body: Json, name: str) -> int | None:
    """Return a 64-bit number, sent as a string (as the API writes them) or as a number."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _INT64.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ApiError(
            f"{name} is {shorten(json.dumps(body[name]))}: use a 64-bit number in a JSON string"
        )
    return value


def _lease_usec(task: Task) -> int:
    # "Zero if never leased", states the reference; but an eta given with the insert is kept here.
    if task.retry_count or task.eta_usec != task.enqueued_usec:
        return task.eta_usec
    return 0


def _statistics_json(queue: Queue) -> Json:
    statistics = queue.fetch_statistics()
    resource: Json = {
        "totalTasks": statistics.tasks,
        "leasedLastMinute": str(statistics.leased_last_minute),
        "leasedLastHour": str(statistics.leased_last_hour),
    }
    if statistics.oldest_eta_usec is not None:
        # Seconds, where every other time is in microseconds (reference).
        resource["oldestTask"] = str(statistics.oldest_eta_usec // USEC_PER_SECOND)
    return resource


def _invalid_payload(what: str) -> ApiError:
    return ApiError(
        messages.INVALID_PAYLOAD, explanation=f"payloadBase64 is not URL-safe base64: {what}"
    )
