"""`pullqueue reset`: a clean slate."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import confirm, url_option
from pullqueue.tasks import count_tasks


@click.command
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def reset(*, yes: bool, url: str | None) -> None:
    """Forget tasks, records and faults, once that was confirmed.

    Names that were taken are free again, and requests are forgotten, and so are push tasks of apps.
    Configuration and clock stay.
    """
    client = Client(url)
    if not yes:
        queues = client.get("/queues")["queues"]
        count = count_tasks(sum(queue["tasks"] for queue in queues))
        confirm(f"Forget everything, {count} of all queues included?")
    client.post("/reset")
    click.echo("everything is forgotten")
