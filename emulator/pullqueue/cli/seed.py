"""`pullqueue seed`: add the tasks of a file to a running server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._client import Client, RefusedError, queue_path
from pullqueue.cli._options import server_options
from pullqueue.cli._output import content_of, progress, show
from pullqueue.error_codes import EXIT_REFUSED
from pullqueue.limits import MIB
from pullqueue.tasks import count_tasks

if TYPE_CHECKING:
    from pullqueue.cli._seed import Seed

_BATCH = 100
_BATCH_BYTES = 8 * MIB
"""Maximum size of one request: half of what a server accepts."""


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@server_options
def seed(*, file: Path, client: Client) -> int:
    """Add the tasks of a YAML or JSON file.

    FILE has a list of tasks for each queue; - is standard input.

    \b
        pull-queue:
          - payload: parse1
            tag: parse
          - payload: {order: 17}     # becomes JSON
            countdown: 60
            count: 1000              # adds 1000 of them

    A task can have payload or payload_base64, name, tag, eta, countdown and count. FILE can also
    have one JSON object per line (.jsonl): a task with its `queue`. If anything in FILE is not
    valid, nothing is added. Tasks whose names are in use are left out; the exit status is then 1.
    """  # noqa: D301 - the mark is click's
    from pullqueue.cli._seed import seeds_of  # noqa: PLC0415 - imports YAML

    data = content_of(file)
    seeds = _checked(client, seeds_of(data, file), lines=data.count(b"\n"))
    added, refused = 0, 0
    with progress("Adding", sum(seed.copies for seed in seeds)) as bar:
        for batch in _batches(seeds):
            tasks = [seed.fields for seed in batch]
            try:
                answer = client.post(queue_path(batch[0].queue, "tasks"), tasks=tasks)
            except RefusedError as error:
                raise _refused(batch, error, added) from None
            added += len(answer["tasks"])
            refused += len(answer["refused"])
            bar.update(len(batch))
    in_use = f"; {count_tasks(refused)} not, since their names are in use" if refused else ""
    show({"added": added, "refused": refused}, f"{count_tasks(added)} added{in_use}")
    return EXIT_REFUSED if refused else 0


def _refused(batch: list[Seed], error: RefusedError, added: int) -> RefusedError:
    """Return the error for a batch, of which the server does not say which task is wrong."""
    alone = all(seed is batch[0] for seed in batch)
    where = "" if alone else "in this task or one after it: "
    before = f"; {count_tasks(added)} were added before" if added else ""
    return error.reworded(f"{batch[0].place}: {where}{error.message}{before}")


def _checked(client: Client, seeds: Iterable[Seed], *, lines: int) -> list[Seed]:
    """Return the tasks by queue, once all are read and their queues are pull queues."""
    checked: list[Seed] = []
    queues: set[str] = set()
    with progress("Checking", lines, every=_BATCH) as bar:
        for each in seeds:
            if each.queue not in queues:
                _check_queue(client, each)
                queues.add(each.queue)
            bar.update(each.place.line - (checked[-1].place.line if checked else 0))
            checked.append(each)
        bar.update(max(lines, _BATCH))  # shows the end
    return sorted(checked, key=lambda seed: seed.queue)  # batches are for one queue each


def _check_queue(client: Client, seed: Seed) -> None:
    try:
        mode = client.get(queue_path(seed.queue))["queue"]["mode"]
    except RefusedError as error:
        raise error.reworded(f"{seed.queue_place}: {error.message}") from None
    if mode != "pull":
        message = f'queue "{seed.queue}" is a push queue: name one with `mode: pull`'
        raise seed.queue_place.refusal(message)


def _batches(seeds: list[Seed]) -> Iterator[list[Seed]]:
    """Yield the tasks in batches for one queue each, every task as often as it is wanted."""
    batch: list[Seed] = []
    size = 0
    for seed in seeds:
        bytes_sent = len(json.dumps(seed.fields))
        for _ in range(seed.copies):
            full = len(batch) == _BATCH or size + bytes_sent > _BATCH_BYTES
            if batch and (full or batch[0].queue != seed.queue):
                yield batch
                batch, size = [], 0
            batch.append(seed)
            size += bytes_sent
    if batch:
        yield batch
