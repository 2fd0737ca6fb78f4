"""Tasks and operations as rows of a database, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import msgspec

from pullqueue.config.model import QueueSettings
from pullqueue.engine.events import EventKind, Operation, Origin
from pullqueue.engine.store import QueueRecord
from pullqueue.tasks import AttemptRecord, HttpRequest, Push, Task

Row = Sequence[Any]
"""One row of a result. That of a task has the columns `eta_usec, sequence, name, queue, payload,
tag, retry_count, enqueued_usec, stored_bytes`, in the order of `Task`, then `request, attempts`."""

_NO_TAG = b""
_TAG_MARK = b"="
# Arrays of JSON. What is appended to these tuples later has its default in rows of today.
_request_of = msgspec.json.Decoder(HttpRequest).decode
_attempts_of = msgspec.json.Decoder(AttemptRecord).decode
_origin_of = msgspec.json.Decoder(Origin).decode
_settings_of = msgspec.json.Decoder(QueueSettings).decode


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


def task_of(row: Row) -> Task:
    """Return the task of a row."""
    eta_usec, sequence, name, queue, payload, tag, retry_count, enqueued_usec, size, *sent = row
    fields = (eta_usec, sequence, name, queue, payload, decode_tag(tag), retry_count)
    push = None if sent[0] is None else _push_of(*sent)
    return Task(*fields, enqueued_usec, size, push)


def _push_of(request: str, attempts: str | None) -> Push:
    return Push(
        _request_of(request), AttemptRecord() if attempts is None else _attempts_of(attempts)
    )


def row_of(task: Task) -> Row:
    """Return the row of a task."""
    push = task.push
    sent = (None, None) if push is None else (encode(push.request), encode(push.attempts))
    return (*task[:5], encode_tag(task.tag), *task[6:9], *sent)


def finished_of(task: Task) -> int | None:
    """Return the column that counts the finished attempts of a push task."""
    return None if task.push is None else task.push.attempts.finished


def operation_of(row: Row) -> Operation:
    """Return the operation of a row with its fields, in their order."""
    usec, kind, names, retry_counts, until_usec, status, origin = row
    return Operation(
        usec=usec,
        kind=EventKind(kind),
        names=tuple(names.split(",")),
        retry_counts=tuple(map(int, retry_counts.split(","))),
        until_usec=until_usec,
        status=status,
        origin=None if origin is None else _origin_of(origin),
    )


def record_of(row: Row) -> QueueRecord:
    """Return the record of a queue of a row with its fields, in their order."""
    paused, purged_usec, deleted_usec, settings = row
    decoded = None if settings is None else _settings_of(settings)
    return QueueRecord(bool(paused), purged_usec, deleted_usec, decoded)


def is_storable(name: str) -> bool:
    """Return whether a task can have this name; a database need not be asked for any other."""
    return name.isascii() and "\0" not in name
