"""The tasks in a file of seeds, checked before anything is sent; each error has its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec
import yaml
from yaml.constructor import SafeConstructor

from pullqueue.cli._client import Json
from pullqueue.cli._output import STDIN
from pullqueue.clock import duration_usec
from pullqueue.config.document import Source
from pullqueue.config.syntax import syntax_error
from pullqueue.config.text import quoted, shorten
from pullqueue.control.models import NewTask, Positive, given, time_of
from pullqueue.engine.validation import check_new_tasks
from pullqueue.errors import (
    ClockError,
    InvalidEtaError,
    InvalidTagError,
    InvalidTaskNameError,
    PullQueueError,
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
_FIELDS: Final[Mapping[type[PullQueueError], str]] = {
    ClockError: "countdown",
    InvalidEtaError: "eta",
    InvalidTagError: "tag",
    InvalidTaskNameError: "name",
}
"""The fields that the engine's errors are about; others are about the payload."""


class SeedTask(NewTask, omit_defaults=True):
    """A task in a file of seeds."""

    count: Positive = 1


class Seed(NamedTuple):
    """A task to be added once, or several times, and its places: FILE:LINE:COLUMN."""

    queue: str
    queue_place: str
    place: str
    fields: Json
    """As they were written; those of a checked task as the server takes them."""
    places: Mapping[str, str]
    copies: int = 1


class _Values(SafeConstructor):
    """Constructs values of the types that JSON has: a date is text."""


_Values.add_constructor(  # type: ignore[type-var]  # the stubs know of loaders only
    "tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str
)


def refusal(place: str, message: str) -> click.ClickException:
    """Return the error for a place in a file."""
    return click.ClickException(f"{place}: {message}")


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
        line, column = before.count(b"\n") + 1, len(before.rpartition(b"\n")[2]) + 1
        problem = f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        raise refusal(f"{name}:{line}:{column}", problem) from None
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
        place = f"{name}:{number}:1"
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            problem = f"not JSON ({error.msg}): write one object per line"
            raise refusal(f"{name}:{number}:{error.colno}", problem) from None
        except ValueError:
            raise refusal(place, "a number has too many digits: put it in quotes") from None
        except RecursionError:
            raise refusal(place, _TOO_DEEP) from None
        if not isinstance(fields, dict) or not isinstance(queue := fields.pop("queue", None), str):
            problem = 'not an object with a "queue": write one per line, each with its queue'
            raise refusal(place, problem)
        yield Seed(queue, place, place, fields, dict.fromkeys(fields, place))


class _Document:
    """A YAML document."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._values = _Values()
        try:
            self._check_events(text)
            self._root = yaml.compose(text, _LOADER)
        except yaml.YAMLError as error:
            source = Source(text, file=name)
            _, report = syntax_error(error, source)
            line, column = source.position(report.at.start)
            raise refusal(f"{name}:{line}:{column}", report.message) from None

    def _check_events(self, text: str) -> None:
        """Check what would make the tree of a hostile file huge, endless or too deep for C."""
        depth = documents = 0
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):
                problem = f"alias `*{event.anchor}` is not supported: write the value out"
                raise refusal(self._place(event), problem)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if documents > 1:
                raise refusal(self._place(event), "a second document begins here: keep one")
            if depth > _DEEPEST:
                raise refusal(self._place(event), _TOO_DEEP)

    def seeds(self) -> Iterator[Seed]:
        """Yield its tasks in order."""
        if self._root is None:
            raise refusal(f"{self._name}:1:1", f"the file is empty: {_EXAMPLE}")
        if not isinstance(self._root, yaml.MappingNode):
            raise refusal(self._place(self._root), f"the file is not a mapping: {_EXAMPLE}")
        for queue, (key, tasks) in self._pairs(self._root).items():
            if not isinstance(tasks, yaml.SequenceNode):
                problem = f'queue "{queue}" has no list of tasks: begin each with `- `'
                raise refusal(self._place(tasks), problem)
            for task in tasks.value:
                nodes = {"payload": task}
                if isinstance(task, yaml.MappingNode):
                    nodes = {field: value for field, (_, value) in self._pairs(task).items()}
                fields = {field: self._value(node) for field, node in nodes.items()}
                places = {field: self._place(node) for field, node in nodes.items()}
                yield Seed(queue, self._place(key), self._place(task), fields, places)

    def _pairs(self, mapping: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the keys of a mapping as text, each with its node and its value."""
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                raise refusal(self._place(key), "a list or mapping is used as a key: use a name")
            if key.value in pairs:
                problem = f'"{shorten(key.value)}" is written twice: keep one'
                raise refusal(self._place(key), problem)
            pairs[key.value] = key, value
        return pairs

    def _value(self, node: yaml.Node) -> object:
        try:
            return self._values.construct_document(node)
        except (ValueError, yaml.YAMLError) as error:  # a number too long; an unknown tag
            reason = getattr(error, "problem", error)
            problem = f"the value cannot be read ({reason}): put it in quotes"
            raise refusal(self._place(node), problem) from None

    def _place(self, node: yaml.Node | yaml.Event) -> str:
        mark = node.start_mark
        assert mark is not None  # noqa: S101 - everything read from a text has one
        return f"{self._name}:{mark.line + 1}:{mark.column + 1}"


def _checked(seed: Seed) -> Seed:
    """Return a task with the fields that the server takes."""
    fields = {name: value for name, value in seed.fields.items() if value is not None}
    for field in fields:
        if field not in _ADVICE:
            known = ", ".join(sorted(_ADVICE))
            problem = f'"{shorten(field)}" is not a field of a task: use one of {known}'
            raise refusal(seed.places[field], problem)
    for one, other in (("name", "count"), ("payload", "payload_base64"), ("eta", "countdown")):
        if one in fields and other in fields and (other, fields[other]) != ("count", 1):
            problem = f"a task has either {one} or {other}, and not both: leave one out"
            raise refusal(seed.places[other], problem)
    try:
        if not isinstance(payload := fields.get("payload", ""), str):
            fields["payload"] = json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the payload cannot be written as JSON ({error}): use text or payload_base64"
        raise refusal(seed.places["payload"], problem) from None
    try:
        task = msgspec.convert(fields, SeedTask)
        _check(task)
    except msgspec.ValidationError as error:
        field = str(error).partition("$.")[2].rstrip("`")
        value = quoted(fields[field], limit=60)
        raise refusal(seed.places[field], f"{field} is {value}: {_ADVICE[field]}") from None
    except PullQueueError as error:
        field = _FIELDS.get(type(error), "payload")
        raise refusal(seed.places.get(field, seed.place), str(error)) from None
    sent: Json = msgspec.to_builtins(task)
    return seed._replace(copies=sent.pop("count", 1), fields=sent)


def _check(task: SeedTask) -> None:
    """Check, as the server does, what no queue accepts."""
    if isinstance(task.eta, str):
        time_of(task.eta, "eta", InvalidEtaError)
    if isinstance(task.countdown, float):
        duration_usec(task.countdown)
    payload = given(task.payload_base64) or given(task.payload) or b""
    check_new_tasks([EngineTask(payload, given(task.name), given(task.tag))], _LIMITS, lambda: 0)
