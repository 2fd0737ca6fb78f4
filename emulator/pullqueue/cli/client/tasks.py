"""`pullqueue tasks`: list, add, lease and change the tasks of a running server."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from pathlib import Path
from shlex import quote
from time import monotonic

import click

from pullqueue.cli._options import Duration
from pullqueue.cli._output import STDIN, Table, note, read_content, show, when, write_bytes
from pullqueue.cli._words import Choice, Group
from pullqueue.cli.client import Client, _options, _tasks, queue_path, without_none
from pullqueue.cli.client._task_changes import delete, release, renew, requeue
from pullqueue.cli.client.connection import Json
from pullqueue.limits import Limits
from pullqueue.push.addresses import KEPT
from pullqueue.tasks import result_text, why_in_use

_SUCCEEDED = "attempt succeeded"
_ATTEMPT_SECONDS = 10
_POLL_SECONDS = 0.05


@click.group(cls=Group)
def tasks() -> None:
    """List, add, lease, run, delete and requeue tasks."""


@tasks.command("list")
@click.argument("queue", required=False, shell_complete=_options.complete_queue)
@_tasks.state_option
@_tasks.filter_options
@click.option("--client", "holder", help="Only tasks that this client of `workers` has leased.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, help="Maximum number of results."
)
@_options.server_options
def list_(
    *, queue: str | None, limit: int, client: Client, holder: str | None, **filters: str | None
) -> None:
    """List tasks in order, without leasing them.

    They are those of QUEUE, or of all queues, which are listed one after the other.

    ETA is the time from which a task can be leased: the end of its lease if it is leased. LEASES is
    the number of its leases, and the maximum. Push tasks have REQUEST and ATTEMPTS instead of TAG
    and LEASES. LEASED BY: the client, as in `workers`; a terminal that is too narrow does not show
    it. A task whose name is that of --search is listed first. Exhausted tasks are listed with
    --state exhausted, the latest first. The beginning of each payload is listed; `tasks get` prints
    all of one.
    """
    filters["client"] = holder
    is_exhausted = queue is None and filters["state"] == "exhausted"
    if is_exhausted:
        filters["state"] = None  # the path says it
    path = "/exhausted" if is_exhausted else "/tasks"
    path = path if queue is None else queue_path(queue, "tasks")
    answer = client.get(path, limit=limit, **filters)
    found, total = answer["tasks"], answer["total"]
    empty = "no exhausted tasks" if found or is_exhausted else _none_in(client, queue, filters)
    show(answer, _tasks.list_table(found, empty=empty, named=queue is None))
    kept = next((task["push"]["kept"] for task in found if task["push"]), None)
    if kept and queue is not None:
        note(f"tasks of {queue} are {KEPT}: {kept}")
    if 0 < len(found) < total:
        note(f"these are {len(found)} of {total}: set --limit, --tag or --search")


@tasks.command
@_options.queue_argument
@_options.task_argument
@click.option(
    "--payload",
    is_flag=True,
    help="Print only the payload: byte for byte, but escaped on a terminal.",
)
@_options.since_option
@_options.server_options
def get(*, queue: str, task: str, payload: bool, since: str | None, client: Client) -> None:
    """Show one TASK, what happened to it, and its payload.

    Each event is shown with its interface, the number of its request (`pullqueue requests NUMBER`
    shows that), and the client; below what the app answered to the last attempt, if that has
    failed. Of a task that is gone (deleted, or sent with success) the history is shown without the
    payload, which was deleted with it.
    """
    path = queue_path(queue, "tasks", task)
    if payload:
        write_bytes(b64decode(client.get(path)["task"]["payload"]["base64"]))
        return
    answer = client.get(f"{path}/history", since=since)
    found, problem = answer["task"], answer["problem"]
    parts: list[str | Table] = list(map(_tasks.event_line, answer["events"]))
    if answer["missing"]:
        parts.insert(0, f"  ({answer['missing']})")
    if found and found["leased_by"]:
        note(f"leased by {found['leased_by']['client']} since {when(found['leased_by']['leased'])}")
    if found:
        table = Table(
            _tasks.format_head([found])[:-1], [_tasks.format_row(found)[:-1]], cut=_tasks.CUT[1:]
        )
        parts = [table, *parts, *_tasks.payload_lines(found["payload"])]
    if answer["last_response"]:
        parts += [
            "",
            "response to the last attempt, at most 4 KiB of it:",
            *_tasks.payload_lines(answer["last_response"])[1:],
        ]
    show(answer, *parts)
    if found and found["push"] and found["push"]["limits"]:
        note(f"attempts: {found['retry_count']} {found['push']['limits']}")
    if found and found["push"] and found["push"]["kept"]:
        note(f'task "{task}" is {KEPT}: {found["push"]["kept"]}')
    if problem:
        note(f"{problem}: its payload is not stored any more")


@tasks.command
@_options.queue_argument
@click.argument("payload", required=False)
@_tasks.file_option
@click.option("--name", help="Name of the task. Default: generated.")
@click.option("--tag", shell_complete=_options.complete_tag, help="Tag of the task. Default: none.")
@click.option(
    "--request",
    metavar="METHOD URL",
    help='How a push task is sent, such as "PUT /mail". Default: POST to /_ah/queue/QUEUE. '
    "A task with an HTTP target (http://...) can only be created through the Cloud Tasks API.",
)
@_tasks.header_option
@click.option(
    "--eta",
    help="Earliest time of a lease or an attempt, such as 2026-01-01T00:00:00Z. Default: now.",
)
@click.option(
    "--countdown", type=Duration(0), help="Alternative to --eta: a delay in seconds or such as 1h."
)
@_options.server_options
def add(
    *,
    queue: str,
    payload: str | None,
    file: Path | None,
    request: str | None,
    headers: tuple[str, ...],
    client: Client,
    **fields: str | float,
) -> None:
    """Add one task to QUEUE.

    PAYLOAD is its text; `-` reads it from standard input. A task with --request needs none.
    """
    if payload is None and file is None and request:
        payload = ""
    if payload is None and file is None:
        raise click.UsageError("pass a PAYLOAD or --file, or for a push task --request")
    if payload is not None and file is not None:
        raise click.UsageError("pass either a PAYLOAD or --file")
    if payload == STDIN:
        file = Path(STDIN)
    data = read_content(file) if file is not None else (payload or "").encode()
    task = {"payload_base64": b64encode(data).decode(), **without_none(fields)}
    if request or headers:
        request_fields = _tasks.parse_request(request or "")
        task["request"] = {**request_fields, "headers": _tasks.parse_headers(headers)}
    answer = client.post(queue_path(queue, "tasks"), tasks=[task])
    for name, reason in answer["refused"].items():
        in_use = why_in_use(existing=reason == "exists")
        message = f'task "{name}" of queue "{queue}" {in_use}: choose another name'
        raise click.ClickException(message)
    show(answer, _tasks.task_table(answer["tasks"]))


@tasks.command
@_options.queue_argument
@_options.task_argument
@_options.server_options
def run(*, queue: str, task: str, client: Client) -> int:
    """Send the push task TASK now, and show how the attempt ends.

    Neither its eta nor the rate of QUEUE nor a pause holds it back. The exit status is 1 if the
    attempt fails. After 10 seconds the command no longer waits for the end.
    """
    path = queue_path(queue, "tasks", task)
    number = client.get(path)["task"]["retry_count"] + 1
    answer = client.post(f"{path}/run")
    end = _end_of_attempt(client, path, number) if answer["started"] else None
    if end is not None:
        result = result_text(end["status"], end["reason"])
        following = f"next attempt {when(end['until'])}" if end["until"] else "no attempt is left"
        succeeded = end["kind"] == _SUCCEEDED
        text = f"succeeded: {result}" if succeeded else f"failed: {result}; {following}"
    elif answer["started"]:
        command = client.command(f"tasks get {queue} {task}")
        text = f"is still running: {command} shows how it ends"
    else:
        text = "is running already"
    show({**answer, "attempt": end}, f"{task} {text}")
    return int(end is not None and end["kind"] != _SUCCEEDED)


def _end_of_attempt(client: Client, path: str, number: int) -> Json | None:
    """Return the event by which an attempt ends; None: it takes longer than a while."""
    end, pause = monotonic() + _ATTEMPT_SECONDS, threading.Event()
    while True:
        history = client.get(f"{path}/history")
        for event in reversed(history["events"]):
            if event["kind"] == "added":
                break
            if event["kind"] in (_SUCCEEDED, _tasks.FAILED) and event["retry_count"] == number:
                return dict(event)
        if monotonic() >= end:
            return None
        pause.wait(_POLL_SECONDS)


@tasks.command
@_options.queue_argument
@_tasks.seconds_option
@click.option(
    "--max",
    "count",
    type=click.IntRange(1, Limits().tasks_per_lease),
    default=1,
    help="Maximum number of tasks.",
)
@click.option("--tag", shell_complete=_options.complete_tag, help="Only tasks with this tag.")
@click.option("--by-tag", is_flag=True, help="Only tasks with the tag of the first available one.")
@_options.server_options
def lease(
    *, queue: str, seconds: float, count: int, tag: str | None, by_tag: bool, client: Client
) -> None:
    """Lease the first available tasks of QUEUE."""
    answer = client.post(
        queue_path(queue, "lease"),
        lease_seconds=seconds,
        max_tasks=count,
        tag=tag,
        group_by_tag=by_tag or None,
    )
    limited = answer["rate_limited"]
    empty = "more lease calls than the queue permits in a second" if limited else "nothing to lease"
    show(answer, _tasks.task_table(answer["tasks"], empty=empty))


@tasks.command
@click.argument("queue", required=False, shell_complete=_options.complete_queue)
@click.option(
    "--state",
    type=Choice(["exhausted", "retrying", "available"]),
    help="Only failed tasks in this state.",
)
@_tasks.filter_options
@_options.since_option
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, help="Maximum number of groups."
)
@_options.server_options
def failures(*, client: Client, **filters: object) -> None:
    """Group tasks that failed by status and reason.

    They are those of QUEUE, or of all queues: exhausted ones, and those that will be sent again,
    which are retrying, or available if they are due again.

    REASON is the first line of the last response, or why there was none, with … for numbers,
    ids, addresses, paths and quoted texts, in which the reasons of a group differ. LATEST is the
    task that failed last; --json has more examples. `tasks requeue --status 500 --reason TEXT` adds
    those of a group again.
    """
    answer = client.get("/failures", **filters)
    rows = [_failure_row(group) for group in answer["failures"]]
    head = ("TASKS", "QUEUE", "STATE", "STATUS", "REASON", "LATEST", "TIME (UTC)")
    left_out = ("TIME (UTC)", "LATEST")
    show(answer, Table(head, rows, "no failed tasks", ("QUEUE",), left_out, below="REASON"))
    if rows and len(rows) < answer["total"]:
        note(f"these are {len(rows)} of {answer['total']} groups: set --limit or another option")
    if not answer["is_complete"]:
        note("of each queue the first 5,000 failed tasks in each state are counted")


def _failure_row(group: Json) -> list[object]:
    status, latest = group["status"], group["examples"][0]
    return [
        group["tasks"],
        group["queue"],
        group["state"],
        "leased" if status is None else status or "none",
        group["reason"] or group["pattern"],
        latest["task"],
        when(latest["time"]),
    ]


def _none_in(client: Client, queue: str | None, filters: Json) -> str:
    """Return that no tasks were found, and how to list the exhausted ones that match."""
    chosen = without_none(filters)
    none = f"no tasks{f' in {queue}' if queue else ''}{' match the options' if chosen else ''}"
    if "state" in chosen or "client" in chosen:
        return none
    exhausted = client.get("/exhausted", queue=queue, limit=1, **chosen)["total"]
    options = [word for name, value in chosen.items() for word in (f"--{name}", quote(str(value)))]
    place = [queue] if queue else []
    command = client.command(" ".join(["tasks list", *place, *options, "--state exhausted"]))
    return f"{none}; exhausted tasks: {exhausted} (see {command})" if exhausted else none


for _change in (renew, release, delete, requeue):
    tasks.add_command(_change)
