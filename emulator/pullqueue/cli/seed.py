"""`pullqueue seed`: add the tasks of a file to a running server."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pullqueue.cli._client import Client, Json, task_path
from pullqueue.cli._output import server_options, show_json

_BATCH = 100
_FIELDS = frozenset({"payload", "payload_base64", "name", "tag", "eta", "countdown", "count"})


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@server_options
def seed(*, file: Path, url: str | None, as_json: bool) -> None:
    """Add the tasks of FILE: YAML or JSON that has a list of tasks for each queue.

    \b
        pull-queue:
          - payload: parse1
            tag: parse
          - payload: {order: 17}     # becomes JSON
            countdown: 60
            count: 1000              # so many of them

    A task can have payload or payload_base64, name, tag, eta, countdown and count. A FILE whose
    name ends in .jsonl has one task a line, each with its `queue`.
    """  # noqa: D301 - the mark is click's
    tasks = _tasks(file)
    total = sum(int(task.get("count", 1)) for _, task in tasks)
    client = Client(url)
    added, refused = 0, 0
    with click.progressbar(
        length=total, label="Adding", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        for queue, batch in _batches(tasks):
            answer = client.post(task_path(queue), {"tasks": batch})
            added += len(answer["tasks"])
            refused += len(answer["refused"])
            bar.update(len(batch))
    if as_json:
        show_json({"added": added, "refused": refused})
    else:
        taken = f"; {refused} have names that are taken" if refused else ""
        click.echo(f"{added} tasks added{taken}")


def _tasks(file: Path) -> list[tuple[str, Json]]:
    """Give the tasks of a file, each with its queue, in order."""
    text = _text(file)
    if file.suffix == ".jsonl":
        lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        return [_line(file, number, line) for number, line in lines]
    document = _document(file, text)
    if not isinstance(document, dict):
        raise _fault(file, "it must be a mapping: the name of each queue, and a list of its tasks")
    found = []
    for queue, tasks in document.items():
        if not isinstance(tasks, list):
            raise _fault(file, f"{queue!r} must be a list of tasks")
        found += [
            (str(queue), _task(file, f"task {n} of {queue!r}", task))
            for n, task in enumerate(tasks, 1)
        ]
    return found


def _batches(tasks: list[tuple[str, Json]]) -> Iterator[tuple[str, list[Json]]]:
    """Give the tasks in batches for one queue each; counted ones are multiplied."""
    each = (
        (queue, {name: value for name, value in task.items() if name != "count"})
        for queue, task in tasks
        for _ in range(task.get("count", 1))
    )
    queue: str | None = None
    batch: list[Json] = []
    for name, task in each:
        if batch and (name != queue or len(batch) == _BATCH):
            yield str(queue), batch
            batch = []
        queue = name
        batch.append(task)
    if batch:
        yield str(queue), batch


def _task(file: Path, place: str, task: object) -> Json:
    if not isinstance(task, dict):
        task = {"payload": task}
    unknown = {str(name) for name in task} - _FIELDS
    if unknown:
        raise _fault(file, f"{place} has {min(unknown)!r}: a task has {', '.join(sorted(_FIELDS))}")
    count = task.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise _fault(file, f"the count of {place} is {count!r}: give 1 or more")
    if count > 1 and "name" in task:
        raise _fault(file, f"{place} has both a name and a count: names are unique in a queue")
    fields = dict(task)
    if "payload" in fields and not isinstance(fields["payload"], str):
        payload = fields.pop("payload")
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        fields["payload_base64"] = b64encode(data).decode()
    if "eta" in fields and not isinstance(fields["eta"], str):
        fields["eta"] = fields["eta"].isoformat()
    return fields


def _line(file: Path, number: int, line: str) -> tuple[str, Json]:
    try:
        task = json.loads(line)
        queue = task.pop("queue")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _fault(file, f'line {number} must be a JSON object with a "queue"') from None
    return str(queue), _task(file, f"line {number}", task)


def _document(file: Path, text: str) -> Any:  # noqa: ANN401 - whatever stands in the file
    import yaml  # noqa: PLC0415 - only where it is needed

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _fault(file, f"it is not YAML: {error}") from None


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.ClickException(f"cannot read {str(file)!r}: {reason}") from None


def _fault(file: Path, what: str) -> click.ClickException:
    return click.ClickException(f"{file}: {what}")
