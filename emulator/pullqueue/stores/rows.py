"""Tasks and events as rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pullqueue.engine.events import EventKind, Operation
from pullqueue.tasks import Task

TASK_COLUMNS = (
    "eta_usec, sequence, name, queue, payload, tag, retry_count, enqueued_usec, stored_bytes"
)
"""The columns of a task in the order of `Task`."""

Row = Sequence[Any]
"""One row of an answer."""

_NO_TAG = b""
_TAG_MARK = b"="


def encode_tag(tag: str | None) -> bytes:
    """Give a tag as it is stored: bytes, since a tag may hold any character."""
    return _NO_TAG if tag is None else _TAG_MARK + tag.encode()


def decode_tag(stored: bytes) -> str | None:
    """Give the tag that was stored so."""
    return stored[1:].decode() if stored else None


def task_of(row: Row) -> Task:
    """Make a task of `TASK_COLUMNS`."""
    eta_usec, sequence, name, queue, payload, tag, retry_count, enqueued_usec, size = row
    decoded = decode_tag(tag) if tag else None
    return Task._make(
        (eta_usec, sequence, name, queue, payload, decoded, retry_count, enqueued_usec, size)
    )


def tasks_of(rows: Iterable[Row]) -> list[Task]:
    """Make tasks of rows of `TASK_COLUMNS`."""
    return [task_of(row) for row in rows]


def columns_of(task: Task) -> dict[str, object]:
    """Give the columns of a task by name."""
    columns = task._asdict()
    columns["queue"] = columns.pop("queue_name")
    columns["tag"] = encode_tag(task.tag)
    return columns


def joined(values: Iterable[object]) -> str:
    """Give values with commas between them; no name holds one."""
    return ",".join(map(str, values))


def entry_of(row: Row) -> Operation:
    """Make an entry of the record of `usec, kind, names, retry_counts, until_usec`."""
    usec, kind, names, retry_counts, until_usec = row
    counts = tuple(map(int, retry_counts.split(",")))
    return Operation(usec, EventKind(kind), tuple(names.split(",")), counts, until_usec)


def possible_name(name: str) -> bool:
    """Tell whether a task can have this name; a database need not be asked for any other."""
    return name.isascii() and "\0" not in name
