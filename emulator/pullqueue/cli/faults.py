"""`pullqueue faults`: let the calls of an app fail, to see what it does."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client, Json
from pullqueue.cli._output import complete_queue, server_options, show_json, show_table

_HEAD = ("NUMBER", "KIND", "CALL", "WHAT", "WHEN", "STRUCK")
_WHEN = ("queue", "times", "after", "every", "probability", "seed")


@click.group(invoke_without_command=True)
@server_options
@click.pass_context
def faults(ctx: click.Context, *, url: str | None, as_json: bool) -> None:
    """List the faults that are set, or set and remove some.

    Faults strike the calls of the app through every door, never these commands or the console.
    """
    if ctx.invoked_subcommand is None:
        answer = Client(url).get("/faults")
        if as_json:
            show_json(answer)
        else:
            show_table(_HEAD, map(_row, answer["faults"]), empty="no faults")


@faults.command
@click.argument("kind", type=click.Choice(["fail", "lose_answer", "latency", "empty_leases"]))
@click.argument("call", required=False)
@click.option("--error", help="What the calls fail with, such as TransientError.")
@click.option("--seconds", type=float, help="Of latency, by the manual clock.")
@click.option("--queue", help="Only calls on this queue.", shell_complete=complete_queue)
@click.option("--times", type=int, help="So often at most.")
@click.option("--after", type=int, help="Let so many calls through first.")
@click.option("--every", type=int, help="Only every second, third...")
@click.option("--probability", type=float, help="How likely, more than 0, at most 1.")
@click.option("--seed", type=int, help="Of the probability.")
@server_options
def add(*, url: str | None, as_json: bool, **order: str | float | None) -> None:
    """Set a fault of a KIND for a CALL such as lease_tasks (empty_leases needs none)."""
    given = {name: value for name, value in order.items() if value is not None}
    fault = Client(url).post("/faults", given)["fault"]
    if as_json:
        show_json({"fault": fault})
    else:
        show_table(_HEAD, [_row(fault)], empty="")


@faults.command
@click.argument("number", type=int)
@server_options
def remove(*, number: int, url: str | None, as_json: bool) -> None:
    """Take the fault of a NUMBER away."""
    _deleted(Client(url).delete(f"/faults/{number}"), as_json=as_json)


@faults.command
@server_options
def clear(*, url: str | None, as_json: bool) -> None:
    """Take all faults away."""
    _deleted(Client(url).delete("/faults"), as_json=as_json)


def _deleted(answer: Json, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['deleted']} removed")


def _row(fault: Json) -> list[object]:
    seconds = fault.get("seconds")
    what = fault.get("error", "" if seconds is None else f"{seconds} s")
    when = ", ".join(f"{name}={fault[name]}" for name in _WHEN if name in fault)
    struck = f"{fault['hits']} of {fault['calls']}"
    return [fault["number"], fault["kind"], fault.get("call"), what, when or "always", struck]
