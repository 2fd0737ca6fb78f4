"""What an entry of a file of seeds says, as the server takes it; each fault has its place."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple, NoReturn

import click

from pullqueue.cli._client import Json

_FIELDS = ("count", "countdown", "eta", "name", "payload", "payload_base64", "tag")


class Place(NamedTuple):
    """Where something stands in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int = 1

    def refusal(self, message: str) -> click.ClickException:
        """Give the refusal for what stands here."""
        return click.ClickException(f"{self.file}:{self.line}:{self.column}: {message}")


class Entry(NamedTuple):
    """A task as it was written, and where each of its fields stands."""

    place: Place
    fields: Mapping[str, object]
    places: Mapping[str, Place]

    def refuse(self, field: str, advice: str) -> NoReturn:
        """Refuse what a field says.

        Raises:
            ClickException: always.
        """
        value = self.fields[field]
        shown = value.isoformat() if isinstance(value, date) else value
        raise self.places[field].refusal(f"{field} is {shown!r:.60}: {advice}")


def checked(entry: Entry) -> tuple[Json, int]:
    """Give the fields of a task as the server takes them, and how many of it are wanted.

    Raises:
        ClickException: they are none of a task.
    """
    fields = {name: value for name, value in entry.fields.items() if value is not None}
    for field in fields:
        if field not in _FIELDS:
            message = f"a task has no {field!r:.60}: give one of {', '.join(_FIELDS)}"
            raise entry.places[field].refusal(message)
    count = _count(entry, fields.pop("count", 1))
    for one, other in (("name", "count"), ("payload", "payload_base64")):
        if one in fields and other in entry.fields and (other != "count" or count > 1):
            message = f"a task has either {one} or {other}, and not both: leave one out"
            raise entry.places[other].refusal(message)
    task = {name: _READ[name](entry, value) for name, value in fields.items()}
    _check_as_task(entry, task)
    if isinstance(task.get("payload"), bytes):
        task["payload_base64"] = b64encode(task.pop("payload")).decode()
    return task, count


def _count(entry: Entry, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        entry.refuse("count", "give a whole number, 1 or more")
    return value


def _payload(entry: Entry, value: object) -> str | bytes:
    if isinstance(value, str | bytes):
        return value
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        message = "the payload holds what JSON has no word for, such as a date: put it in quotes"
        raise entry.places["payload"].refusal(message) from None


def _base64(entry: Entry, value: object) -> str:
    try:
        b64decode(value, validate=True)  # type: ignore[arg-type]  # a TypeError refuses it as well
    except (TypeError, ValueError):
        entry.refuse("payload_base64", "give base64")
    return str(value)


def _text(field: str) -> Callable[[Entry, object], str]:
    def read(entry: Entry, value: object) -> str:
        if not isinstance(value, str):
            entry.refuse(field, "give text; put it in quotes")
        return value

    return read


def _eta(entry: Entry, value: object) -> str:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        entry.refuse("eta", "give a moment with its time zone, such as 2026-01-01T00:00:00Z")
    return moment.isoformat()


def _countdown(entry: Entry, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        entry.refuse("countdown", "give a number of seconds")
    return value


_READ: Mapping[str, Callable[[Entry, object], Any]] = {
    "countdown": _countdown,
    "eta": _eta,
    "name": _text("name"),
    "payload": _payload,
    "payload_base64": _base64,
    "tag": _text("tag"),
}


def _check_as_task(entry: Entry, task: Json) -> None:
    """Let the engine say what no queue takes, before the first task is added."""
    from pullqueue import errors  # noqa: PLC0415 - slow, and only used here
    from pullqueue.engine.validation import validated_tasks  # noqa: PLC0415 - the same
    from pullqueue.limits import Limits  # noqa: PLC0415 - the same
    from pullqueue.tasks import NewTask  # noqa: PLC0415 - the same

    data = task.get("payload") or b64decode(task.get("payload_base64", ""))
    try:
        validated_tasks([NewTask(data, task.get("name"), task.get("tag"))], Limits(), lambda: 0)
    except errors.InvalidTaskNameError as error:
        raise entry.places["name"].refusal(str(error)) from None
    except errors.InvalidTagError as error:
        raise entry.places["tag"].refusal(str(error)) from None
    except errors.InvalidTaskError as error:
        raise entry.place.refusal(str(error)) from None
