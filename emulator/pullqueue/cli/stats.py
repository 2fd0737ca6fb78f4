"""`pullqueue stats`: the numbers of the queues, once or again and again."""

from __future__ import annotations

import json
import threading

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import complete_queue, server_options, show_json, show_table
from pullqueue.cli.queues import HEAD, row_of


@click.command
@click.argument("names", nargs=-1, metavar="[QUEUE]...", shell_complete=complete_queue)
@click.option("--watch", is_flag=True, help="Show them again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=2.0,
    show_default=True,
    help="Of --watch, in seconds.",
)
@server_options
def stats(
    *, names: tuple[str, ...], watch: bool, interval: float, url: str | None, as_json: bool
) -> None:
    """Show the numbers of the pull queues, or of some.

    With --watch and --json, each line is a JSON document.
    """
    client = Client(url)
    pause = threading.Event()
    while True:
        _show(client, names, as_json=as_json, again=watch)
        if not watch or pause.wait(interval):
            return


def _show(client: Client, names: tuple[str, ...], *, as_json: bool, again: bool) -> None:
    queues = client.get("/queues")["queues"]
    unknown = set(names) - {queue["name"] for queue in queues}
    if unknown:
        raise click.ClickException(f"there is no queue {min(unknown)!r}")
    shown = [
        queue for queue in queues if (queue["name"] in names if names else queue["mode"] == "pull")
    ]
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
        click.echo(f"\n{client.get('/clock')['now']}  (Ctrl-C ends)")
