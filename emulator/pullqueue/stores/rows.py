"""Tasks and operations as rows of a database, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, get_type_hints, overload

import msgspec

from pullqueue.config.model import QueueSettings
from pullqueue.engine.events import EventKind, LeaseStep, Operation, Origin
from pullqueue.engine.store import QueueRecord
from pullqueue.errors import InternalError
from pullqueue.tasks import AttemptRecord, AttemptResult, HttpRequest, NewTask, Task
from pullqueue.text import shorten

_T = TypeVar("_T")

Row = Sequence[Any]
"""One row of a result."""

_TYPES = {int: "bigint", bytes: "bytea"}
"""Types in PostgreSQL, where it is not text."""
TASK_COLUMNS: Mapping[str, str] = {
    field.removesuffix("_name"): "bytea" if field == "tag" else _TYPES.get(kind, "text")
    for field, kind in get_type_hints(Task).items()
}
"""The columns of a task and their types: the fields of `Task`, in their order."""
_TAG = list(TASK_COLUMNS).index("tag")
_REQUEST = list(TASK_COLUMNS).index("request")
_ATTEMPTS = list(TASK_COLUMNS).index("attempts")
_COMPUTED = ("eta_usec", "sequence", "retry_count", "queue", "enqueued_usec", "attempts")
"""The columns of a new task that a statement of PostgreSQL computes."""
_NEW = [name for name in TASK_COLUMNS if name not in _COMPUTED]

_NO_TAG = b""
_TAG_MARK = b"="
# Arrays of JSON. What is appended to these tuples later has its default in rows of today.
_decode_request = msgspec.json.Decoder(HttpRequest).decode
_decode_attempts = msgspec.json.Decoder(AttemptRecord).decode
_decode_origin = msgspec.json.Decoder(Origin).decode
_decode_settings = msgspec.json.Decoder(QueueSettings).decode


def _decoding(decode: Callable[[Row], _T]) -> Callable[[Row], _T]:
    """Decorate a function that decodes a row: one that is damaged is an error of the store."""

    @wraps(decode)
    def function(row: Row) -> _T:
        try:
            return decode(row)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise InternalError(
                f"the store has a damaged record ({shorten(str(error))}): restore it from a copy"
            ) from error

    return function


def encode_tag(tag: str | None) -> bytes:
    """Return a tag as it is stored: bytes, since a tag can have any character."""
    return _NO_TAG if tag is None else _TAG_MARK + tag.encode()


def decode_tag(stored: bytes) -> str | None:
    """Return a tag that `encode_tag` encoded."""
    return stored[1:].decode() if stored else None


@overload
def encode(part: HttpRequest | AttemptRecord | Origin) -> str: ...
@overload
def encode(part: QueueSettings | None) -> str | None: ...
def encode(part: object) -> str | None:
    """Return a part of a push task, of an operation or of a queue as it is stored."""
    return None if part is None else msgspec.json.encode(part).decode()


def sql_of_tasks(placeholder: str) -> Mapping[str, str]:
    """Return the fragments of SQL that list the columns of tasks, and the placeholder."""
    names = list(TASK_COLUMNS)
    changed = [name for name in names if name not in ("queue", "name")]
    lists = {name: f"%(new_{name}){'b' if TASK_COLUMNS[name] == 'bytea' else 's'}" for name in _NEW}
    return {
        "value": placeholder,
        "task": ", ".join(names),
        "task_values": ", ".join([placeholder] * len(names)),
        "task_without_attempts": ", ".join(name for name in names if name != "attempts"),
        "task_excluded": ", ".join(f"{name} = excluded.{name}" for name in changed),
        "new_task": ", ".join(_NEW),
        "new_task_lists": ", ".join(f"{lists[name]}::{TASK_COLUMNS[name]}[]" for name in _NEW),
    }


def lists_of_new_tasks(new_tasks: Sequence[NewTask]) -> dict[str, list[object]]:
    """Return the parameters for `{new_task_lists}`: the values of each column; and the etas."""
    rows = [encode_task(new.stored(str(new.name), "", 0, 0)) for new in new_tasks]
    lists: dict[str, list[object]] = {"new_eta_usec": [new.eta_usec for new in new_tasks]}
    for place, name in enumerate(TASK_COLUMNS):
        if name in _NEW:
            lists[f"new_{name}"] = [row[place] for row in rows]
    return lists


@_decoding
def decode_task(row: Row) -> Task:
    """Return the task of a row."""
    fields = list(row)
    fields[_TAG] = decode_tag(row[_TAG])
    request, attempts = row[_REQUEST], row[_ATTEMPTS]
    fields[_REQUEST] = None if request is None else _decode_request(request)
    fields[_ATTEMPTS] = AttemptRecord() if attempts is None else _decode_attempts(attempts)
    return msgspec.convert(fields, Task)


def encode_task(task: Task) -> Row:
    """Return the row of a task."""
    fields: list[object] = list(task)
    fields[_TAG] = encode_tag(task.tag)
    fields[_REQUEST] = None if task.request is None else encode(task.request)
    fields[_ATTEMPTS] = None if task.request is None else encode(task.attempts)
    return fields


def count_finished(task: Task) -> int | None:
    """Return the column that counts the finished attempts of a push task."""
    return None if task.request is None else task.attempts.finished


@_decoding
def decode_kind(row: Row) -> EventKind:
    """Return the kind of events with which a row begins."""
    return EventKind(row[0])


@_decoding
def decode_operation(row: Row) -> Operation:
    """Return the operation of a row with its fields, in their order."""
    usec, kind, names, retry_counts, until_usec, origin, status, reason, fault = row
    steps = list(zip(names.split(","), map(int, retry_counts.split(",")), strict=True))
    return Operation(
        usec=usec,
        kind=EventKind(kind),
        names=tuple(name for name, _ in steps),
        retry_counts=tuple(count for _, count in steps),
        until_usec=until_usec,
        result=None if status is None else AttemptResult(status, reason, fault),
        origin=None if origin is None else _decode_origin(origin),
    )


@_decoding
def decode_lease_step(row: Row) -> LeaseStep:
    """Return what happened to leases of a row with its fields, in their order."""
    usec, kind, names, origin = row
    known = None if origin is None else _decode_origin(origin)
    return usec, EventKind(kind), names.split(","), known


@_decoding
def decode_record(row: Row) -> QueueRecord:
    """Return the record of a queue of a row with its fields, in their order."""
    paused, purged_usec, deleted_usec, settings = row
    decoded = None if settings is None else _decode_settings(settings)
    return QueueRecord(bool(paused), purged_usec, deleted_usec, decoded)


def is_storable(name: str) -> bool:
    """Return whether a task can have this name; a database need not be asked for any other."""
    return name.isascii() and "\0" not in name


def result_values(attempts: AttemptRecord | None) -> dict[str, object]:
    """Return the parameters that record how an attempt has ended; None: it was not one."""
    if attempts is None:
        return dict.fromkeys(AttemptResult._fields)
    return attempts.result._asdict()


def attempted(task: Task) -> dict[str, object]:
    """Return the parameters by which a statement finds a task that has not changed since."""
    return {"queue": task.queue_name, "name": task.name, "expected_eta_usec": task.eta_usec}
