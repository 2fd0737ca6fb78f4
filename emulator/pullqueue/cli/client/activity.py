"""`pullqueue activity`: what operators of a running server did, and what failed."""

from __future__ import annotations

import click

from pullqueue.cli._output import Table, show, when
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import server_options, since_option


@click.command
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, help="Maximum number.")
@since_option
@server_options
def activity(*, limit: int, since: str | None, client: Client) -> None:
    """List what operators did and what failed, the latest first.

    Operators pause, purge, set faults, move the clock and the like, by commands, the console, the
    control routes and Cloud Tasks. Requests, calls and attempts that fail in the same way are one
    line, until somebody does something, or for a minute none fails. Exhausted tasks are counted by
    the minute. `pullqueue requests` lists each request.

    A reset deletes none of it but exhausted tasks. Actions on a server that was stopped are in its
    log only.
    """
    answer = client.get("/activity", limit=limit, since=since)
    rows = [
        [when(each["time"]), each["text"], each["interface"] or "", each["client"]]
        for each in answer["activity"]
    ]
    head = ("TIME (UTC)", "WHAT", "INTERFACE", "CLIENT")
    empty = f"nothing has happened since {since or 'the server started'}"
    show(answer, Table(head, rows, empty, ("CLIENT", "WHAT"), ("INTERFACE",)))
