"""Commands on a server as a whole: wait, reload, reset, snapshot."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import IO

import click

from pullqueue.cli._client import Answer, Client, RefusedError, UnreachableError, queue_path
from pullqueue.cli._files import STDIN, content_of, unwritable
from pullqueue.cli._options import SECONDS, complete_queue, server_options, url_option
from pullqueue.cli._output import confirm, say, show_json
from pullqueue.config.files import replace_file
from pullqueue.tasks import count_tasks

_PAUSE_SECONDS = 0.1
_LEAST_SECONDS = 1.0
_MOST_SECONDS = 60.0
"""How long one request of `wait` may take."""
_CHUNK_BYTES = 1 << 18

_file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command
@click.option(
    "--empty",
    "queues",
    multiple=True,
    metavar="QUEUE",
    shell_complete=complete_queue,
    help="Wait until this queue has no task, leased or not; repeatable.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="Maximum time to wait in seconds; 0 checks once.",
)
@url_option
def wait(*, queues: tuple[str, ...], timeout: float, url: str | None) -> int:
    """Wait until the server is ready, or until queues are empty.

    The exit status is 1 if that takes longer than --timeout.
    """
    end = monotonic() + timeout
    pause = threading.Event()
    for check in [_ready, *(_is_empty(queue) for queue in queues)]:
        while (missing := check(_client(url, end))) is not None:
            if monotonic() >= end:
                click.echo(f"pullqueue: after {timeout:g} s, {missing}", err=True)
                return 1
            pause.wait(_PAUSE_SECONDS)
    return 0


def _client(url: str | None, end: float) -> Client:
    """Return a client that waits no longer for a response than there is time."""
    left = end - monotonic()
    return Client(url, timeout=min(max(left, _LEAST_SECONDS), _MOST_SECONDS))


def _ready(client: Client) -> str | None:
    """Return what is missing until the server is ready; None: nothing."""
    try:
        client.get("/ready")
    except UnreachableError as error:
        return error.message
    except RefusedError as error:
        if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return f"{client.url} is not ready: {error.message}"
    return None


def _is_empty(queue: str) -> Callable[[Client], str | None]:
    def check(client: Client) -> str | None:
        numbers = client.get(queue_path(queue))["queue"]
        if not numbers["tasks"]:
            return None
        left = count_tasks(numbers["tasks"])
        return f"queue {queue!r} has {left}, {numbers['leased']} of them leased"

    return check


@click.command
@server_options
def reload(*, url: str | None, as_json: bool) -> None:
    """Reload queue.yaml; a file that is not valid changes nothing."""
    answer = Client(url).post("/reload")
    if as_json:
        show_json(answer)
        return
    for verb, field in (("added", "added"), ("changed", "changed"), ("disabled", "removed")):
        if answer[field]:
            say(f"{verb}: {', '.join(answer[field])}")
    if not any(answer.values()):
        click.echo("no queue changed")


@click.command
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@url_option
def reset(*, yes: bool, url: str | None) -> None:
    """Delete all tasks, history and faults (asks for confirmation).

    Names of deleted tasks can be used again; requests and push tasks of apps are deleted, too.
    Configuration and clock are not changed.
    """
    client = Client(url)
    if not yes:
        queues = client.get("/queues")["queues"]
        count = count_tasks(sum(queue["tasks"] for queue in queues))
        confirm(f"Delete everything, {count} of all queues included?")
    client.post("/reset")
    click.echo("everything is deleted")


@click.group
def snapshot() -> None:
    """Save the contents of all queues to a file, and load it.

    Tasks, leases, reserved names, exhausted tasks and statistics are saved; the history of the
    tasks is not.
    """


@snapshot.command
@_file_argument
@url_option
def save(*, file: Path, url: str | None) -> None:
    """Save to FILE, or to standard output (-).

    A new FILE can be read by its owner only.
    """
    with Client(url).open("GET", "/snapshot") as answer:
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
@_file_argument
@click.option(
    "--shift",
    is_flag=True,
    help="Move every time by what has passed since: leases have as long to run as they had.",
)
@server_options
def load(*, file: Path, shift: bool, url: str | None, as_json: bool) -> None:
    """Load FILE, or standard input (-).

    It replaces the contents of all queues.
    """
    client = Client(url)
    try:
        answer = client.put("/snapshot", content_of(file), shift=shift)
    except RefusedError as error:
        # The server reports on what it was sent, a person thinks of the file.
        why = error.message.replace("the body", "it", 1)
        message = f"{file} cannot be loaded: {why}; nothing was changed"
        raise RefusedError(message, status=error.status) from None
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{count_tasks(answer['tasks'])} loaded")


def _copy(source: Answer, target: IO[bytes]) -> None:
    with click.progressbar(
        length=source.bytes, label="Saving", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
            bar.update(len(chunk))
