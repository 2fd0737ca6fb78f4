"""`pullqueue requests`: the request log of a running server."""

from __future__ import annotations

import re
from typing import Any

import click

from pullqueue.cli._options import checked
from pullqueue.cli._output import Table, note, show, when
from pullqueue.cli._words import Choice
from pullqueue.cli.client import Client, _options, queue_path
from pullqueue.cli.client.connection import Json
from pullqueue.observe import RECORDED
from pullqueue.text import closest

_HEAD = (
    *("NUMBER", "TIME (UTC)", "INTERFACE", "METHOD", "QUEUE", "TASKS", "STATUS", "REASON", "MS"),
    "CLIENT",
)
_STATUS = re.compile("failed|[1-5](xx|[0-9]{2})")


@click.command
@_options.number_argument("request")
@click.option(
    "--queue", shell_complete=_options.complete_queue, help="Only requests on this queue."
)
@click.option("--task", help="Only requests about this task.")
@click.option(
    "--interface",
    type=Choice([each.value for each in RECORDED]),
    help="Only requests through this interface.",
)
@click.option(
    "--method", help="Only requests with this in their method, such as lease or CreateTask."
)
@click.option(
    "--client",
    "agent",
    shell_complete=_options.complete_client,
    help="Only requests with this in the client's address, User-Agent or e-mail address.",
)
@click.option(
    "--status",
    callback=checked(_STATUS.fullmatch, "status: use one such as 404, 4xx or failed"),
    help="Only this status, such as 404 or 4xx, or failed (400 or above, or none).",
)
@click.option("--search", help="Only requests with this text in path, body, response or REASON.")
@click.option(
    "--failure", type=click.IntRange(1), help="Only those of a failure that `activity` lists."
)
@click.option(
    "--fault", type=click.IntRange(1), help="Only those on which a fault of `faults` triggered."
)
@_options.since_option
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, help="Maximum number of requests."
)
@_options.server_options
def requests(
    *,
    number: str | None,
    agent: str | None,
    status: str | None,
    limit: int,
    client: Client,
    **filters: Any,
) -> None:
    """List the latest requests to the server, or show one.

    These are the requests of apps and workers through every interface, and attempts to send push
    tasks; those of the console and of these commands are left out. The latest is listed first. With
    a NUMBER, one is shown with what was sent and answered; an attempt also with its headers.

    TASKS is the task that a request was about, or how many there were. REASON: why it failed, or
    got no tasks, and how many attempts of the queue got no response for it, one after the other.
    MS: its duration in milliseconds. `tasks get` shows the number of the request for each event of
    a task.
    """
    if number is not None:
        _show_one(client.get(f"/requests/{number}"))
        return
    answer = client.get("/requests", limit=limit, status=status, client=agent, **filters)
    if filters["queue"] and not answer["requests"]:
        client.get(queue_path(filters["queue"]))  # reports a queue that does not exist
    method = filters["method"]
    advice = _advise_on(client, method) if method and not answer["requests"] else ""
    show(answer, _build_table(answer["requests"], f"no requests{advice}"))
    if answer["next"] is not None:
        note(f"these are the latest {limit}: set --limit or another option")


def _advise_on(client: Client, method: str) -> str:
    """Return which method of the latest requests is meant by a misspelt one, if any is."""
    methods = [each["method"] for each in client.get("/requests", limit=1000)["requests"]]
    names = {name for each in methods for name in (each, each.rpartition(".")[2])}
    near = closest(method, names)
    return f": did you mean --method {near}?" if near and method not in names else ""


def _build_table(found: list[Json], empty: str = "") -> Table:
    cut, left_out = ("CLIENT", "TASKS", "METHOD", "QUEUE"), ("MS", "INTERFACE")
    return Table(_HEAD, map(_build_row, found), empty, cut, left_out, ("REASON",), below="REASON")


def _build_row(logged: Json) -> list[object]:
    count, names = logged["task_count"], logged["tasks"]
    return [
        logged["number"],
        when(logged["time"]),
        logged["interface"],
        logged["method"] or f"{logged['verb']} {logged['path']}",
        logged["queue"],
        names[0] if names and count == 1 else count or "",
        logged["status"] or "none",
        f"{logged['times']} times: {logged['reason']}" if logged["times"] > 1 else logged["reason"],
        f"{logged['milliseconds']:.1f}",
        logged["caller"] or logged["agent"] or logged["client"],
    ]


def _show_one(answer: Json) -> None:
    logged = answer["request"]
    query = f"?{logged['query']}" if logged["query"] else ""
    lines = [f"{logged['verb']} {logged['path']}{query}"]
    left = max(0, logged["task_count"] - len(logged["tasks"]))
    lines.append(f"tasks: {', '.join(logged['tasks'])}{f' and {left} more' if left else ''}")
    lines += ["", "headers:", *logged["headers"]] if logged["headers"] else []
    for part, title in (("body", "sent"), ("response", "response")):
        content = logged[part]
        cut = ", the beginning" if content["truncated"] else ""
        lines += ["", f"{title}: {content['bytes']} bytes{cut}"]
        lines += [f"deferred call: {content['call']}"] if "call" in content else []
        text = content["base64"] if content["text"] is None else content["text"]
        lines += text.split("\n") if text else []
    show(answer, _build_table([logged]), *lines)
