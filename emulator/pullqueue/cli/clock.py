"""`pullqueue clock`: the time of a running server, and how to move it."""

from __future__ import annotations

import re

import click

from pullqueue.cli._client import Client, Json
from pullqueue.cli._options import server_options
from pullqueue.cli._output import say, show_json

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)?", re.ASCII)
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


@click.group(invoke_without_command=True)
@server_options
@click.pass_context
def clock(ctx: click.Context, *, url: str | None, as_json: bool) -> None:
    """Show the server's time, or move it.

    It can be moved if the server was started with --clock manual.
    """
    if ctx.invoked_subcommand is None:
        _show(Client(url).get("/clock"), as_json=as_json)


@clock.command
@click.argument("by")
@server_options
def advance(*, by: str, url: str | None, as_json: bool) -> None:
    """Move the clock forward BY a time span.

    BY is a number of seconds, or a time span such as 10min, 2h or 7d.
    """
    match = _SPAN.fullmatch(by.strip())
    if match is None:
        raise click.UsageError(f"BY is {by!r}: use seconds, or a time span such as 10min, 2h or 7d")
    seconds = float(match[1]) * _SECONDS[match[2]]
    _show(Client(url).post("/clock", {"advance": seconds}), as_json=as_json)


@clock.command("move-to")
@click.argument("time")
@server_options
def move_to(*, time: str, url: str | None, as_json: bool) -> None:
    """Move the clock forward to a TIME such as 2026-01-01T00:00:00Z."""
    _show(Client(url).post("/clock", {"move_to": time}), as_json=as_json)


def _show(answer: Json, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        say(f"{answer['now']}  ({'manual' if answer['manual'] else 'system'} clock)")
