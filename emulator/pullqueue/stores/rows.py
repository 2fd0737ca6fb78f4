"""Tasks and operations as rows of a database, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullqueue.engine.events import EventKind, Operation
from pullqueue.tasks import Task

Row = Sequence[Any]
"""One row of a result. That of a task has the columns `eta_usec, sequence, name, queue, payload,
tag, retry_count, enqueued_usec, stored_bytes`, in the order of `Task`."""

_NO_TAG = b""
_TAG_MARK = b"="


def encode_tag(tag: str | None) -> bytes:
    """Return a tag as it is stored: bytes, since a tag can have any character."""
    return _NO_TAG if tag is None else _TAG_MARK + tag.encode()


def task_of(row: Row) -> Task:
    """Return the task of a row."""
    eta_usec, sequence, name, queue, payload, tag, retry_count, enqueued_usec, size = row
    decoded = tag[1:].decode() if tag else None
    return Task(eta_usec, sequence, name, queue, payload, decoded, retry_count, enqueued_usec, size)


def row_of(task: Task) -> Row:
    """Return the row of a task."""
    return (*task[:5], encode_tag(task.tag), *task[6:9])


def operation_of(row: Row) -> Operation:
    """Return the operation of a row `usec, kind, names, retry_counts, until_usec`."""
    usec, kind, names, retry_counts, until_usec = row
    counts = tuple(map(int, retry_counts.split(",")))
    return Operation(usec, EventKind(kind), tuple(names.split(",")), counts, until_usec)


def is_storable(name: str) -> bool:
    """Return whether a task can have this name; a database need not be asked for any other."""
    return name.isascii() and "\0" not in name
