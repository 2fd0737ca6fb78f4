"""The messages of the service: their classes, and how values are read from and written to them.

The classes are the protobuf ones below those of `google-cloud-tasks`: a task takes 1 microsecond
to write instead of 9, which shows in a lease of a thousand.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from google.api import httpbody_pb2
from google.cloud.location import locations_pb2
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.longrunning import operations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, json_format, message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.errors import CloudTasksError, invalid, invalid_field
from pullqueue.text import to_snake_case

Message: TypeAlias = Any
"""A message or a class of messages: they are created at run time, without types."""

LARGEST_INT: Final = 2**31 - 1
"""The largest value of an `int32`."""
MAX_SECONDS: Final = 315_576_000_000
"""The longest `google.protobuf.Duration`; as task_ttl: tasks have no lifetime."""
BASIC: Final = 1
FULL: Final = 2
"""The values of `Task.View`, the same in all versions."""
Empty: Final = empty_pb2.Empty
_MODULES: Final = (
    *(iam_policy_pb2, policy_pb2, locations_pb2),
    *(operations_pb2, empty_pb2, httpbody_pb2, error_details_pb2),
)


@cache
def message_class(version: str, name: str) -> Message:
    """Return the protobuf class of a message in a version of the API."""
    if name in ("BufferTaskRequest", "BufferTaskResponse"):
        return _buffer_messages(version)[name]
    modules = (import_module(f"google.cloud.tasks_{version}.types"), *_MODULES)
    found = next(vars(module)[name] for module in modules if name in vars(module))
    return found if hasattr(found, "DESCRIPTOR") else found.pb()


@cache
def _buffer_messages(version: str) -> dict[str, Message]:
    """Return the messages of BufferTask, which Google's client for Python does not have."""
    task = message_class(version, "Task").DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name=f"pullqueue/{version}/buffer.proto",
        package=f"pullqueue.{version}",
        dependency=[task.file.name, httpbody_pb2.DESCRIPTOR.name],
        syntax="proto3",
    )
    request = file.message_type.add(name="BufferTaskRequest")
    request.field.add(name="queue", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    request.field.add(name="task_id", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    body = httpbody_pb2.HttpBody.DESCRIPTOR
    for message, name, number, kind in (
        (request, "body", 3, body),
        (file.message_type.add(name="BufferTaskResponse"), "task", 1, task),
    ):
        type_name = f".{kind.full_name}"
        message.field.add(
            name=name,
            number=number,
            type_name=type_name,
            type="TYPE_MESSAGE",
            label="LABEL_OPTIONAL",
        )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    classes: dict[str, Message] = message_factory.GetMessageClassesForFiles([file.name], pool)
    return {each.DESCRIPTOR.name: each for each in classes.values()}


def has(message: Message, field: str) -> bool:
    """Return whether messages of this kind have a field: each version has others."""
    return field in message.DESCRIPTOR.fields_by_name


def check_range(value: float, least: int, most: int, field: str, unit: str = "") -> None:
    """Check that a value of a request is within a range; a `unit` begins with a space.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: it is out of range.
    """
    if not least <= value <= most:
        raise invalid_field(field, f"is {value}{unit}: use {least} to {most}")


def check_not_negative(value: float, shown: str, field: str, unit: str = "") -> None:
    """Check that a value is not negative; `shown` is the field's name in production's text.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: it is negative.
    """
    if value < 0:
        advice = f"{field} is {value}{unit}: use 0 or more"
        raise invalid(texts.NEGATIVE.format(field=shown), advice=advice)


def build_status(error: CloudTasksError) -> status_pb2.Status:
    """Return an error as a `google.rpc.Status`."""
    code = code_pb2.Code.Value(error.rpc_code)
    status = {"code": code, "message": str(error), "details": error.details}
    return json_format.ParseDict(status, status_pb2.Status())


def read_method(message: Message, field: str) -> str:
    """Return the name of the HTTP method in a message; empty: it has none.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: its number is not that of a method.
    """
    number = message.http_method
    values = message.DESCRIPTOR.fields_by_name["http_method"].enum_type.values_by_number
    if number not in values:
        raise invalid_field(field, f"is {number}: use a name of HttpMethod")
    return str(values[number].name) if number else ""


def write_method(message: Message, name: str) -> None:
    """Write an HTTP method into a message."""
    values = message.DESCRIPTOR.fields_by_name["http_method"].enum_type.values_by_name
    message.http_method = values[name].number


def read_seconds(message: Duration, field: str, *, least: int = 0, most: int) -> int:
    """Return the seconds of a duration, cut to whole ones, within a range."""
    seconds: int = message.seconds - (message.nanos < 0)
    check_range(seconds, least, most, field, " seconds")
    return seconds


def write_time(message: Message, usec: int | None) -> None:
    """Write microseconds since the epoch into a timestamp; None leaves it unset."""
    if usec is not None:
        message.seconds, rest = divmod(usec, USEC_PER_SECOND)
        message.nanos = rest * 1000


def parse_mask(mask: FieldMask, descriptor: Message, field: str) -> list[str]:
    """Return the paths of a mask in snake_case; camelCase is accepted as well.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: a path names no field of the message.
    """
    if "*" in mask.paths:
        return [one.name for one in descriptor.fields]
    paths = [to_snake_case(path) for path in mask.paths]
    # The field that Google's definition calls `type` has an underscore in Python.
    paths = ["type_" if path == "type" else path for path in paths]
    if not FieldMask(paths=paths).IsValidForDescriptor(descriptor):
        names = ", ".join(one.name.rstrip("_") for one in descriptor.fields)
        raise invalid_field(field, f'is "{",".join(mask.paths)}": use fields of {names}')
    return paths


def parse_page(
    request: Message, position: re.Pattern[str], *, most: int
) -> tuple[int, re.Match[str] | None]:
    """Return the size of the page that is asked for, and the position after which it begins.

    A size of 0 means as many as possible; the first page has no position.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: the size is negative, or no response had this token.
    """
    check_range(request.page_size, 0, LARGEST_INT, "page_size")
    size = min(request.page_size or most, most)
    token = request.page_token
    if not token:
        return size, None
    try:
        start = position.fullmatch(b64decode(token, validate=True).decode())
    except ValueError:
        start = None
    if start is None:
        raise invalid_field(
            "page_token", f'is "{token:.60}": use the next_page_token of the previous response'
        )
    return size, start


def encode_page_token(position: str) -> str:
    """Return the token of the page that begins after a position."""
    return b64encode(position.encode()).decode()
