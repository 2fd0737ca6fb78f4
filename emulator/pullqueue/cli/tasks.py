"""`pullqueue tasks`: list the tasks of a running server, and do to them what a worker would."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pullqueue.cli._client import Client, Json, queue_path, task_path
from pullqueue.cli._files import STDIN, content_of
from pullqueue.cli._options import (
    SECONDS,
    complete_task,
    queue_argument,
    server_options,
    task_argument,
)
from pullqueue.cli._output import age, confirm, say, show_json, show_table, shown, when
from pullqueue.tasks import DeleteResult, count_tasks, not_deleted, why_in_use

_STATES = ("available", "leased", "scheduled", "exhausted")
_HEAD = ("TASK", "TAG", "STATE", "ETA (UTC)", "LEASES", "BYTES", "PAYLOAD")
_PREVIEW = 40
_Command = TypeVar("_Command", bound=Callable[..., Any])

_seconds_option = click.option(
    "--seconds",
    type=SECONDS,
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Lease duration in seconds.",
)


@click.group
def tasks() -> None:
    """List, add, lease, extend, release, delete and requeue tasks."""


def _filter_options(command: _Command) -> _Command:
    """Add --tag and --search."""
    tag = click.option("--tag", help="Only tasks with this tag.")
    search = click.option("--search", help="Only tasks with this text in name or payload.")
    return tag(search(command))


_names_argument = click.argument(
    "names", nargs=-1, metavar="[TASK]...", shell_complete=complete_task
)
_yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@tasks.command("list")
@queue_argument
@click.option("--state", type=click.Choice(_STATES), help="Only tasks in this state.")
@_filter_options
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of tasks.",
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

    ETA is when a task can be leased (next): the end of its lease if it is leased. LEASES is how
    often it was leased, of how often it can be. Exhausted tasks are listed with --state exhausted,
    the latest first.
    """
    client = Client(url)
    found: list[Json] = []
    after: str | None = None
    more = True
    while len(found) < limit:
        page = client.get(
            task_path(queue),
            limit=min(1000, limit - len(found)),
            state=state,
            tag=tag,
            search=search,
            after=after,
            offset=len(found) if state == "exhausted" else None,
        )
        found += page["tasks"]
        after = page["next"]
        more = after is not None or (state == "exhausted" and len(found) < page["total"])
        if not more:
            break
    if as_json:
        show_json({"tasks": found, "next": after})
        return
    _show(found, empty="" if found else _none_in(client, queue))
    if more:
        click.echo(f"there are more: list them with --limit {limit * 10}", err=True)


@tasks.command
@queue_argument
@task_argument
@click.option("--payload", is_flag=True, help="Print only the payload, byte for byte.")
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
        say(f"  {when(event['time'])}  {event['kind']}{until}")


@tasks.command
@queue_argument
@click.argument("payload", required=False)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Read the payload from a file, or standard input (-).",
)
@click.option("--name", help="Name of the task. Default: generated.")
@click.option("--tag", help="Tag of the task. Default: none.")
@click.option("--eta", help="Earliest time of a lease, such as 2026-01-01T00:00:00Z. Default: now.")
@click.option(
    "--countdown",
    type=SECONDS,
    metavar="SECONDS",
    help="The same, as a delay in seconds.",
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
        raise click.UsageError("pass either a PAYLOAD or --file, not both")
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
        raise click.ClickException(f"task {name!r} of queue {queue!r} {taken}: choose another name")
    _answer(answer, as_json=as_json, empty="")


@tasks.command
@queue_argument
@_seconds_option
@click.option(
    "--max", "count", type=int, default=1, show_default=True, help="Maximum number of tasks."
)
@click.option("--tag", help="Only tasks with this tag.")
@click.option("--by-tag", is_flag=True, help="Only tasks with the tag of the first available one.")
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
    empty = (
        "more lease calls than the queue permits in a second"
        if answer["rate_limited"]
        else "nothing to lease"
    )
    _answer(answer, as_json=as_json, empty=empty)


@tasks.command
@queue_argument
@task_argument
@_seconds_option
@server_options
def extend(*, queue: str, task: str, seconds: float, url: str | None, as_json: bool) -> None:
    """Change the end of the lease of TASK."""
    _change_lease(url, queue, task, seconds, as_json=as_json)


@tasks.command
@queue_argument
@task_argument
@server_options
def release(*, queue: str, task: str, url: str | None, as_json: bool) -> None:
    """Release TASK: it can be leased again at once."""
    _change_lease(url, queue, task, 0, as_json=as_json)


@tasks.command
@queue_argument
@_names_argument
@click.option("--state", type=click.Choice(_STATES), help="Only tasks in this state.")
@_filter_options
@_yes_option
@server_options
def delete(
    *,
    queue: str,
    names: tuple[str, ...],
    state: str | None,
    tag: str | None,
    search: str | None,
    yes: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Delete tasks of QUEUE, by name or by options.

    Leased tasks are deleted as well. Asks for confirmation if no tasks are named. The exit status
    is 1 if a named task does not exist.
    """
    client = Client(url)
    chosen = _chosen(names, state=state, tag=tag, search=search)
    if not names:
        if not yes:
            count = client.get(task_path(queue), limit=1, offset=0, **chosen)["total"]
            confirm(f"Delete {count_tasks(count)} of queue {queue!r}?")
        return _change(client, queue, {"action": "delete", **chosen}, "deleted", as_json=as_json)
    answer = client.post(queue_path(queue, "delete"), {"tasks": list(names)})
    missing = [each for each in answer["results"] if each["result"] != "deleted"]
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{len(names) - len(missing)} deleted")
        for each in missing:
            say(f"{each['task']} {not_deleted(DeleteResult(each['result']))}", err=True)
    return 1 if missing else 0


@tasks.command
@queue_argument
@_names_argument
@click.option("--all", "every", is_flag=True, help="All exhausted tasks of the queue.")
@_filter_options
@server_options
def requeue(
    *,
    queue: str,
    names: tuple[str, ...],
    every: bool,
    tag: str | None,
    search: str | None,
    url: str | None,
    as_json: bool,
) -> int:
    """Add exhausted tasks of QUEUE again, by name or by options.

    They keep name, payload and tag, and can be leased as often as new ones. The exit status is 1 if
    one cannot be requeued.
    """
    state = "exhausted" if every else None
    chosen = _chosen(names, state=state, tag=tag, search=search)
    change = {"action": "requeue", **chosen} | ({"tasks": list(names)} if names else {})
    return _change(Client(url), queue, change, "requeued", as_json=as_json)


@tasks.command
@queue_argument
@_yes_option
@server_options
def purge(*, queue: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Delete all tasks of QUEUE (asks for confirmation)."""
    client = Client(url)
    if not yes:
        count = client.get(queue_path(queue))["queue"]["tasks"]
        confirm(f"Delete {count_tasks(count)} of queue {queue!r}?")
    answer = client.post(queue_path(queue, "purge"))
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['deleted']} deleted")


def _chosen(names: tuple[str, ...], **options: str | None) -> Json:
    """Return the options that were given; there must be some, or names.

    Raises:
        UsageError: there are neither, or both.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if bool(given) == bool(names):
        raise click.UsageError("pass either names of tasks or options that select some")
    return given


def _change(client: Client, queue: str, change: Json, done: str, *, as_json: bool) -> int:
    """Change many tasks; return 1 if some could not be changed."""
    answer = client.post(queue_path(queue, "change"), change)
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{answer['changed']} {done}")
        for name, why in answer["failed"].items():
            say(f"{name} {why}", err=True)
    return 1 if answer["failed"] else 0


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
