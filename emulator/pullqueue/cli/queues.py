"""`pullqueue queues`: the queues of a running server."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client, Json
from pullqueue.cli._output import age, server_options, show_json, show_table

HEAD = (
    "QUEUE",
    "MODE",
    "TASKS",
    "AVAILABLE",
    "LEASED",
    "SCHEDULED",
    "OLDEST",
    "LEASED/MIN",
    "LEASED/HOUR",
    "RETRY LIMIT",
)
"""The columns of the table."""


@click.command
@server_options
def queues(*, url: str | None, as_json: bool) -> None:
    """List the queues and their numbers.

    SCHEDULED tasks have an eta that lies ahead; OLDEST is for how long the first task has been
    due. LEASED/MIN and LEASED/HOUR count the tasks leased in the last minute and hour. RETRY LIMIT
    is the task_retry_limit of queue.yaml: how often a task can be leased.
    """
    answer = Client(url).get("/queues")
    if as_json:
        show_json(answer)
    else:
        show_table(HEAD, map(row_of, answer["queues"]), empty="no queues")


def row_of(queue: Json) -> list[object]:
    """Give the row of one queue."""
    kind = f"{queue['mode']}, disabled" if queue["disabled"] else queue["mode"]
    if queue["mode"] == "push":
        return [queue["name"], kind, *[None] * (len(HEAD) - 2)]
    retry = queue["settings"].get("retry_parameters") or {}
    return [
        queue["name"],
        kind,
        queue["tasks"],
        queue["available"],
        queue["leased"],
        queue["scheduled"],
        age(queue["oldest_age_seconds"]),
        queue["leased_last_minute"],
        queue["leased_last_hour"],
        retry.get("task_retry_limit", "none"),
    ]
