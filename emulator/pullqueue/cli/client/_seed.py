"""The tasks in a file of seeds, checked before anything is sent; each error has its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from pullqueue.cli._output import STDIN
from pullqueue.cli.client.connection import Json
from pullqueue.clock import duration_usec, parse_time
from pullqueue.config.document import Mapping, Node, Sequence, Source
from pullqueue.config.findings import Reports, UnreadableError
from pullqueue.config.reader import decode, read_tree
from pullqueue.engine.validation import check_new_tasks
from pullqueue.errors import InvalidEtaError, PullQueueError
from pullqueue.limits import Limits
from pullqueue.resources.models import FIELD_OF_ERROR, NewTask
from pullqueue.structs import Positive, given
from pullqueue.tasks import NewTask as EngineTask
from pullqueue.text import quoted, shorten

_EXAMPLE = "write the names of queues, each with a list of tasks, such as `pull-queue: [work]`"
_MAX_DEPTH = 200
_TOO_DEEP = "nested too deeply: use flatter data"
_MESSAGES: Final = {
    "anchor-or-alias": "anchors, aliases and merge keys are not supported: write the value out",
    "complex-key": "a list or mapping is used as a key: use a name",
    "multiple-documents": "a second document begins here: keep one",
    "too-deep": _TOO_DEEP,
    "yaml-tag": "tags, and a plain `=` or `<<`, are not supported: put the value in quotes",
}
"""What a rule of queue.yaml means here, where its own message does not fit."""
_ADVICE: Final = {
    "count": "use a whole number, 1 or more",
    "countdown": "use a number of seconds",
    "eta": "use a time with its time zone, such as 2026-01-01T00:00:00Z",
    "name": "use text; put it in quotes",
    "payload": "use text",
    "payload_base64": "use base64",
    "request": "use `{url: /mail}`, with method, headers and target if needed",
    "tag": "use text; put it in quotes",
}
"""The fields of a task in a file, and what to write there."""


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
    places: MappingOf[str, str]
    copies: int = 1


def refusal(place: str, message: str) -> click.ClickException:
    """Return the error for a place in a file."""
    return click.ClickException(f"{place}: {message}")


def parse_seeds(data: bytes, file: Path) -> Iterator[Seed]:
    """Yield the tasks of a file of YAML or JSON, or of one JSON object per line."""
    reports: Reports = {}
    name = "<stdin>" if str(file) == STDIN else str(file)
    source = decode(data, name, reports, max_bytes=inf)
    _refuse(source, reports)
    lines = file.suffix == ".jsonl" or _begins_with_object(source.text)
    yield from map(_checked, _parse_lines(source) if lines else _parse_document(source))


def _refuse(source: Source, reports: Reports) -> None:
    problems = [
        (report.at.start, _MESSAGES.get(rule, report.message))
        for rule, found in reports.items()
        for report in found
        if rule != "yaml-directive"  # is permitted here
    ]
    if problems:
        offset, message = min(problems)
        raise refusal(_describe_place(source, offset), message)


def _describe_place(source: Source, offset: int) -> str:
    line, column = source.position(offset)
    return f"{source.file}:{line}:{column}"


def _begins_with_object(text: str) -> bool:
    """Return whether the first line is a task with its queue, which no YAML file begins with."""
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and isinstance(first.get("queue"), str)


def _parse_lines(source: Source) -> Iterator[Seed]:
    name = source.file
    # Not `splitlines`: JSON permits some of Unicode's line ends in strings.
    for number, line in enumerate(source.text.split("\n"), 1):
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


def _parse_document(source: Source) -> Iterator[Seed]:
    def place(node: Node) -> str:
        return _describe_place(source, node.start)

    root = _read_root(source)
    if root is None:
        raise refusal(f"{source.file}:1:1", f"the file is empty: {_EXAMPLE}")
    if not isinstance(root, Mapping):
        raise refusal(place(root), f"the file is not a mapping: {_EXAMPLE}")
    for key, tasks in root.pairs:
        queue = key.text
        if not isinstance(tasks, Sequence):
            problem = f'queue "{queue}" has no list of tasks: begin each with `- `'
            raise refusal(place(tasks), problem)
        for task in tasks.items:
            nodes: dict[str, Node] = {"payload": task}
            if isinstance(task, Mapping):
                nodes = {field.text: value for field, value in task.pairs}
            fields = {field: _read_value(node) for field, node in nodes.items()}
            places = {field: place(node) for field, node in nodes.items()}
            yield Seed(queue, place(key), place(task), fields, places)


def _read_root(source: Source) -> Node | None:
    reports: Reports = {}
    root = None
    with suppress(UnreadableError):
        root = read_tree(source, reports, max_depth=_MAX_DEPTH, max_nodes=inf)
    _refuse(source, reports)
    return root


def _read_value(node: Node) -> object:
    """Return the value of a node as JSON has it: a date is text, as it is written."""
    if isinstance(node, Mapping):
        return {key.text: _read_value(value) for key, value in node.pairs}
    if isinstance(node, Sequence):
        return [_read_value(item) for item in node.items]
    return node.text if node.kind == "timestamp" else node.value


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
    for field, value in fields.items():  # one at a time, so that it is known which is wrong
        try:
            msgspec.convert({field: value}, SeedTask)
        except msgspec.ValidationError:
            problem = f"{field} is {quoted(value, limit=60)}: {_ADVICE[field]}"
            raise refusal(seed.places[field], problem) from None
    try:
        task = msgspec.convert(fields, SeedTask)
        _check(task)
    except PullQueueError as error:
        field = FIELD_OF_ERROR.get(type(error), "request" if "request" in fields else "payload")
        raise refusal(seed.places.get(field, seed.place), str(error)) from None
    sent: Json = msgspec.to_builtins(task)
    return seed._replace(copies=sent.pop("count", 1), fields=sent)


def _check(task: SeedTask) -> None:
    """Check, as the server does, what no queue accepts."""
    if isinstance(task.eta, str):
        parse_time(task.eta, "eta", InvalidEtaError)
    if isinstance(task.countdown, float):
        duration_usec(task.countdown)
    payload = given(task.payload_base64) or given(task.payload) or b""
    sent = given(task.request)
    request = None if sent is None else sent.http_request
    new = EngineTask(payload, given(task.name), given(task.tag), request=request)
    check_new_tasks([new], Limits(), lambda: 0)
