"""`pullqueue queues` and `pullqueue stats`: the numbers of a running server's queues."""

from __future__ import annotations

import json
import sys
import threading

import click

from pullqueue.cli._client import Client, Json, queue_path
from pullqueue.cli._options import PAUSE_SECONDS, complete_queue, server_options
from pullqueue.cli._output import age, say, show_json, show_table

_HEAD = (
    *("QUEUE", "TASKS", "AVAIL", "LEASED", "SCHED", "EXHAUSTED", "OLDEST", "/MIN", "/HOUR"),
    *("LIMIT", "NOTE"),
)


@click.command
@server_options
def queues(*, url: str | None, as_json: bool) -> None:
    """List the queues and how many tasks they have.

    Of the TASKS, some are available (AVAIL), leased, or scheduled (SCHED), with an eta in the
    future. EXHAUSTED tasks have used up their leases. OLDEST: how long the first task has been
    due. /MIN and /HOUR: tasks leased in the last minute and hour. LIMIT: how often a task can be
    leased, the task_retry_limit of queue.yaml.
    """
    answer = Client(url).get("/queues")
    if as_json:
        show_json(answer)
    else:
        _show(answer["queues"], empty="no queues")


@click.command
@click.argument("names", nargs=-1, metavar="[QUEUE]...", shell_complete=complete_queue)
@click.option("--watch", is_flag=True, help="Show the statistics repeatedly, until Ctrl-C.")
@click.option(
    "--interval",
    type=PAUSE_SECONDS,
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="Pause of --watch in seconds.",
)
@server_options
def stats(
    *, names: tuple[str, ...], watch: bool, interval: float, url: str | None, as_json: bool
) -> None:
    """Show the statistics of all pull queues, or of some.

    The columns are those of `pullqueue queues`. With --watch and --json, each line is a JSON
    document.
    """
    client = Client(url)
    pause = threading.Event()
    try:
        while True:
            _show_stats(client, names, as_json=as_json, watch=watch)
            if not watch or pause.wait(interval):
                return
    except KeyboardInterrupt:
        if not watch:
            raise


def _show_stats(client: Client, names: tuple[str, ...], *, as_json: bool, watch: bool) -> None:
    if names:
        found = [client.get(queue_path(name))["queue"] for name in names]
    else:
        found = [queue for queue in client.get("/queues")["queues"] if queue["mode"] == "pull"]
    if as_json and watch:
        click.echo(json.dumps({"queues": found}))
    elif as_json:
        show_json({"queues": found})
    else:
        if watch:
            click.clear()
        _show(found, empty="no pull queues")
        if watch:
            click.echo()
        if watch and sys.stdout.isatty():
            say(f"{client.get('/clock')['now']}  (Ctrl-C ends)")


def _show(found: list[Json], *, empty: str) -> None:
    rows = [_row(queue) for queue in found]
    if any(row[-1] for row in rows):
        show_table(_HEAD, rows, empty=empty)
    else:
        show_table(_HEAD[:-1], [row[:-1] for row in rows], empty=empty)


def _row(queue: Json) -> list[object]:
    state = "" if queue["state"] == "running" else queue["state"]
    if queue["mode"] == "push":
        return [queue["name"], *[None] * (len(_HEAD) - 2), state or "push"]
    retry = queue["settings"].get("retry_parameters") or {}
    return [
        queue["name"],
        queue["tasks"],
        queue["available"],
        queue["leased"],
        queue["scheduled"],
        queue["exhausted"],
        age(queue["oldest_age_seconds"]),
        queue["leased_last_minute"],
        queue["leased_last_hour"],
        retry.get("task_retry_limit", "none"),
        state,
    ]
