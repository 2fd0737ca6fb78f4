"""`pullqueue workers`: the clients of a running server, and what they have leased."""

from __future__ import annotations

import click

from pullqueue.cli._output import Table, show, when
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import server_options
from pullqueue.cli.client.connection import Json
from pullqueue.text import format_span

_HEAD = (
    *("CLIENT", "LEASED", "LONGEST", "EXPIRED", "CALLS", "FAILED", "LAST CALL (UTC)", "METHOD"),
    "QUEUES",
)


@click.command
@server_options
def workers(*, client: Client) -> None:
    """List the clients of the queues and their leases.

    CLIENT is the e-mail address of its credentials, or its User-Agent; of an app under `pullqueue
    exec`, the program and its process id. LEASED: tasks that it leased, or renewed, last. LONGEST:
    how long ago it leased or renewed the first of them. EXPIRED: tasks that are available again
    because its lease has expired. The client that called last is listed first; a worker that is
    dead has leases, and no new calls. The leases of `not recorded` came with a snapshot, or are
    too old: it is not known who has them.
    """
    answer = client.get("/workers")
    rows = [_row(worker) for worker in answer["workers"]]
    cut, left_out = ("CLIENT", "QUEUES"), ("METHOD", "CALLS", "FAILED", "QUEUES")
    show(answer, Table(_HEAD, rows, "no client has called yet", cut, left_out))


def _row(worker: Json) -> list[object]:
    longest = worker["longest_seconds"]
    return [
        worker["client"],
        worker["leased"],
        None if longest is None else format_span(longest),
        worker["expired"],
        worker["calls"],
        worker["failed"],
        "unknown" if worker["last"] is None else when(worker["last"]),
        worker["last_method"],
        ", ".join(worker["queues"]),
    ]
