"""`pullqueue queues`: list, pause, resume and purge the queues of a running server."""

from __future__ import annotations

import threading

import click

from pullqueue.cli._options import Duration
from pullqueue.cli._output import Table, note, show, wants_json, when
from pullqueue.cli._words import Group
from pullqueue.cli.client import Client, queue_path
from pullqueue.cli.client._options import complete_queue, server_options, yes_option
from pullqueue.cli.client._tasks import confirm_deletion
from pullqueue.cli.client.connection import Json
from pullqueue.text import format_span

_HEAD = (
    *("QUEUE", "TASKS", "AVAIL", "LEASED", "SCHED", "EXHAUSTED", "OLDEST", "DONE", "FAILED"),
    *("LIMIT", "NOTE"),
)
_COLOURS = {"error": "red", "warning": "yellow"}
_LEFT_OUT = ("LIMIT", "SCHED", "OLDEST", "DONE")


@click.group(cls=Group)
def queues() -> None:
    """List, pause, resume and purge queues."""


@queues.command("list")
@click.argument("names", nargs=-1, metavar="[QUEUE]...", shell_complete=complete_queue)
@click.option("--watch", is_flag=True, help="Show them repeatedly, until Ctrl-C.")
@click.option(
    "--interval",
    type=Duration(0.1),
    default=2,
    help="Time between two updates of --watch, in seconds.",
)
@server_options
def list_(*, names: tuple[str, ...], watch: bool, interval: float, client: Client) -> None:
    """List all queues, or some, and how many tasks they have.

    TASKS are available (AVAIL), leased, or scheduled (SCHED), which means that their eta is in the
    future. EXHAUSTED tasks have used up their leases. OLDEST: time since the first task became due.
    DONE: tasks that workers deleted, or attempts that succeeded, in the last minute. FAILED:
    attempts that failed in the last minute. LIMIT: maximum number of leases of a task, the
    task_retry_limit of queue.yaml. A terminal that is too narrow shows no LIMIT, then no SCHED,
    OLDEST and DONE.

    Of a push queue, LEASED counts the tasks that are being sent, and SCHED also those that wait
    for their next attempt. Below is a line for each queue whose tasks do not move: why, and when
    they will; for each queue with an http_target, what it overrides in its HTTP tasks; and one on
    what changes the behaviour of the server: a manual clock, faults, paused queues, exhausted
    tasks, and where push tasks are delivered. With --watch and --json, each line is a JSON
    document.
    """
    if not watch:
        _show_queues(client, names)
        return
    pause = threading.Event()
    try:
        while True:
            if not wants_json():
                click.clear()
            _show_queues(client, names, indent=None)
            pause.wait(interval)
    except KeyboardInterrupt:
        return


def _show_queues(client: Client, names: tuple[str, ...], *, indent: int | None = 2) -> None:
    if names:
        found = [client.get(queue_path(name))["queue"] for name in names]
    else:
        found = client.get("/queues")["queues"]
    summary = client.get("/summary")
    table = _table(found, empty="no queues")
    show({"queues": found, "summary": summary}, table, indent=indent)
    for queue in found:
        if queue["http_target"]:
            note(f"{queue['name']}: its HTTP tasks are sent with {queue['http_target']}")
        progress = queue["progress"]
        if progress["text"]:
            note(f"{queue['name']}: {progress['text']}", _COLOURS.get(progress["severity"]))
    if line := _summary_line(summary):
        note(line)


def _summary_line(summary: Json) -> str:
    """Return what changes the behaviour of a server on one line; empty if nothing does."""
    clock, faults, push = summary["clock"], summary["faults"], summary["push"]
    parts = [f"manual clock at {when(clock['now'])}"] if clock["manual"] else []
    if faults:
        kinds = ", ".join(f"{fault['kind']} {fault.get('call', '')}".strip() for fault in faults)
        parts.append(f"faults: {kinds}")
    if summary["paused"]:
        parts.append(f"paused: {', '.join(summary['paused'])}")
    for tasks, counts in (
        ("exhausted tasks", summary["exhausted"]),
        ("tasks of queues that are not in queue.yaml", summary["unlisted"]),
    ):
        if counts:
            parts.append(f"{tasks}: {', '.join(f'{n} in {queue}' for queue, n in counts.items())}")
    if push and push["addresses"]:
        parts.append(f"push tasks go to {', '.join(push['addresses'])}")
    return "; ".join(parts)


_queues_argument = click.argument(
    "names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=complete_queue
)


@queues.command
@_queues_argument
@server_options
def pause(*, names: tuple[str, ...], client: Client) -> None:
    """Stop leasing and sending the tasks of queues."""
    _change(client, names, "pause")


@queues.command
@_queues_argument
@server_options
def resume(*, names: tuple[str, ...], client: Client) -> None:
    """Lease and send the tasks of paused queues again.

    A push queue with `rate: 0` sends nothing until it has another rate.
    """
    for queue in _change(client, names, "resume"):
        if _has_rate_0(queue):
            note(
                f'queue "{queue["name"]}" is resumed, but its tasks are not sent: rate is 0; set '
                "another rate in queue.yaml"
            )


@queues.command
@_queues_argument
@yes_option
@server_options
def purge(*, names: tuple[str, ...], yes: bool, client: Client) -> None:
    """Delete all tasks of queues (asks for confirmation)."""
    found = [client.get(queue_path(name))["queue"] for name in names]
    if not yes:
        confirm_deletion(sum(queue["tasks"] for queue in found), *names)
    deleted = {name: client.post(queue_path(name, "purge"))["deleted"] for name in names}
    show({"deleted": deleted}, *(f"{name}: {count} deleted" for name, count in deleted.items()))


def _change(client: Client, names: tuple[str, ...], verb: str) -> list[Json]:
    for name in names:
        client.get(queue_path(name))  # before any is changed: all exist
    found = [client.post(f"{queue_path(name)}/{verb}")["queue"] for name in names]
    show({"queues": found}, _table(found, empty=""))
    return found


def _has_rate_0(queue: Json) -> bool:
    rate = queue["settings"].get("rate")
    return queue["mode"] == "push" and bool(rate) and not rate["count"]


def _table(found: list[Json], *, empty: str) -> Table:
    return Table(_HEAD, map(_row, found), empty, ("NOTE", "QUEUE"), _LEFT_OUT, ("NOTE",))


def _row(queue: Json) -> list[object]:
    state = "" if queue["state"] == "running" else queue["state"]
    if queue["paused"]:
        state += f", {queue['paused']} due"
    if queue["mode"] == "push":
        stopped = "not sent: rate is 0" if _has_rate_0(queue) else ""
        state = ", ".join(filter(None, ["push", state, stopped]))
    retry = queue["settings"].get("retry_parameters") or {}
    oldest, progress = queue["oldest_age_seconds"], queue["progress"]
    return [
        queue["name"],
        queue["tasks"],
        queue["available"],
        queue["leased"] + queue["running"],
        queue["scheduled"] + queue["retrying"],
        queue["exhausted"],
        None if oldest is None else format_span(oldest),
        progress["done"],
        progress["failed"] if queue["mode"] == "push" else None,
        retry.get("task_retry_limit", "none"),
        state,
    ]
