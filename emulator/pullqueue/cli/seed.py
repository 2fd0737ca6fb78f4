"""`pullqueue seed`: add the tasks of a file to a running server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pullqueue.cli._client import Client, RefusedError, queue_path, task_path
from pullqueue.cli._input import content_of
from pullqueue.cli._output import server_options, show_json
from pullqueue.cli._seed_files import Seed, seeds_of
from pullqueue.limits import MIB
from pullqueue.tasks import count_tasks

_BATCH = 100
_BATCH_BYTES = 8 * MIB
"""How much is sent at once: half of what a server takes."""


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@server_options
def seed(*, file: Path, url: str | None, as_json: bool) -> None:
    """Add the tasks of a YAML or JSON file.

    FILE has a list of tasks for each queue; - is standard input.

    \b
        pull-queue:
          - payload: parse1
            tag: parse
          - payload: {order: 17}     # becomes JSON
            countdown: 60
            count: 1000              # so many of them

    A task can have payload or payload_base64, name, tag, eta, countdown and count. A FILE whose
    name ends in .jsonl has one task a line, each with its `queue`. Nothing is added of a file with
    a fault.
    """  # noqa: D301 - the mark is click's
    seeds = seeds_of(content_of(file), file)
    client = Client(url)
    _check_queues(client, seeds)
    added, refused = 0, 0
    with click.progressbar(
        length=sum(seed.copies for seed in seeds),
        label="Adding",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        for batch in _batches(seeds):
            tasks = [seed.task for seed in batch]
            try:
                answer = client.post(task_path(batch[0].queue), {"tasks": tasks})
            except RefusedError as error:
                raise _refused(batch, error.message, added) from None
            added += len(answer["tasks"])
            refused += len(answer["refused"])
            bar.update(len(batch))
    if as_json:
        show_json({"added": added, "refused": refused})
    else:
        taken = f"; {refused} have names that are taken" if refused else ""
        click.echo(f"{count_tasks(added)} added{taken}")


def _refused(batch: list[Seed], why: str, added: int) -> click.ClickException:
    """Give the refusal of a batch, of which the server does not say which task it does not take."""
    alone = all(seed is batch[0] for seed in batch)
    where = "" if alone else "in this task or one after it: "
    before = f"; {count_tasks(added)} were added before" if added else ""
    return batch[0].place.refusal(f"{where}{why}{before}")


def _check_queues(client: Client, seeds: list[Seed]) -> None:
    """Refuse queues that cannot hold tasks before the first is added."""
    for name, place in dict.fromkeys((seed.queue, seed.queue_place) for seed in seeds):
        try:
            mode = client.get(queue_path(name))["queue"]["mode"]
        except RefusedError as error:
            raise place.refusal(error.message) from None
        if mode != "pull":
            raise place.refusal(f"queue {name!r} is a push queue: name one with `mode: pull`")


def _batches(seeds: list[Seed]) -> Iterator[list[Seed]]:
    """Give the entries in batches for one queue each, every entry as often as it is wanted."""
    batch: list[Seed] = []
    size = 0
    for seed in seeds:
        weight = len(json.dumps(seed.task))
        for _ in range(seed.copies):
            full = len(batch) == _BATCH or size + weight > _BATCH_BYTES
            if batch and (full or batch[0].queue != seed.queue):
                yield batch
                batch, size = [], 0
            batch.append(seed)
            size += weight
    if batch:
        yield batch
