"""`pullqueue stats`: the numbers of the queues, once or again and again."""

from __future__ import annotations

import json
import threading

import click

from pullqueue.cli._client import Client, queue_path
from pullqueue.cli._output import complete_queue, say, server_options, show_json, show_table
from pullqueue.cli._values import PAUSE_SECONDS
from pullqueue.cli.queues import HEAD, row_of


@click.command
@click.argument("names", nargs=-1, metavar="[QUEUE]...", shell_complete=complete_queue)
@click.option("--watch", is_flag=True, help="Show them again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=PAUSE_SECONDS,
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="How long --watch waits between them.",
)
@server_options
def stats(
    *, names: tuple[str, ...], watch: bool, interval: float, url: str | None, as_json: bool
) -> None:
    """Show the numbers of the pull queues, or of some.

    The columns are those of `pullqueue queues`. With --watch and --json, each line is a JSON
    document.
    """
    client = Client(url)
    pause = threading.Event()
    try:
        while True:
            _show(client, names, as_json=as_json, again=watch)
            if not watch or pause.wait(interval):
                return
    except KeyboardInterrupt:
        if not watch:
            raise


def _show(client: Client, names: tuple[str, ...], *, as_json: bool, again: bool) -> None:
    if names:
        shown = [client.get(queue_path(name))["queue"] for name in names]
    else:
        shown = [queue for queue in client.get("/queues")["queues"] if queue["mode"] == "pull"]
    if as_json:
        if again:
            click.echo(json.dumps({"queues": shown}))
        else:
            show_json({"queues": shown})
        return
    if again:
        click.clear()
    show_table(HEAD, map(row_of, shown), empty="no pull queues")
    if again:
        click.echo()
        say(f"{client.get('/clock')['now']}  (Ctrl-C ends)")
