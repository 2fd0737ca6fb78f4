"""The tasks in a file of seeds, checked before anything is sent; each error has its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import click
import msgspec
from msgspec import UNSET

from pullqueue import errors
from pullqueue.cli._client import Json
from pullqueue.cli._files import STDIN
from pullqueue.control import models
from pullqueue.control.models import NewTask, Positive, time_of
from pullqueue.engine.validation import validated_tasks
from pullqueue.errors import InvalidEtaError
from pullqueue.limits import MIB, Limits
from pullqueue.tasks import NewTask as EngineTask

if TYPE_CHECKING:
    import yaml

_LIMITS = Limits()
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


class Seed(NamedTuple):
    """One entry of a file: a task to be added once, or several times."""

    queue: str
    queue_place: Place
    place: Place
    task: Json
    """The fields, as the server takes them."""
    copies: int


def seeds_of(data: bytes, file: Path) -> Iterator[Seed]:
    """Yield the tasks of a file of YAML, JSON or, by its name, one JSON object a line.

    Raises:
        ClickException: something in it is not a valid task, or the file is neither.
    """
    name = "<stdin>" if str(file) == STDIN else str(file)
    text = _text(data, name)
    if file.suffix == ".jsonl":
        return _of_lines(text, name)
    return _Document(text, name).seeds()


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(name, before.count(b"\n") + 1, len(before.rpartition(b"\n")[2]) + 1)
        byte = data[error.start]
        raise place.refusal(f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8") from None


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
        yield Seed(
            queue, place, place, *_checked(Entry(place, fields, dict.fromkeys(fields, place)))
        )


class _Document:
    """A YAML document."""

    def __init__(self, text: str, name: str) -> None:
        import yaml  # noqa: PLC0415 - only where it is needed

        self._yaml = yaml
        self._text = text
        self._name = name
        self._loader: yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)

    def seeds(self) -> Iterator[Seed]:
        """Yield its tasks in order."""
        try:
            self._check_depth()
            yield from self._of_root(self._loader.get_single_node())
        except self._yaml.YAMLError as error:
            raise self._syntax_fault(error) from None

    def _check_depth(self) -> None:
        """Check how deep the document is nested: the composer in C fails on deep ones.

        Raises:
            ClickException: it is too deep.
        """
        depth = 0
        for event in self._yaml.parse(self._text, Loader=type(self._loader)):
            if isinstance(event, self._yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, self._yaml.CollectionEndEvent):
                depth -= 1
            if depth > _DEEPEST:
                raise self._place(event).refusal(_TOO_DEEP)

    def _of_root(self, root: yaml.Node | None) -> Iterator[Seed]:
        if root is None:
            raise Place(self._name, 1).refusal(f"the file is empty: {_EXAMPLE}")
        if not isinstance(root, self._yaml.MappingNode):
            raise self._place(root).refusal(f"the file is not a mapping: {_EXAMPLE}")
        seen: set[str] = set()
        for key, value in root.value:
            place = self._place(key)
            if not isinstance(key, self._yaml.ScalarNode):
                raise place.refusal(f"not a valid queue name: {_EXAMPLE}")
            queue = key.value
            if queue in seen:
                raise place.refusal(f"queue {queue!r} is listed twice: write one list for it")
            seen.add(queue)
            if not isinstance(value, self._yaml.SequenceNode):
                message = f"queue {queue!r} has no list of tasks: begin each with `- `"
                raise self._place(value).refusal(message)
            for item in value.value:
                self._check_size(item)
                entry = self._entry(item)
                yield Seed(queue, place, entry.place, *_checked(entry))

    def _check_size(self, item: yaml.Node) -> None:
        """Check that a task is of some size with its aliases written out: few lines can be huge.

        Raises:
            ClickException: it is too large, or contains itself.
        """
        sizes: dict[int, float] = {}

        def size_of(node: yaml.Node) -> float:
            if isinstance(node, self._yaml.ScalarNode):
                return 1
            if id(node) not in sizes:
                sizes[id(node)] = math.inf  # found again inside of itself
                children = node.value
                if isinstance(node, self._yaml.MappingNode):
                    children = [each for pair in node.value for each in pair]
                sizes[id(node)] = 1 + sum(map(size_of, children))
            return sizes[id(node)]

        if size_of(item) > MIB:
            message = "this task is larger than 1 MiB with its aliases written out: make it smaller"
            raise self._place(item).refusal(message)

    def _entry(self, node: yaml.Node) -> Entry:
        place = self._place(node)
        if not isinstance(node, self._yaml.MappingNode):
            return Entry(place, {"payload": self._value(node)}, {"payload": place})
        self._loader.flatten_mapping(node)
        fields: dict[str, object] = {}
        places: dict[str, Place] = {}
        for key, value in node.value:
            field = key.value if isinstance(key, self._yaml.ScalarNode) else "?"
            if field in fields:
                raise self._place(key).refusal(f"{field!r:.60} occurs twice in one task")
            fields[field], places[field] = self._value(value), self._place(value)
        return Entry(place, fields, places)

    def _value(self, node: yaml.Node) -> object:
        try:
            return self._loader.construct_object(node, deep=True)
        except ValueError as error:  # such as a date that is none
            message = f"{node.value!r:.60} cannot be read ({error}): put it in quotes"
            raise self._place(node).refusal(message) from None

    def _place(self, node: yaml.Node | yaml.Event) -> Place:
        mark = node.start_mark
        assert mark is not None  # noqa: S101 - everything read from a text has one
        return Place(self._name, mark.line + 1, mark.column + 1)

    def _syntax_fault(self, error: yaml.YAMLError) -> click.ClickException:
        from pullqueue.config.document import Source  # noqa: PLC0415 - only where it is needed
        from pullqueue.config.syntax import syntax_error  # noqa: PLC0415 - the same

        source = Source(self._text, file=self._name)
        _, report = syntax_error(error, source)
        place = Place(self._name, *source.position(report.at.start))
        if getattr(error, "problem", "") == "but found another document":
            return place.refusal("a second document begins here: keep one")
        return place.refusal(report.message)


def _checked(entry: Entry) -> tuple[Json, int]:
    """Return the fields of a task as the server takes them, and how many copies to add.

    Raises:
        ClickException: they are not those of a task.
    """
    fields = {name: value for name, value in entry.fields.items() if value is not None}
    for field in fields:
        if field not in _ADVICE:
            message = f"a task has no {field!r:.60}: use one of {', '.join(sorted(_ADVICE))}"
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
            message = "the payload cannot be written as JSON (is it a date?): put it in quotes"
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
        validated_tasks([new], _LIMITS, lambda: 0)
    except errors.InvalidTaskNameError as error:
        raise entry.places["name"].refusal(str(error)) from None
    except errors.InvalidTagError as error:
        raise entry.places["tag"].refusal(str(error)) from None
    except errors.InvalidTaskError as error:
        raise entry.place.refusal(str(error)) from None
