"""`pullqueue tasks`: look at the tasks of a running server, and do to them what a worker would."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from pathlib import Path

import click

from pullqueue.cli._client import Client, Json, queue_path, task_path
from pullqueue.cli._input import STDIN, content_of
from pullqueue.cli._output import (
    age,
    confirm,
    queue_argument,
    say,
    server_options,
    show_json,
    show_table,
    shown,
    when,
)
from pullqueue.cli._values import SECONDS, SIGNED_SECONDS
from pullqueue.tasks import DeleteResult, count_tasks, not_deleted, why_in_use

_STATES = ("available", "leased", "scheduled")
_HEAD = ("TASK", "TAG", "STATE", "ETA (UTC)", "LEASES", "BYTES", "PAYLOAD")
_PREVIEW = 40

_seconds_option = click.option(
    "--seconds",
    type=SECONDS,
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="How long, from now.",
)


@click.group
def tasks() -> None:
    """Look at tasks, add, lease, extend, release and delete them."""


@tasks.command("list")
@queue_argument
@click.option("--state", type=click.Choice(_STATES), help="Only these.")
@click.option("--tag", help="Only those with this tag.")
@click.option("--search", help="Only those with this in name or payload.")
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most."
)
@server_options
def list_(
    *,
    queue: str,
    state: str | None,
    tag: str | None,
    search: str | None,
    limit: int,
    url: str | None,
    as_json: bool,
) -> None:
    """List the tasks of QUEUE in order, without leasing them.

    ETA is when a task can be leased (next): of one that is leased, the end of the lease. LEASES is
    how often it was leased, of how often it can be.
    """
    client = Client(url)
    found: list[Json] = []
    after: str | None = None
    while len(found) < limit:
        page = client.get(
            task_path(queue),
            limit=min(1000, limit - len(found)),
            state=state,
            tag=tag,
            search=search,
            after=after,
        )
        found += page["tasks"]
        after = page["next"]
        if after is None:
            break
    if as_json:
        show_json({"tasks": found, "next": after})
        return
    _show(found, empty="" if found else _none_in(client, queue))
    if after is not None:
        click.echo(f"there are more: ask for them with --limit {limit * 10}", err=True)


@tasks.command
@queue_argument
@click.argument("task")
@click.option("--payload", is_flag=True, help="Print the payload alone, byte for byte.")
@server_options
def get(*, queue: str, task: str, payload: bool, url: str | None, as_json: bool) -> None:
    """Show one TASK, and what happened to it."""
    client = Client(url)
    found = client.get(task_path(queue, task))["task"]
    if payload:
        sys.stdout.buffer.write(b64decode(found["payload"]["base64"]))
        return
    events = client.get(f"{task_path(queue, task)}/history")["events"]
    if as_json:
        show_json({"task": found, "events": events})
        return
    _show([found], empty="")
    for event in events:
        until = f", until {when(event['until'])}" if event["until"] else ""
        say(f"  {when(event['moment'])}  {event['kind']}{until}")


@tasks.command
@queue_argument
@click.argument("payload", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Take the payload from a file; or -.")
@click.option("--name", help="Made up, if not given.")
@click.option("--tag", help="A group to lease by.")
@click.option("--eta", help="When it may be leased, such as 2026-01-01T00:00:00Z.")
@click.option(
    "--countdown",
    type=SIGNED_SECONDS,
    metavar="SECONDS",
    help="The same, in seconds from now.",
)
@server_options
def add(
    *,
    queue: str,
    payload: str | None,
    file: Path | None,
    name: str | None,
    tag: str | None,
    eta: str | None,
    countdown: float | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Add one task to QUEUE.

    PAYLOAD is its text; `-` reads it from standard input.
    """
    if (payload is None) == (file is None):
        raise click.UsageError("give either a PAYLOAD or --file, and not both")
    if payload == STDIN:
        file = Path(STDIN)
    data = content_of(file) if file is not None else (payload or "").encode()
    given = {"name": name, "tag": tag, "eta": eta, "countdown": countdown}
    task = {
        "payload_base64": b64encode(data).decode(),
        **{field: value for field, value in given.items() if value is not None},
    }
    answer = Client(url).post(task_path(queue), {"tasks": [task]})
    if answer["refused"]:
        taken = why_in_use(existing=answer["refused"][name] == "exists")
        raise click.ClickException(f"task {name!r} of {queue} {taken}: choose another name")
    _answer(answer, as_json=as_json, empty="")


@tasks.command
@queue_argument
@_seconds_option
@click.option("--max", "count", type=int, default=1, show_default=True, help="How many at most.")
@click.option("--tag", help="Only those with this tag.")
@click.option("--by-tag", is_flag=True, help="Only those with the first available task's tag.")
@server_options
def lease(
    *,
    queue: str,
    seconds: float,
    count: int,
    tag: str | None,
    by_tag: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Lease the first available tasks of QUEUE."""
    order: Json = {"lease_seconds": seconds, "max_tasks": count}
    if tag is not None:
        order["tag"] = tag
    if by_tag or tag is not None:
        order["group_by_tag"] = True
    answer = Client(url).post(queue_path(queue, "lease"), order)
    empty = "leases are asked for too often" if answer["rate_limited"] else "nothing to lease"
    _answer(answer, as_json=as_json, empty=empty)


@tasks.command
@queue_argument
@click.argument("task")
@_seconds_option
@server_options
def extend(*, queue: str, task: str, seconds: float, url: str | None, as_json: bool) -> None:
    """Let the lease of TASK end later, or sooner."""
    _change_lease(url, queue, task, seconds, as_json=as_json)


@tasks.command
@queue_argument
@click.argument("task")
@server_options
def release(*, queue: str, task: str, url: str | None, as_json: bool) -> None:
    """Give TASK back: it can be leased again at once."""
    _change_lease(url, queue, task, 0, as_json=as_json)


@tasks.command
@queue_argument
@click.argument("names", nargs=-1, required=True, metavar="TASK...")
@server_options
def delete(*, queue: str, names: tuple[str, ...], url: str | None, as_json: bool) -> int:
    """Delete tasks, leased or not. The exit status is 1 if one of them was not there."""
    answer = Client(url).post(queue_path(queue, "delete"), {"tasks": list(names)})
    missing = [each for each in answer["results"] if each["result"] != "deleted"]
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{len(names) - len(missing)} deleted")
        for each in missing:
            click.echo(f"{each['task']} {not_deleted(DeleteResult(each['result']))}", err=True)
    return 1 if missing else 0


@tasks.command
@queue_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def purge(*, queue: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Delete all tasks of QUEUE, once that was confirmed."""
    client = Client(url)
    if not yes:
        count = client.get(queue_path(queue))["queue"]["tasks"]
        confirm(f"Delete {count_tasks(count)} of queue {queue!r}?")
    answer = client.post(queue_path(queue, "purge"))
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['deleted']} deleted")


def _change_lease(url: str | None, queue: str, task: str, seconds: float, *, as_json: bool) -> None:
    answer = Client(url).post(f"{task_path(queue, task)}/lease", {"lease_seconds": seconds})
    _answer({**answer, "tasks": [answer["task"]]}, as_json=as_json, empty="")


def _answer(answer: Json, *, as_json: bool, empty: str) -> None:
    if as_json:
        show_json(answer)
    else:
        _show(answer["tasks"], empty=empty)


def _none_in(client: Client, queue: str) -> str:
    if client.get(queue_path(queue))["queue"]["mode"] == "push":
        return f"{queue} is a push queue: only tasks of pull queues are shown"
    return f"no tasks in {queue}"


def _show(found: list[Json], *, empty: str) -> None:
    show_table(_HEAD, map(_row, found), empty=empty)


def _row(task: Json) -> list[object]:
    limit = task["retry_limit"]
    state = task["state"]
    if task["lease_seconds_left"] is not None:
        state = f"leased, {age(task['lease_seconds_left'])} left"
    return [
        task["name"],
        None if task["tag"] is None else shown(task["tag"], _PREVIEW) or "''",
        state,
        when(task["eta"]),
        task["retry_count"] if limit is None else f"{task['retry_count']} of {limit}",
        task["payload"]["bytes"],
        _preview(task["payload"]),
    ]


def _preview(payload: Json) -> str:
    text = payload["text"]
    return shown(b64decode(payload["base64"]) if text is None else text, _PREVIEW)
