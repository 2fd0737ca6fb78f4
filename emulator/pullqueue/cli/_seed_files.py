"""The tasks in a file of seeds, checked before anything is sent; each fault has its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pullqueue.cli._client import Json
from pullqueue.cli._input import STDIN
from pullqueue.cli._seed_entries import Entry, Place, checked

if TYPE_CHECKING:
    import yaml

_EXAMPLE = "give the names of queues, each with a list of tasks, such as `pull-queue: [work]`"
_TOO_DEEP = "nested too deeply: give flatter data"


class Seed(NamedTuple):
    """One entry of a file: a task to be added once, or several times."""

    queue: str
    queue_place: Place
    place: Place
    task: Json
    """The fields, as the server takes them."""
    copies: int


def seeds_of(data: bytes, file: Path) -> list[Seed]:
    """Give the tasks of a file of YAML, JSON or, by its name, one JSON object a line.

    Raises:
        ClickException: something in it is no task, or the file is neither.
    """
    name = "<stdin>" if str(file) == STDIN else str(file)
    text = _text(data, name)
    if file.suffix == ".jsonl":
        return list(_of_lines(text, name))
    return list(_Document(text, name).seeds())


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(name, before.count(b"\n") + 1, len(before.rpartition(b"\n")[2]) + 1)
        byte = data[error.start]
        raise place.refusal(f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8") from None


def _of_lines(text: str, name: str) -> Iterator[Seed]:
    # Not `splitlines`: JSON lets some of the line ends of Unicode stand in texts.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = Place(name, number)
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            problem = f"not JSON ({error.msg}): give one object a line"
            raise place._replace(column=error.colno).refusal(problem) from None
        except ValueError:
            raise place.refusal("a number has too many digits: put it in quotes") from None
        except RecursionError:
            raise place.refusal(_TOO_DEEP) from None
        if not isinstance(fields, dict) or not isinstance(queue := fields.pop("queue", None), str):
            raise place.refusal('no object with a "queue": give one a line, each with its queue')
        yield Seed(
            queue, place, place, *checked(Entry(place, fields, dict.fromkeys(fields, place)))
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
        """Give its tasks in order."""
        try:
            yield from self._of_root(self._loader.get_single_node())
        except self._yaml.YAMLError as error:
            raise self._syntax_fault(error) from None
        except RecursionError:
            raise Place(self._name, 1).refusal(_TOO_DEEP) from None

    def _of_root(self, root: yaml.Node | None) -> Iterator[Seed]:
        if root is None:
            raise Place(self._name, 1).refusal(f"the file is empty: {_EXAMPLE}")
        if not isinstance(root, self._yaml.MappingNode):
            raise self._place(root).refusal(f"the file is no mapping: {_EXAMPLE}")
        seen: set[str] = set()
        for key, value in root.value:
            place = self._place(key)
            if not isinstance(key, self._yaml.ScalarNode):
                raise place.refusal(f"this is no name of a queue: {_EXAMPLE}")
            queue = key.value
            if queue in seen:
                raise place.refusal(f"queue {queue!r} stands here again: write one list for it")
            seen.add(queue)
            if not isinstance(value, self._yaml.SequenceNode):
                message = f"queue {queue!r} has no list of tasks: begin each with `- `"
                raise self._place(value).refusal(message)
            for item in value.value:
                entry = self._entry(item)
                yield Seed(queue, place, entry.place, *checked(entry))

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
                raise self._place(key).refusal(f"{field!r:.60} stands twice in one task")
            fields[field], places[field] = self._value(value), self._place(value)
        return Entry(place, fields, places)

    def _value(self, node: yaml.Node) -> object:
        try:
            return self._loader.construct_object(node, deep=True)
        except ValueError as error:  # such as a date that is none
            message = f"{node.value!r:.60} cannot be read ({error}): put it in quotes"
            raise self._place(node).refusal(message) from None

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._name, node.start_mark.line + 1, node.start_mark.column + 1)

    def _syntax_fault(self, error: yaml.YAMLError) -> click.ClickException:
        from pullqueue.config.document import Source  # noqa: PLC0415 - only where it is needed
        from pullqueue.config.syntax import syntax_error  # noqa: PLC0415 - the same

        source = Source(self._text, file=self._name)
        _, report = syntax_error(error, source)
        place = Place(self._name, *source.position(report.at.start))
        if getattr(error, "problem", "") == "but found another document":
            return place.refusal("a second document begins here: give one")
        return place.refusal(report.message)
