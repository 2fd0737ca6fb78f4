"""`pullqueue snapshot`: keep what the queues of a server hold in a file, and put it back."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import server_options, show_json, url_option

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
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as target:
                size = _copy(stream, target)
            part.replace(file)
        except OSError as error:
            part.unlink(missing_ok=True)
            reason = error.strerror or error
            raise click.ClickException(f"cannot write {str(file)!r}: {reason}") from None
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
    """Load from FILE, or from standard input (-), in place of everything that is there."""
    client = Client(url)
    with ExitStack() as stack:
        if str(file) == "-":
            answer = client.put("/snapshot", sys.stdin.buffer.read(), shift=shift)
        else:
            try:
                source = stack.enter_context(file.open("rb"))
            except OSError as error:
                message = f"cannot read {str(file)!r}: {error.strerror}"
                raise click.ClickException(message) from None
            answer = client.put("/snapshot", _read(source), shift=shift)
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['tasks']} tasks loaded")


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
