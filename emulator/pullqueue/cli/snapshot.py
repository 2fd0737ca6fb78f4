"""`pullqueue snapshot`: keep what the queues of a server hold in a file, and put it back."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import click

from pullqueue.cli._client import Answer, Client, RefusedError
from pullqueue.cli._input import STDIN, content_of
from pullqueue.cli._output import server_options, show_json, url_option
from pullqueue.cli._reasons import unwritable
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
    """Save to FILE, or to standard output (-)."""
    client = Client(url)
    with client.open("GET", "/snapshot") as answer:
        if str(file) == STDIN:
            _copy(answer, sys.stdout.buffer)
            return
        part = file.parent / f"{file.name}.part"
        try:
            with part.open("wb") as target:
                size = _copy(answer, target)
            part.replace(file)
        except OSError as error:
            raise unwritable(file, error) from None
        finally:
            with suppress(OSError):
                part.unlink()
    click.echo(f"{file}: {size} bytes")


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
        message = error.message.replace("the body", "it", 1)
        raise click.ClickException(f"{file}: {message}; nothing was changed") from None
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{count_tasks(answer['tasks'])} loaded")


def _copy(source: Answer, target: IO[bytes]) -> int:
    size = 0
    with click.progressbar(
        length=source.bytes,
        label="Saving",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            size += len(chunk)
            bar.update(len(chunk))
    return size
