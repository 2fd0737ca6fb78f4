"""Tasks and queues as the API writes them, and the fields of a task as clients send them.

64-bit numbers are strings, 32-bit numbers are numbers; a field without a value is absent.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable
from string import ascii_letters, digits
from typing import Final

from pullqueue.api import messages
from pullqueue.api.answers import Json, Plain
from pullqueue.api.errors import ApiError
from pullqueue.api.projects import Project
from pullqueue.clock import USEC_PER_SECOND, from_usec, to_usec
from pullqueue.engine.queue import Queue
from pullqueue.errors import InvalidEtaError
from pullqueue.tasks import NewTask, Task

TASK_KIND: Final = "taskqueues#task"
QUEUE_KIND: Final = "taskqueues#taskqueue"
LEASED_KIND: Final = "taskqueue#tasks"
"""The list that a lease gives: singular, unlike every other kind (discovery)."""
LISTED_KIND: Final = "taskqueues#tasks"

_DIGITS = f"{ascii_letters}{digits}-_".encode()
_MOST_PADDING = 2
_INT64 = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def task_json(task: Task, queue_name: str, *, payload: bool = True) -> Json:
    """Give the Task resource; `queue_name` is the long or the short form, as the method has it."""
    enqueued_second = task.enqueued_usec // USEC_PER_SECOND
    answer: Json = {
        "kind": TASK_KIND,
        "id": task.name,
        "queueName": queue_name,
        # Whole seconds, though in microseconds: so production answered.
        "enqueueTimestamp": f"{enqueued_second}000000",
        "leaseTimestamp": str(_lease_usec(task)),
        "retry_count": task.retry_count,
    }
    if payload:
        answer["payloadBase64"] = encoded_payload(task.payload)
    if task.tag is not None:
        answer["tag"] = task.tag
    return answer


def list_json(kind: str, items: list[Json]) -> Json:
    """Give a list of tasks; where there are none, `items` is absent."""
    return {"kind": kind, "items": items} if items else {"kind": kind}


def queue_json(queue: Queue, project: Project, *, statistics: bool) -> Json:
    """Give the TaskQueue resource."""
    answer: Json = {"kind": QUEUE_KIND, "id": project.queue_id(queue.name)}
    retry = queue.settings.retry_parameters
    if retry is not None and retry.task_retry_limit is not None:
        answer["maxLeases"] = retry.task_retry_limit
    acl = queue.settings.acl
    if acl:
        answer["acl"] = {
            "consumerEmails": _emails(entry.user_email for entry in acl),
            "producerEmails": _emails(entry.writer_email for entry in acl),
        }
    if statistics:
        answer["stats"] = _statistics_json(queue)
    return answer


def encoded_payload(payload: bytes) -> Plain:
    """Give a payload in URL-safe base64, padded."""
    return Plain(binascii.b2a_base64(payload, newline=False).translate(_TO_URL_SAFE).decode())


def decoded_payload(text: str) -> bytes:
    """Read URL-safe base64; padding may be missing, and stray bits at the end are dropped.

    Raises:
        ApiError: it is something else; `+` and `/` are the other alphabet.
    """
    encoded = text.rstrip("=").encode(errors="replace")
    # Not by a pattern: it would take longer over a large payload than all the rest.
    if encoded.translate(None, _DIGITS) or len(text) - len(encoded) > _MOST_PADDING:
        raise _bad_payload("it has other characters than A-Z a-z 0-9 - _")
    try:
        return binascii.a2b_base64(encoded.translate(_FROM_URL_SAFE) + b"=" * (-len(encoded) % 4))
    except binascii.Error:
        raise _bad_payload("a single character is left over at its end") from None


def new_task(body: Json) -> NewTask:
    """Read the Task of an insert; what is not mutable is ignored.

    Raises:
        ApiError: the payload is missing, or a field is of another type.
        InvalidEtaError: leaseTimestamp is no moment.
    """
    payload = text_field(body, "payloadBase64")
    if payload is None:
        raise ApiError(messages.PAYLOAD_REQUIRED, reason="required")
    eta_usec = integer_field(body, "leaseTimestamp")
    try:
        eta = from_usec(eta_usec) if eta_usec else None
    except OverflowError:
        message = f"leaseTimestamp is {eta_usec} microseconds since 1970, past all calendars"
        raise InvalidEtaError(message) from None
    return NewTask(
        payload=decoded_payload(payload),
        name=text_field(body, "id") or None,
        tag=text_field(body, "tag"),
        eta=eta,
    )


def text_field(body: Json, name: str) -> str | None:
    """Give a field that is text; null is as absent.

    Raises:
        ApiError: it is something else.
    """
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ApiError(f"{name} is {value!r:.100}: give a JSON string")


def integer_field(body: Json, name: str) -> int | None:
    """Give a 64-bit number, sent as a string (as the API writes them) or as a number.

    Raises:
        ApiError: it is something else.
    """
    value = body.get(name)
    if value is None:
        return None
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and _INT64.fullmatch(value):
        number = int(value)
    if number is None or not -(2**63) <= number < 2**63:
        raise ApiError(f"{name} is {value!r:.100}: give a 64-bit number in a JSON string")
    return number


def short_queue_name(text: str) -> str:
    """Cut a long queue name to its last part; a short one is its own."""
    return text.rpartition("/")[2]


def _lease_usec(task: Task) -> int:
    # "Zero if never leased", says the reference; but an eta given with the insert is kept here.
    if task.retry_count or task.eta_usec != task.enqueued_usec:
        return task.eta_usec
    return 0


def _statistics_json(queue: Queue) -> Json:
    statistics = queue.fetch_statistics()
    answer: Json = {
        "totalTasks": statistics.tasks,
        "leasedLastMinute": str(statistics.leased_last_minute),
        "leasedLastHour": str(statistics.leased_last_hour),
    }
    if statistics.oldest_eta is not None:
        # Seconds, where every other moment is in microseconds (reference).
        answer["oldestTask"] = str(to_usec(statistics.oldest_eta) // USEC_PER_SECOND)
    return answer


def _emails(entries: Iterable[str | None]) -> list[str]:
    return [email for email in entries if email is not None]


def _bad_payload(what: str) -> ApiError:
    return ApiError(
        messages.INVALID_PAYLOAD, explanation=f"payloadBase64 is not URL-safe base64: {what}"
    )
