"""`pullqueue seed`: add the tasks of a file to a running server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._output import note, read_content, show
from pullqueue.cli.client import Client, FailedError, RefusedError, queue_path
from pullqueue.cli.client._options import server_options
from pullqueue.error_codes import EXIT_REFUSED
from pullqueue.limits import MIB
from pullqueue.tasks import count_tasks

if TYPE_CHECKING:
    from pullqueue.cli.client._seed import Seed

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
        push-queue:
          - payload: to=ada
            request: {url: /mail}

    A task can have payload or payload_base64, name, tag, eta, countdown, request and count. FILE
    can also have one JSON object per line (.jsonl): a task with its `queue`. If anything in FILE is
    not valid, nothing is added. Tasks whose names are in use are left out; the exit status is then
    1.
    """  # noqa: D301 - the mark is click's
    from pullqueue.cli.client._seed import parse_seeds

    hidden = not sys.stderr.isatty()
    # All are read and checked before the first is sent; batches are for one queue each.
    read = parse_seeds(read_content(file), file)
    with click.progressbar(
        read, label="Checking", update_min_steps=_BATCH, file=sys.stderr, hidden=hidden
    ) as checked:
        seeds = sorted(checked, key=attrgetter("queue"))
    _check_queues(client, seeds)
    added, refused = 0, 0
    total = sum(seed.copies for seed in seeds)
    with click.progressbar(length=total, label="Adding", file=sys.stderr, hidden=hidden) as bar:
        for batch in _batches(seeds):
            tasks = [seed.fields for seed in batch]
            try:
                answer = client.post(queue_path(batch[0].queue, "tasks"), tasks=tasks)
            except KeyboardInterrupt:
                # The server may have added the batch whose response did not arrive.
                note(f"\ninterrupted: {added} to {added + len(batch)} of {total} tasks were added")
                raise
            except RefusedError as error:
                # The server does not say which task of the batch is wrong.
                where = "" if batch[0] is batch[-1] else "in this task or one after it: "
                before = f"; {count_tasks(added)} were added before" if added else ""
                message = f"{batch[0].place}: {where}{error.message}{before}"
                raise _in_file(error, message) from None
            added += len(answer["tasks"])
            refused += len(answer["refused"])
            bar.update(len(batch))
    in_use = f"; {count_tasks(refused)} not, since their names are in use" if refused else ""
    show({"added": added, "refused": refused}, f"{count_tasks(added)} added{in_use}")
    return EXIT_REFUSED if refused else 0


def _check_queues(client: Client, seeds: list[Seed]) -> None:
    for queue, tasks in groupby(seeds, attrgetter("queue")):
        try:
            client.get(queue_path(queue))
        except (RefusedError, click.UsageError) as error:
            raise _in_file(error, f"{next(tasks).queue_place}: {error.message}") from None


def _in_file(error: click.ClickException, message: str) -> RefusedError:
    """Return the error for what a server does not take from a file: that is not wrong usage."""
    return FailedError(message) if isinstance(error, FailedError) else RefusedError(message)


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
