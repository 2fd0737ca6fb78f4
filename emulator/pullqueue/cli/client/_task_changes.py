"""The commands of `pullqueue tasks` that change tasks: one, or all that options select."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import click

from pullqueue.cli._output import note, read_content, show
from pullqueue.cli.client import Client, _options, _tasks, queue_path, without_none
from pullqueue.cli.client.connection import Json


@click.command
@_options.queue_argument
@_options.task_argument
@_tasks.seconds_option
@_options.server_options
def renew(*, queue: str, task: str, seconds: float, client: Client) -> None:
    """Change when the lease of TASK ends."""
    _change_lease(client, queue, task, seconds)


@click.command
@_options.queue_argument
@_tasks.names_argument
@click.option("--all", "all_", is_flag=True, help="All leased tasks of the queue.")
@_tasks.state_option
@_tasks.filter_options
@_options.server_options
def release(
    *, queue: str, names: tuple[str, ...], all_: bool, client: Client, **options: str | None
) -> int:
    """Release leased tasks of QUEUE at once, by name or by options.

    After its last lease a task is exhausted. Options select leased tasks. The exit status is 1 if
    one cannot be released.
    """
    if len(names) == 1 and not all_ and not any(options.values()):
        _change_lease(client, queue, names[0], 0)
        return 0
    chosen = _chosen(names, {"all": all_ or None, **options})
    if not names:
        chosen.setdefault("state", "leased")
    return _change(client, queue, "released", action="release", **chosen)


def _change_lease(client: Client, queue: str, task: str, seconds: float) -> None:
    path = queue_path(queue, "tasks", task, "lease")
    answer = client.post(path, lease_seconds=seconds)
    show(answer, _tasks.task_table([answer["task"]]))


@click.command
@_options.queue_argument
@_tasks.names_argument
@_tasks.state_option
@_tasks.filter_options
@_options.yes_option
@_options.server_options
def delete(
    *, queue: str, names: tuple[str, ...], yes: bool, client: Client, **options: str | None
) -> int:
    """Delete tasks of QUEUE, by name or by options.

    Leased tasks are deleted as well. Asks for confirmation if no tasks are named. To delete all
    tasks, use `queues purge`. The exit status is 1 if a named task does not exist.
    """
    chosen = _chosen(names, options)
    if not names and not yes:
        total = client.get(queue_path(queue, "tasks"), limit=1, **chosen)["total"]
        _tasks.confirm_deletion(total, queue)
    return _change(client, queue, "deleted", action="delete", **chosen)


@click.command
@click.argument("queue", required=False, shell_complete=_options.complete_queue)
@_tasks.names_argument
@click.option("--all", "all_", is_flag=True, help="All exhausted tasks of the queue.")
@_tasks.filter_options
@click.option("--payload", help="New payload of one task.")
@_tasks.file_option
@click.option("--request", metavar="METHOD URL", help="New method and URL of one push task.")
@_tasks.header_option
@_options.server_options
def requeue(
    *,
    queue: str | None,
    names: tuple[str, ...],
    all_: bool,
    payload: str | None,
    file: Path | None,
    request: str | None,
    headers: tuple[str, ...],
    client: Client,
    **options: str | None,
) -> int:
    """Add exhausted tasks of QUEUE again, by name or by options.

    Without QUEUE, options select tasks of all queues. They keep name, payload and tag, and can be
    leased as often as new ones. `tasks failures` shows which failed for the same reason. The exit
    status is 1 if one cannot be requeued.

    One TASK can be changed: its --payload, or that of a --file, its --request, and each --header
    that is passed; one without a value is removed.
    """
    chosen = _chosen(names, {"all": all_ or None, **options})
    if not (payload is None and file is None and request is None and not headers):
        if len(names) != 1 or queue is None:
            raise click.UsageError("pass the name of one task to change it")
        if payload is not None and file is not None:
            raise click.UsageError("pass either --payload or --file")
        changes: Json = {} if payload is None else {"payload": payload}
        if file is not None:
            changes["payload_base64"] = b64encode(read_content(file)).decode()
        _requeue_changed(client, queue_path(queue, "tasks", names[0]), changes, request, headers)
        return 0
    return _change(client, queue, "requeued", action="requeue", **chosen)


def _requeue_changed(
    client: Client, path: str, changes: Json, request: str | None, headers: tuple[str, ...]
) -> None:
    changed = {} if request is None else _tasks.parse_request(request)
    if headers:
        push = client.get(path)["task"]["push"] or {"request": {"headers": []}}
        new = _tasks.parse_headers(headers)
        replaced = {name.lower() for name, _ in new}
        kept = [each for each in push["request"]["headers"] if each[0].lower() not in replaced]
        changed["headers"] = kept + [each for each in new if each[1]]
    if changed:
        changes["request"] = changed
    answer = client.post(f"{path}/requeue", **changes)
    show(answer, _tasks.task_table([answer["task"]]))


def _chosen(names: tuple[str, ...], options: Json) -> Json:
    """Return which tasks are meant: either those of the names, or those that options select."""
    filters = without_none(options)
    if bool(filters) == bool(names):
        raise click.UsageError("pass either names of tasks or options that select some")
    return {"tasks": list(names)} if names else filters


def _change(client: Client, queue: str | None, done: str, **change: object) -> int:
    """Change many tasks of a queue, or of all with exhausted ones; return 1 if some cannot be."""
    if queue:
        answer = client.post(queue_path(queue, "change"), **change)
    else:
        answer = {"changed": 0, "failed": {}}
        for name in client.get("/summary")["exhausted"]:
            of_queue = client.post(queue_path(name, "change"), **change)
            answer["changed"] += of_queue["changed"]
            answer["failed"] |= {f"{name}/{task}": why for task, why in of_queue["failed"].items()}
    show(answer, f"{answer['changed']} {done}")
    for name, reason in answer["failed"].items():
        note(f"{name} {reason}")
    return 1 if answer["failed"] else 0
