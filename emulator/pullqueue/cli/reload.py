"""`pullqueue reload`: let a running server read its queue.yaml anew."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import say, server_options, show_json


@click.command
@server_options
def reload(*, url: str | None, as_json: bool) -> None:
    """Reload queue.yaml.

    A file with faults changes nothing.
    """
    answer = Client(url).post("/reload")
    if as_json:
        show_json(answer)
        return
    for verb, names in (
        ("added", answer["added"]),
        ("changed", answer["changed"]),
        ("disabled", answer["removed"]),
    ):
        if names:
            say(f"{verb}: {', '.join(names)}")
    if not any(answer.values()):
        click.echo("no queue changed")
