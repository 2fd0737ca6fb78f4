"""`pullqueue snapshot`: keep what the queues of a server hold in a file, and put it back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

import click

from pullqueue.cli._client import Client, RefusedError
from pullqueue.cli._output import server_options, show_json, url_option
from pullqueue.cli._reasons import unreadable, unwritable
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
    with client.open("GET", "/snapshot") as stream:
        if str(file) == "-":
            _copy(stream, sys.stdout.buffer)
            return
        part = file.parent / f"{file.name}.part"
        try:
            with part.open("wb") as target:
                size = _copy(stream, target)
            part.replace(file)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise unwritable(file, error) from None
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
        answer = client.put("/snapshot", _content(file), shift=shift)
    except RefusedError as error:
        # The server speaks of what it was sent, a person of the file.
        message = error.message.replace("the body", "it", 1)
        raise click.ClickException(f"{file}: {message}; nothing was changed") from None
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{count_tasks(answer['tasks'])} loaded")


def _content(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        with file.open("rb") as source:
            return _read(source)
    except OSError as error:
        raise unreadable(file, error) from None


def _copy(source: IO[bytes], target: IO[bytes]) -> int:
    size = 0
    with click.progressbar(
        length=int(getattr(source, "headers", {}).get("Content-Length") or 0),
        label="Saving",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            size += len(chunk)
            bar.update(len(chunk))
    return size


def _read(source: IO[bytes]) -> bytes:
    chunks = []
    with click.progressbar(
        length=os.fstat(source.fileno()).st_size,
        label="Loading",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            chunks.append(chunk)
            bar.update(len(chunk))
    return b"".join(chunks)
