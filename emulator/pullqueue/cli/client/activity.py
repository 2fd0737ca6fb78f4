"""`pullqueue activity` and `workers`: who did what to a running server, and what failed."""

from __future__ import annotations

import click

from pullqueue.cli._output import Table, note, preview, show, when
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import server_options, since_option
from pullqueue.cli.client.connection import Json
from pullqueue.text import format_span

_ACTIONS = ("TIME (UTC)", "WHAT", "INTERFACE", "CLIENT")
_FAILURES = ("NUMBER", "FIRST (UTC)", "LAST (UTC)", "WHAT", "CLIENT")
_TIMES = ("first", "last")
_MINUTE = len("2026-01-01 14:05")
_WORKERS = (
    *("CLIENT", "LEASED", "LONGEST", "UNTIL (UTC)", "EXPIRED", "CALLS", "FAILED"),
    *("LAST CALL (UTC)", "METHOD", "QUEUES"),
)


@click.command
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, help="Maximum number in each list."
)
@since_option
@server_options
def activity(*, limit: int, since: str | None, client: Client) -> None:
    """List what operators did, and what failed, the latest first.

    Operators pause, purge, set faults, move the clock and the like, by commands, the console, the
    control routes and Cloud Tasks. Requests, calls and attempts that fail in the same way are one
    failure, from the FIRST to the LAST. Another begins more than a minute after the LAST, if one of
    the same kind succeeded meanwhile. Exhausted tasks have the minutes of the first and the last;
    those of adjacent minutes are one. `pullqueue requests --failure NUMBER` lists the requests.

    A reset deletes none of it but exhausted tasks. Actions on a server that was stopped are in its
    log only.
    """
    answer = client.get("/activity", limit=limit, since=since)
    actions = [
        [when(each["time"]), each["text"], each["interface"], preview(each["client"])]
        for each in answer["actions"]
    ]
    empty = f"nobody did anything since {since or 'the server started'}"
    failures = [
        [
            each["number"],
            *(when(each[name])[: _MINUTE if each["status"] is None else None] for name in _TIMES),
            each["text"],
            preview(each["client"]),
        ]
        for each in answer["failures"]
    ]
    done = Table(_ACTIONS, actions, empty, ("CLIENT",), ("INTERFACE", "CLIENT"), below="WHAT")
    failed = Table(_FAILURES, failures, "", (), ("CLIENT",), ("NUMBER",), below="WHAT")
    if failures:
        show(answer, done, "", failed)
    else:
        show(answer, done)
        note("nothing failed")


@click.command
@server_options
def workers(*, client: Client) -> None:
    """List the clients of the queues and their leases.

    CLIENT is the e-mail address of its credentials, or its User-Agent; of an app under `pullqueue
    exec`, the program and its process id. LEASED: tasks that it leased, or renewed, last. LONGEST:
    how long ago it leased or renewed the first of them. UNTIL: when the last of its leases ends.
    EXPIRED: tasks that are available again because its lease has expired. The client that called
    last is listed first; a worker that is dead has leases, and no new calls. The leases of `not
    recorded` came with a snapshot, or are too old: it is not known who has them.
    """
    answer = client.get("/workers")
    rows = [_worker_row(worker) for worker in answer["workers"]]
    cut, left_out = ("CLIENT", "QUEUES"), ("METHOD", "CALLS", "FAILED", "QUEUES")
    show(answer, Table(_WORKERS, rows, "no client has called yet", cut, left_out))


def _worker_row(worker: Json) -> list[object]:
    longest = worker["longest_seconds"]
    return [
        worker["client"],
        worker["leased"],
        None if longest is None else format_span(longest),
        None if worker["until"] is None else when(worker["until"]),
        worker["expired"],
        worker["calls"],
        worker["failed"],
        "unknown" if worker["last"] is None else when(worker["last"]),
        worker["last_method"],
        ", ".join(worker["queues"]),
    ]
