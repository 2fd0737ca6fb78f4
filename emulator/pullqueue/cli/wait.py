"""`pullqueue wait`: until a server is ready, or its queues are empty."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

import click

from pullqueue.cli._client import Client, RefusedError, UnreachableError, queue_path
from pullqueue.cli._output import complete_queue, url_option
from pullqueue.cli._values import SECONDS
from pullqueue.tasks import count_tasks

_PAUSE_SECONDS = 0.1
_LEAST_SECONDS = 1.0
_MOST_SECONDS = 60.0
"""How long one look may take."""
_SERVICE_UNAVAILABLE = 503


@click.command
@click.option(
    "--empty",
    "queues",
    multiple=True,
    metavar="QUEUE",
    shell_complete=complete_queue,
    help="Wait until this queue has no task, leased or not; can be given again.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="How long at most; 0 looks once.",
)
@url_option
def wait(*, queues: tuple[str, ...], timeout: float, url: str | None) -> int:
    """Wait until the server is ready, or until queues are empty.

    The exit status is 1 if that takes too long.
    """
    end = monotonic() + timeout
    pause = threading.Event()
    for reached in [_ready, *(_is_empty(queue) for queue in queues)]:
        while (missing := reached(_client(url, end))) is not None:
            if monotonic() >= end:
                click.echo(f"pullqueue: after {timeout:g} s, {missing}", err=True)
                return 1
            pause.wait(_PAUSE_SECONDS)
    return 0


def _client(url: str | None, end: float) -> Client:
    """Give a client that waits no longer for an answer than there is time."""
    left = end - monotonic()
    return Client(url, timeout=min(max(left, _LEAST_SECONDS), _MOST_SECONDS))


def _ready(client: Client) -> str | None:
    """Give what is missing until the server is ready; None: nothing."""
    try:
        client.get("/ready")
    except UnreachableError as error:
        return error.message
    except RefusedError as error:
        if error.status != _SERVICE_UNAVAILABLE:
            raise
        return f"{client.url} is not ready: {error.message}"
    return None


def _is_empty(queue: str) -> Callable[[Client], str | None]:
    def check(client: Client) -> str | None:
        numbers = client.get(queue_path(queue))["queue"]
        if not numbers["tasks"]:
            return None
        held = count_tasks(numbers["tasks"])
        return f"queue {queue!r} has {held}, {numbers['leased']} of them leased"

    return check
