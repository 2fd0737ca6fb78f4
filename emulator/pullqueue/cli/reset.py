"""`pullqueue reset`: a clean slate."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import url_option


@click.command
@click.confirmation_option("--yes", prompt="Forget all tasks of all queues?")
@url_option
def reset(*, url: str | None) -> None:
    """Forget tasks, names, records, requests and faults; keep configuration and clock."""
    Client(url).post("/reset")
    click.echo("everything is forgotten")
