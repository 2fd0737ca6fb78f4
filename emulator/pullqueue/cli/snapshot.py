"""`pullqueue snapshot`: keep what the queues of a server hold in a file, and put it back."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import IO

import click

from pullqueue.cli._client import Answer, Client, RefusedError
from pullqueue.cli._input import STDIN, content_of
from pullqueue.cli._output import server_options, show_json, url_option
from pullqueue.cli._reasons import unwritable
from pullqueue.config.files import replace_file
from pullqueue.tasks import count_tasks

_CHUNK_BYTES = 1 << 18


@click.group
def snapshot() -> None:
    """Save everything the queues hold, and load it again.

    Tasks, leases, names that are taken, exhausted tasks and statistics are kept; the record of what
    happened to the tasks is not.
    """


@snapshot.command
@click.argument("file", type=click.Path(path_type=Path))
@url_option
def save(*, file: Path, url: str | None) -> None:
    """Save to FILE, or to standard output (-).

    A new FILE can be read by its owner alone.
    """
    client = Client(url)
    with client.open("GET", "/snapshot") as answer:
        if str(file) == STDIN:
            _copy(answer, sys.stdout.buffer)
            return
        target = BytesIO()
        _copy(answer, target)
    try:
        replace_file(file, target.getvalue(), private=True)
    except OSError as error:
        raise unwritable(file, error) from None
    click.echo(f"{file}: {target.tell()} bytes")


@snapshot.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--shift",
    is_flag=True,
    help="Move all moments by what has passed since: leases have as long to run as they had.",
)
@server_options
def load(*, file: Path, shift: bool, url: str | None, as_json: bool) -> None:
    """Load from FILE, or from standard input (-).

    What the file has takes the place of everything that is there.
    """
    client = Client(url)
    try:
        answer = client.put("/snapshot", content_of(file), shift=shift)
    except RefusedError as error:
        # The server speaks of what it was sent, a person of the file.
        why = error.message.replace("the body", "it", 1)
        message = f"{file} cannot be loaded: {why}; nothing was changed"
        raise click.ClickException(message) from None
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{count_tasks(answer['tasks'])} loaded")


def _copy(source: Answer, target: IO[bytes]) -> None:
    with click.progressbar(
        length=source.bytes,
        label="Saving",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            bar.update(len(chunk))
