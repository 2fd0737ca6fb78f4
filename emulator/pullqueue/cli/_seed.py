"""The tasks in a file of seeds, checked before anything is sent; each error has its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec
import yaml
from yaml.constructor import SafeConstructor

from pullqueue.cli._client import Json
from pullqueue.cli._output import STDIN
from pullqueue.config.document import Source
from pullqueue.config.syntax import syntax_error
from pullqueue.config.text import shorten
from pullqueue.control.models import NewTask, Positive, given, time_of
from pullqueue.engine.validation import validated_tasks
from pullqueue.errors import (
    InvalidEtaError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
)
from pullqueue.limits import Limits
from pullqueue.tasks import NewTask as EngineTask

_LIMITS = Limits()
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_EXAMPLE = "write the names of queues, each with a list of tasks, such as `pull-queue: [work]`"
_DEEPEST = 200
_TOO_DEEP = "nested too deeply: use flatter data"
_ADVICE: Final = {
    "count": "use a whole number, 1 or more",
    "countdown": "use a number of seconds",
    "eta": "use a time with its time zone, such as 2026-01-01T00:00:00Z",
    "name": "use text; put it in quotes",
    "payload": "use text",
    "payload_base64": "use base64",
    "tag": "use text; put it in quotes",
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

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def refusal(self, message: str) -> click.ClickException:
        """Return the error for this place."""
        return click.ClickException(f"{self}: {message}")


class Seed(NamedTuple):
    """A task to be added once, or several times, and the place of each of its fields."""

    queue: str
    queue_place: Place
    place: Place
    fields: Json
    """As they were written; those of a checked task as the server takes them."""
    places: Mapping[str, Place]
    copies: int = 1

    def refusal(self, field: str) -> click.ClickException:
        """Return the error for the value of a field."""
        value = self.fields[field]
        text = shorten(str(value))
        shown = f'"{text}"' if isinstance(value, str | date) else text
        return self.places[field].refusal(f"{field} is {shown}: {_ADVICE[field]}")


def seeds_of(data: bytes, file: Path) -> Iterator[Seed]:
    """Yield the tasks of a file of YAML or JSON, or of one JSON object per line.

    Raises:
        ClickException: something in it is not a valid task, or the file is neither.
    """
    name = "<stdin>" if str(file) == STDIN else str(file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(name, before.count(b"\n") + 1, len(before.rpartition(b"\n")[2]) + 1)
        byte = data[error.start]
        raise place.refusal(f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8") from None
    lines = file.suffix == ".jsonl" or _begins_with_object(text)
    yield from map(_checked, _of_lines(text, name) if lines else _Document(text, name).seeds())


def _begins_with_object(text: str) -> bool:
    """Return whether the first line is a task with its queue, which no YAML file begins with."""
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and isinstance(first.get("queue"), str)


def _of_lines(text: str, name: str) -> Iterator[Seed]:
    # Not `splitlines`: JSON permits some of Unicode's line ends in strings.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = Place(name, number)
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            problem = f"not JSON ({error.msg}): write one object per line"
            raise place._replace(column=error.colno).refusal(problem) from None
        except ValueError:
            raise place.refusal("a number has too many digits: put it in quotes") from None
        except RecursionError:
            raise place.refusal(_TOO_DEEP) from None
        if not isinstance(fields, dict) or not isinstance(queue := fields.pop("queue", None), str):
            raise place.refusal(
                'not an object with a "queue": write one per line, each with its queue'
            )
        yield Seed(queue, place, place, fields, dict.fromkeys(fields, place))


class _Document:
    """A YAML document."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._values = SafeConstructor()
        try:
            self._check_events(text)
            self._root = yaml.compose(text, _LOADER)
        except yaml.YAMLError as error:
            source = Source(text, file=name)
            _, report = syntax_error(error, source)
            place = Place(name, *source.position(report.at.start))
            raise place.refusal(report.message) from None

    def _check_events(self, text: str) -> None:
        """Check what would make the tree of a hostile file huge, endless or too deep for C."""
        depth = documents = 0
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):
                problem = f"alias `*{event.anchor}` is not supported: write the value out"
                raise self._place(event).refusal(problem)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if documents > 1:
                raise self._place(event).refusal("a second document begins here: keep one")
            if depth > _DEEPEST:
                raise self._place(event).refusal(_TOO_DEEP)

    def seeds(self) -> Iterator[Seed]:
        """Yield its tasks in order."""
        if self._root is None:
            raise Place(self._name, 1).refusal(f"the file is empty: {_EXAMPLE}")
        if not isinstance(self._root, yaml.MappingNode):
            raise self._place(self._root).refusal(f"the file is not a mapping: {_EXAMPLE}")
        seen: set[str] = set()
        for key, tasks in self._root.value:
            place = self._place(key)
            if not isinstance(key, yaml.ScalarNode):
                raise place.refusal(f"not a valid queue name: {_EXAMPLE}")
            queue = key.value
            if queue in seen:
                raise place.refusal(f'queue "{queue}" is listed twice: write one list for it')
            seen.add(queue)
            if not isinstance(tasks, yaml.SequenceNode):
                problem = f'queue "{queue}" has no list of tasks: begin each with `- `'
                raise self._place(tasks).refusal(problem)
            for task in tasks.value:
                yield Seed(queue, place, self._place(task), *self._fields(task))

    def _fields(self, node: yaml.Node) -> tuple[Json, Mapping[str, Place]]:
        """Return the fields of a task and their places."""
        if not isinstance(node, yaml.MappingNode):
            return {"payload": self._value(node)}, {"payload": self._place(node)}
        fields: Json = {}
        places: dict[str, Place] = {}
        for key, value in node.value:
            field = key.value if isinstance(key, yaml.ScalarNode) else "?"
            if field in fields:
                raise self._place(key).refusal(f'"{shorten(field)}" occurs twice in one task')
            fields[field], places[field] = self._value(value), self._place(value)
        return fields, places

    def _value(self, node: yaml.Node) -> object:
        try:
            return self._values.construct_document(node)
        except ValueError as error:  # such as a date that does not exist
            problem = f'"{shorten(node.value)}" cannot be read ({error}): put it in quotes'
            raise self._place(node).refusal(problem) from None
        except yaml.YAMLError as error:  # such as a tag that YAML does not define
            raise self._place(node).refusal(f"{getattr(error, 'problem', error)}") from None

    def _place(self, node: yaml.Node | yaml.Event) -> Place:
        mark = node.start_mark
        assert mark is not None  # noqa: S101 - everything read from a text has one
        return Place(self._name, mark.line + 1, mark.column + 1)


def _checked(seed: Seed) -> Seed:
    """Return a task with the fields that the server takes."""
    fields = {name: value for name, value in seed.fields.items() if value is not None}
    for field in fields:
        if field not in _ADVICE:
            known = ", ".join(sorted(_ADVICE))
            problem = f'"{shorten(field)}" is not a field of a task: use one of {known}'
            raise seed.places[field].refusal(problem)
    for one, other in (("name", "count"), ("payload", "payload_base64"), ("eta", "countdown")):
        if one in fields and other in fields and (other, fields[other]) != ("count", 1):
            problem = f"a task has either {one} or {other}, and not both: leave one out"
            raise seed.places[other].refusal(problem)
    payload, eta = fields.get("payload", ""), fields.get("eta")
    if isinstance(eta, date):
        fields["eta"] = eta.isoformat()
    if isinstance(payload, bytes):
        fields["payload_base64"] = fields.pop("payload")
    elif not isinstance(payload, str):
        try:
            fields["payload"] = json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            problem = "the payload cannot be written as JSON (is it a date?): put it in quotes"
            raise seed.places["payload"].refusal(problem) from None
    task = _converted(seed, fields)
    _check_as_task(seed, task)
    sent: Json = msgspec.to_builtins(task)
    return seed._replace(copies=sent.pop("count", 1), fields=sent)


def _converted(seed: Seed, fields: Json) -> SeedTask:
    try:
        task = msgspec.convert(fields, SeedTask)
        if isinstance(task.eta, str):
            time_of(task.eta, "eta", InvalidEtaError)
    except msgspec.ValidationError as error:
        raise seed.refusal(str(error).partition("$.")[2].rstrip("`")) from None
    except InvalidEtaError:
        raise seed.refusal("eta") from None
    if isinstance(task.countdown, float) and not math.isfinite(task.countdown):
        raise seed.refusal("countdown")
    return task


def _check_as_task(seed: Seed, task: SeedTask) -> None:
    """Check with the engine what no queue accepts, before the first task is added."""
    payload = given(task.payload_base64) or given(task.payload) or b""
    new = EngineTask(payload, given(task.name), given(task.tag))
    fields = {InvalidTaskNameError: "name", InvalidTagError: "tag"}
    try:
        validated_tasks([new], _LIMITS, lambda: 0)
    except InvalidTaskError as error:
        place = seed.places.get(fields.get(type(error), ""), seed.place)
        raise place.refusal(str(error)) from None
