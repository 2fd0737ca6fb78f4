"""The messages of the service: their classes, and how tasks and queues are written in them.

The classes are the protobuf ones below those of `google-cloud-tasks`: a task takes 1 microsecond
to write instead of 9, which shows in a lease of a thousand.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from functools import cache
from typing import Any, Final, TypeAlias

from google.api import httpbody_pb2
from google.cloud.location import locations_pb2
from google.cloud.tasks_v2beta2 import types
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.protobuf import empty_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND
from pullqueue.cloudtasks.errors import invalid
from pullqueue.tasks import Task

Message: TypeAlias = Any
"""A message or a class of messages: they are made at run time, without types."""

_MODULES: Final = (types, iam_policy_pb2, policy_pb2, locations_pb2, empty_pb2, httpbody_pb2)
_NSEC_PER_USEC: Final = 1000
_NSEC: Final = 1_000_000_000
_SECONDS: Final = range(-62_135_596_800, LAST_USEC // USEC_PER_SECOND + 1)
"""What a timestamp may hold: the years 1 to 9999."""
_CAPITAL: Final = re.compile(r"([A-Z])")


@cache
def message_class(name: str) -> Message:
    """Return the protobuf class of a message."""
    found = next(vars(module)[name] for module in _MODULES if name in vars(module))
    return found if hasattr(found, "DESCRIPTOR") else found.pb()


TaskMessage: Final = message_class("Task")
QueueMessage: Final = message_class("Queue")
FULL: Final = TaskMessage.FULL
BASIC: Final = TaskMessage.BASIC
Empty: Final = empty_pb2.Empty


def write_task(message: Message, task: Task, *, queue_path: str, full: bool) -> None:
    """Write a task into an empty message; a view that is not `full` has no payload."""
    message.name = f"{queue_path}/tasks/{task.name}"
    message.view = FULL if full else BASIC
    pull_message = message.pull_message
    pull_message.SetInParent()
    if full:
        pull_message.payload = task.payload
    if task.tag:
        pull_message.tag = task.tag
    write_timestamp(message.schedule_time, task.eta_usec)
    message.create_time.seconds = task.enqueued_usec // USEC_PER_SECOND
    if task.retry_count:
        message.status.attempt_dispatch_count = task.retry_count


def write_timestamp(message: Timestamp, usec: int) -> None:
    """Write microseconds since the epoch."""
    message.seconds, rest_usec = divmod(usec, USEC_PER_SECOND)
    message.nanos = rest_usec * _NSEC_PER_USEC


def timestamp_usec(message: Timestamp, field: str) -> int:
    """Return the microseconds since the epoch of a timestamp, cut off below.

    Raises:
        StatusError: INVALID_ARGUMENT: it is not within the years 1 to 9999.
    """
    if message.seconds not in _SECONDS or not 0 <= message.nanos < _NSEC:
        raise invalid(
            f"{field} is not a valid time: it must be in the years 1 to 9999", field=field
        )
    return int(message.seconds * USEC_PER_SECOND + message.nanos // _NSEC_PER_USEC)


def whole_seconds(message: Duration, field: str) -> int:
    """Return the seconds of a duration, cut to whole ones.

    Raises:
        StatusError: INVALID_ARGUMENT: it is negative.
    """
    if message.seconds < 0 or message.nanos < 0:
        raise invalid(f"{field} is negative: give 0 seconds or more", field=field)
    return int(message.seconds)


def mask_paths(mask: FieldMask, descriptor: Message, field: str) -> list[str]:
    """Return the paths of a mask in snake_case; camelCase is accepted as well.

    Raises:
        StatusError: INVALID_ARGUMENT: a path names no field of the message.
    """
    if "*" in mask.paths:
        return [one.name for one in descriptor.fields]
    paths = [_CAPITAL.sub(lambda match: f"_{match[1].lower()}", path) for path in mask.paths]
    if not FieldMask(paths=paths).IsValidForDescriptor(descriptor):
        names = ", ".join(one.name for one in descriptor.fields)
        raise invalid(f'{field} is "{",".join(mask.paths)}": use fields of {names}', field=field)
    return paths


def page_size(given: int, *, most: int) -> int:
    """Return how many items a page has; 0 means as many as possible.

    Raises:
        StatusError: INVALID_ARGUMENT: it is negative.
    """
    if given < 0:
        raise invalid(f"page_size is {given}: give 0 to {most}", field="page_size")
    return min(given or most, most)


def page_token(position: str) -> str:
    """Return the token of the page that begins after a position."""
    return urlsafe_b64encode(position.encode()).decode()


def page_position(token: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return the position in a token; None for the first page, which has no token.

    Raises:
        StatusError: INVALID_ARGUMENT: no response had this token.
    """
    if not token:
        return None
    try:
        text = b64decode(token, altchars=b"-_", validate=True).decode("ascii")
    except ValueError:
        text = ""
    position = pattern.fullmatch(text)
    if position is None:
        raise invalid(
            f'page_token is "{token:.60}": give the next_page_token of the page before',
            field="page_token",
        )
    return position
