"""`pullqueue clock`: the time of a running server, and moving it."""

from __future__ import annotations

import math
import sys
from datetime import datetime

import click

from pullqueue.cli._options import DURATION_ADVICE, parse_seconds
from pullqueue.cli._output import Table, note, show, when
from pullqueue.cli._words import Group
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import server_options
from pullqueue.cli.client.connection import Json

_CALL_SECONDS = 1.0
"""How long a call delivers: then it shows how far it is, and an interrupt ends it."""
_DONE = ("expired", "due", "delivered", "failed", "exhausted")
"""Numbers of what a move did."""
_NOW = ("sending", "waiting")
"""Numbers of what is so at its end."""
_NEGATIVE = {"ignore_unknown_options": True}
"""Makes `-5s` an argument, about which a message can be written."""


@click.group(cls=Group, default="show")
def clock() -> None:
    """Show the server's time, or move it.

    Only the time of a server that was started with --clock manual can be moved.
    """


@clock.command("show")
@server_options
def show_(*, client: Client) -> None:
    """Show the server's time, as `clock` alone does."""
    _show_clock(client.get("/clock"))


_deliver_option = click.option(
    "--deliver",
    is_flag=True,
    help="Deliver push tasks while the time passes, at the rates and with the retries "
    "of their queues.",
)


@clock.command(context_settings=_NEGATIVE)
@click.argument("by")
@_deliver_option
@server_options
def advance(*, by: str, deliver: bool, client: Client) -> None:
    """Move the clock forward BY a time span.

    BY is a number of seconds, or a time span such as 10min, 2h or 7d. What that did is listed by
    queue: leases that EXPIRED, tasks that became DUE, attempts that were DELIVERED or FAILED,
    EXHAUSTED tasks, and push tasks that are sent now (SENDING) or are WAITING. A line below says
    what they wait for.
    """
    seconds = parse_seconds(by)
    if seconds is None or by.startswith("-") or not math.isfinite(seconds):
        problem = ", and a clock never goes back" if by.startswith("-") else ""
        raise click.UsageError(f'BY is "{by}"{problem}: {DURATION_ADVICE}')
    _move(client, deliver=deliver, advance=seconds)


@clock.command("move-to", context_settings=_NEGATIVE)
@click.argument("move_to", metavar="TIME")
@_deliver_option
@server_options
def move_to(*, move_to: str, deliver: bool, client: Client) -> None:
    """Move the clock forward to a TIME such as 2026-01-01T00:00:00Z."""
    _move(client, deliver=deliver, move_to=move_to)


def _move(client: Client, *, deliver: bool, **target: object) -> None:
    """Move the clock, in several calls where delivery takes long, and show what that did."""
    answer = client.post("/clock", deliver=deliver, seconds=_CALL_SECONDS, **target)
    if not answer["reached"]:
        answer = _go_on(client, answer)
    _show_step(answer)


def _go_on(client: Client, answer: Json) -> Json:
    """Deliver until the time is reached, and show on a terminal how far that is."""
    label = f"delivering until {when(answer['target'])}"
    seconds = _seconds(answer, "target")
    with click.progressbar(length=seconds, label=label, file=sys.stderr) as bar:
        while not answer["reached"]:
            bar.update(_seconds(answer, "now") - bar.pos)
            answer = client.post(
                "/clock", deliver=True, seconds=_CALL_SECONDS, move_to=answer["target"]
            )
        bar.update(seconds - bar.pos)
    return answer


def _seconds(answer: Json, time: str) -> int:
    """Return how much later than its start a time of a move is, in seconds."""
    span = datetime.fromisoformat(answer[time]) - datetime.fromisoformat(answer["start"])
    return math.ceil(span.total_seconds())


def _show_clock(answer: Json, *more: Table) -> None:
    show(answer, f"{answer['now']}  ({'manual' if answer['manual'] else 'system'} clock)", *more)


def _show_step(answer: Json) -> None:
    rows = [[step[name] for name in ("queue", *_DONE, *_NOW)] for step in answer["steps"]]
    head = [name.upper() for name in ("queue", *_DONE, *_NOW)]
    left_out = ("EXPIRED", "DUE")
    _show_clock(answer, *([Table(head, rows, "", ["QUEUE"], left_out)] if rows else []))
    for step in answer["steps"]:
        if step["text"]:
            note(f"{step['queue']}: {step['text']}")
