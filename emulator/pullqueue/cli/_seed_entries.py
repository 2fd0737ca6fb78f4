"""An entry of a file of seeds, checked as the server does; each error has its place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from typing import Final, NamedTuple, NoReturn

import click
import msgspec
from msgspec import UNSET

from pullqueue import errors
from pullqueue.cli._client import Json
from pullqueue.control import models
from pullqueue.control.models import NewTask, Positive, time_of
from pullqueue.engine.validation import validated_tasks
from pullqueue.errors import InvalidEtaError
from pullqueue.limits import Limits
from pullqueue.tasks import NewTask as EngineTask

_ADVICE: Final = {
    "count": "give a whole number, 1 or more",
    "countdown": "give a number of seconds",
    "eta": "give a time with its time zone, such as 2026-01-01T00:00:00Z",
    "name": "give text; put it in quotes",
    "payload": "give text",
    "payload_base64": "give base64",
    "tag": "give text; put it in quotes",
}
"""The fields of a task in a file, and what to write there."""


class SeedTask(NewTask, omit_defaults=True):
    """A task in a file of seeds."""

    count: Positive = 1


class Place(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int = 1

    def refusal(self, message: str) -> click.ClickException:
        """Return the error for this place."""
        return click.ClickException(f"{self.file}:{self.line}:{self.column}: {message}")


class Entry(NamedTuple):
    """A task as it was written, and the place of each of its fields."""

    place: Place
    fields: Mapping[str, object]
    places: Mapping[str, Place]

    def refuse(self, field: str, advice: str) -> NoReturn:
        """Refuse the value of a field.

        Raises:
            ClickException: always.
        """
        value = self.fields[field]
        shown = value.isoformat() if isinstance(value, date) else value
        raise self.places[field].refusal(f"{field} is {shown!r:.60}: {advice}")


def checked(entry: Entry) -> tuple[Json, int]:
    """Return the fields of a task as the server takes them, and how many copies to add.

    Raises:
        ClickException: they are not those of a task.
    """
    fields = {name: value for name, value in entry.fields.items() if value is not None}
    for field in fields:
        if field not in _ADVICE:
            message = f"a task has no {field!r:.60}: give one of {', '.join(sorted(_ADVICE))}"
            raise entry.places[field].refusal(message)
    task = _converted(entry, {**fields, **_as_text(entry, fields)})
    for one, other in (("name", "count"), ("payload", "payload_base64")):
        if one in fields and other in entry.fields and (other != "count" or task.count > 1):
            message = f"a task has either {one} or {other}, and not both: leave one out"
            raise entry.places[other].refusal(message)
    _check_as_task(entry, task)
    sent: Json = msgspec.to_builtins(task)
    return sent, sent.pop("count", 1)


def _as_text(entry: Entry, fields: Mapping[str, object]) -> dict[str, object]:
    """Return payload and eta as JSON can contain them."""
    texts: dict[str, object] = {}
    payload, eta = fields.get("payload", ""), fields.get("eta")
    if isinstance(payload, bytes):
        texts = {"payload": UNSET, "payload_base64": payload}
    elif not isinstance(payload, str):
        try:
            texts["payload"] = json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            message = "the payload has no form in JSON, such as a date: put it in quotes"
            raise entry.places["payload"].refusal(message) from None
    if isinstance(eta, date):
        texts["eta"] = eta.isoformat()
    return texts


def _converted(entry: Entry, fields: Mapping[str, object]) -> SeedTask:
    given = {name: value for name, value in fields.items() if value is not UNSET}
    try:
        task = msgspec.convert(given, SeedTask)
        if isinstance(task.eta, str):
            time_of(task.eta, "eta", InvalidEtaError)
        if isinstance(task.countdown, float) and not math.isfinite(task.countdown):
            entry.refuse("countdown", _ADVICE["countdown"])
    except msgspec.ValidationError as error:
        field = str(error).partition("$.")[2].rstrip("`")
        entry.refuse(field, _ADVICE[field])
    except InvalidEtaError:
        entry.refuse("eta", _ADVICE["eta"])
    return task


def _check_as_task(entry: Entry, task: SeedTask) -> None:
    """Check with the engine what no queue accepts, before the first task is added."""
    text, data = models.given(task.payload), models.given(task.payload_base64)
    new = EngineTask(data or text or b"", models.given(task.name), models.given(task.tag))
    try:
        validated_tasks([new], Limits(), lambda: 0)
    except errors.InvalidTaskNameError as error:
        raise entry.places["name"].refusal(str(error)) from None
    except errors.InvalidTagError as error:
        raise entry.places["tag"].refusal(str(error)) from None
    except errors.InvalidTaskError as error:
        raise entry.place.refusal(str(error)) from None
