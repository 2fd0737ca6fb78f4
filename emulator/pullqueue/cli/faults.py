"""`pullqueue faults`: make calls of an app fail, to see what it does."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client, Json
from pullqueue.cli._options import Number, complete_queue, server_options
from pullqueue.cli._output import Table, show
from pullqueue.control.fault_schema import KINDS, WHEN
from pullqueue.engine.interceptors import VERBS

_HEAD = ("NUMBER", "KIND", "CALL", "EFFECT", "WHEN", "TRIGGERED")


@click.group(invoke_without_command=True)
@server_options
@click.pass_context
def faults(ctx: click.Context, *, client: Client) -> None:
    """List the faults that are set, or set and remove faults.

    TRIGGERED: number of calls on which a fault has triggered, of those that it selects.
    Faults affect the calls of the app through every interface, never these commands or the console.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, client=client)


@faults.command("list")
@server_options
def list_(*, client: Client) -> None:
    """List the faults that are set, as `faults` alone does."""
    answer = client.get("/faults")
    show(answer, _table(answer["faults"]))


@faults.command
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("call", required=False, type=click.Choice(VERBS), metavar="[CALL]")
@click.option(
    "--error",
    help="Error that the calls raise: TransientError, DeadlineExceededError, InternalError, "
    "RateLimitExceededError, OverQuotaError, TaskLeaseExpiredError or QueueDisabledError. Default: "
    "TransientError; DeadlineExceededError for lose_response.",
)
@click.option("--seconds", type=Number(0), help="Latency in seconds, by the manual clock.")
@click.option(
    "--queue", help="Affect only calls on this queue. Default: all.", shell_complete=complete_queue
)
@click.option(
    "--times",
    type=click.IntRange(1),
    help="Maximum number of times the fault triggers. Default: always.",
)
@click.option(
    "--after", type=click.IntRange(0), help="Number of calls that succeed first. Default: 0."
)
@click.option("--every", type=click.IntRange(1), help="Trigger at every Nth call. Default: 1.")
@click.option(
    "--probability",
    type=Number(0, 1, min_open=True),
    help="Probability to trigger at each call. Default: 1.",
)
@click.option("--seed", type=int, help="Seed of the random numbers, for repeatable tests.")
@server_options
def add(*, client: Client, **order: str | float | None) -> None:
    """Set a fault of a KIND for a CALL.

    fail: the call does nothing and raises an error. lose_response: it is carried out, and raises an
    error nevertheless. latency: the manual clock moves forward. empty_leases: leases return no
    tasks; it needs no CALL.

    A CALL is one of add, lease_tasks, lease_tasks_by_tag, modify_task_lease, delete_tasks, purge,
    fetch_statistics, get_task and list_tasks.
    """
    answer = client.post("/faults", **order)
    show(answer, _table([answer["fault"]]))


@faults.command
@click.argument("number", type=int)
@server_options
def remove(*, number: int, client: Client) -> None:
    """Remove the fault with this NUMBER."""
    answer = client.call("DELETE", f"/faults/{number}")
    show(answer, f"{answer['deleted']} removed")


@faults.command
@server_options
def clear(*, client: Client) -> None:
    """Remove all faults."""
    answer = client.call("DELETE", "/faults")
    show(answer, f"{answer['deleted']} removed")


def _table(found: list[Json]) -> Table:
    return Table(_HEAD, map(_row, found), "no faults", cut=["WHEN"])


def _row(fault: Json) -> list[object]:
    effect = f"{fault['seconds']:.15g} s later" if "seconds" in fault else "no tasks"
    return [
        fault["number"],
        fault["kind"],
        fault.get("call", "every lease"),
        fault.get("error", effect),
        ", ".join(f"{name}={fault[name]}" for name in WHEN if name in fault) or "always",
        f"{fault['hits']} of {fault['calls']}",
    ]
