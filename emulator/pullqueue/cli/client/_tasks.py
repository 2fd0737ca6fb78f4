"""What the commands of `pullqueue tasks` share: options, and tasks as tables and lines of text."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import click

from pullqueue.cli._options import Command, Duration
from pullqueue.cli._output import Table, confirm, preview, when
from pullqueue.cli._words import Choice
from pullqueue.cli.client._options import complete_tag, complete_task
from pullqueue.cli.client.connection import Json
from pullqueue.limits import Limits
from pullqueue.tasks import count_tasks, result_text
from pullqueue.text import format_span, quoted

FAILED = "attempt failed"
"""The kind of the event."""
_TITLES = {
    frozenset({False}): ("TAG", "LEASES"),
    frozenset({True}): ("REQUEST", "ATTEMPTS"),
    frozenset({False, True}): ("TAG/REQUEST", "LEASES/ATTEMPTS"),
}
"""Heads of columns, by whether tasks are push tasks."""
CUT = ("PAYLOAD", *(tag for tag, _ in _TITLES.values()), "STATE", "TASK")


seconds_option = click.option(
    "--seconds",
    type=Duration(0, Limits().lease_seconds),
    default=60,
    help="Lease duration, in seconds or such as 1h.",
)
names_argument = click.argument(
    "names", nargs=-1, metavar="[TASK]...", shell_complete=complete_task
)
state_option = click.option(
    "--state",
    type=Choice(["available", "leased", "scheduled", "running", "retrying", "exhausted"]),
    help="Only tasks in this state.",
)


file_option = click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Read the payload from a file, or standard input (-).",
)
header_option = click.option(
    "--header",
    "headers",
    multiple=True,
    help='Header of a push task, such as "X-Mine: 7"; repeatable. A form needs "Content-Type: '
    'application/x-www-form-urlencoded"; the default is application/octet-stream.',
)


def parse_request(text: str) -> Json:
    """Return the method and URL of a push task."""
    method, space, url = text.partition(" ")
    if not space:
        raise click.UsageError('pass --request "METHOD URL", such as "POST /mail"')
    return {"method": method, "url": url.strip()}


def parse_headers(headers: tuple[str, ...]) -> list[list[str]]:
    """Return the names and values of headers."""
    parts = [header.partition(":") for header in headers]
    for name, colon, _ in parts:
        if not colon:
            raise click.UsageError(f'--header "{name}" has no value: use one such as "X-Mine: 7"')
    return [[name.strip(), value.strip()] for name, _, value in parts]


def confirm_deletion(count: int, *queues: str) -> None:
    """Ask before tasks of queues are deleted."""
    if count:
        noun = "queue" if len(queues) == 1 else "queues"
        confirm(f"Delete {count_tasks(count)} of {noun} {', '.join(map(quoted, queues))}?")


def filter_options(command: Command) -> Command:
    """Add --tag, --search, --status and --reason."""
    options = (
        click.option("--tag", shell_complete=complete_tag, help="Only tasks with this tag."),
        click.option("--search", help="Only tasks with this text in name, payload, URL or reason."),
        click.option(
            "--status",
            type=click.IntRange(0),
            help="Only push tasks with this last status; 0: no response.",
        ),
        click.option(
            "--reason", help="Only push tasks with this text in the REASON of `tasks failures`."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def task_table(found: list[Json], *, empty: str = "") -> Table:
    return Table(format_head(found), map(format_row, found), empty, cut=CUT)


def list_table(found: list[Json], *, empty: str, named: bool) -> Table:
    """Return tasks as a table, with who has leased them, and with their queues if `named`."""
    rows = [
        [
            task["queue"] if named else None,
            *format_row(task),
            task["leased_by"] and preview(task["leased_by"]["client"]),
        ]
        for task in found
    ]
    head, optional = ("QUEUE", *format_head(found), "LEASED BY"), ("QUEUE", "LEASED BY")
    return Table(head, rows, empty, (*CUT, "QUEUE"), ("LEASED BY",), optional)


def format_head(found: list[Json]) -> tuple[str, ...]:
    """Return the heads of columns that are true of these tasks."""
    kinds = frozenset(task["push"] is not None for task in found)
    tag, leases = _TITLES.get(kinds, ("", ""))
    return ("TASK", tag, "STATE", "ETA (UTC)", leases, "BYTES", "PAYLOAD")


def format_row(task: Json) -> list[object]:
    limit, left, payload = task["retry_limit"], task["lease_seconds_left"], task["payload"]
    text, push, match = payload.get("call", payload["text"]), task["push"], task["match"]
    group = None if task["tag"] is None else preview(task["tag"]) or '""'
    state = task["state"]
    if push:
        group = preview(f"{push['request']['method']} {push['request']['url']}")
        if (status := push["last_status"]) is not None:
            group += f", last: {result_text(status, push['last_reason'])}"
            if state in ("exhausted", "retrying"):
                state += f", {status or 'no response'}"
    return [
        task["name"],
        group,
        state if left is None else f"leased, {format_span(left)} left",
        when(eta) if (eta := push["next_attempt"] if push else task["eta"]) else "",
        task["retry_count"] if limit is None or push else f"{task['retry_count']} of {limit}",
        payload["bytes"],
        preview(b64decode(payload["base64"]) if text is None else text)
        if match is None
        else f"{match['before']}{match['text']}{match['after']}",
    ]


def payload_lines(payload: Json) -> list[str]:
    """Return a payload as lines: text as it is, other bytes as base64, with the deferred call."""
    if not payload["bytes"]:
        return []
    if payload["text"] is None:
        call = [f"deferred call: {payload['call']}"] if "call" in payload else []
        return ["", *call, f"base64: {payload['base64']}"]
    return ["", *payload["text"].split("\n")]


def event_line(event: Json) -> str:
    """Return an event of a task, and which call it was part of."""
    kind = "requeued" if event["requeued"] else event["kind"]
    if event["attempts"] > 1:
        last = event["retry_count"]
        kind = kind.replace("attempt", f"attempts {last - event['attempts'] + 1} to {last}")
    line = f"  {when(event['time'])}  {kind}"
    if event["status"] is not None:
        line += f", {result_text(event['status'], event['reason'])}"
    if event["until"]:
        following = "next" if event["kind"] == FAILED else "until"
        line += f", {following} {when(event['until'])}"
    number = event["request"] and f"request {event['request']}"
    origin = ", ".join(filter(None, [event["interface"], number, event["client"]]))
    return f"{line}  ({origin})" if origin else line
