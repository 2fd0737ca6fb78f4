"""`gtaskqueue`: look at a queue and its tasks, lease and delete them."""

from __future__ import annotations

import json
import sys

import click

from pullqueue.gtaskqueue.api import ApiError, Json, TaskQueueApi
from pullqueue.gtaskqueue.options import api_options, lease_secs_option
from pullqueue.tasks import count_tasks

_task_name_option = click.option("--task_name", required=True, help="The task.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pullqueue")
def gtaskqueue() -> None:
    """Look at a pull queue and its tasks over REST, lease and delete them."""


@gtaskqueue.command
@api_options
def getqueue(*, project: str, taskqueue_name: str, **server: str | None) -> None:
    """Show the queue and its statistics."""
    _show(_api(project, taskqueue_name, server).get_queue())


@gtaskqueue.command
@api_options
def listtasks(*, project: str, taskqueue_name: str, **server: str | None) -> None:
    """List the first hundred tasks, without their payloads."""
    _show(_api(project, taskqueue_name, server).list_tasks())


@gtaskqueue.command
@_task_name_option
@api_options
def gettask(*, project: str, taskqueue_name: str, task_name: str, **server: str | None) -> None:
    """Show one task."""
    _show(_api(project, taskqueue_name, server).get_task(task_name))


@gtaskqueue.command
@lease_secs_option
@click.option(
    "--num_tasks",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many tasks to lease at most.",
)
@click.option("--tag", help="Only tasks with this tag.")
@api_options
def leasetask(
    *,
    project: str,
    taskqueue_name: str,
    lease_secs: int,
    num_tasks: int,
    tag: str | None,
    **server: str | None,
) -> None:
    """Lease tasks and show them with their payloads."""
    api = _api(project, taskqueue_name, server)
    _show(api.lease(lease_secs=lease_secs, num_tasks=num_tasks, tag=tag))


@gtaskqueue.command
@_task_name_option
@api_options
def deletetask(*, project: str, taskqueue_name: str, task_name: str, **server: str | None) -> None:
    """Delete one task, leased or not."""
    _api(project, taskqueue_name, server).delete(task_name)


@gtaskqueue.command
@api_options
def clear(*, project: str, taskqueue_name: str, **server: str | None) -> None:
    """Delete all tasks of the queue, one after the other, and count them."""
    api = _api(project, taskqueue_name, server)
    total = int(api.get_queue().get("stats", {}).get("totalTasks", 0))
    deleted = 0
    with click.progressbar(
        length=total, label="Deleting", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while tasks := api.list_tasks().get("items", []):
            gone = sum(_deleted(api, task["id"]) for task in tasks)
            if not gone:
                raise ApiError(f"{count_tasks(len(tasks))} cannot be deleted")
            deleted += gone
            bar.update(gone)
    click.echo(f"{count_tasks(deleted)} deleted")


def _deleted(api: TaskQueueApi, name: str) -> bool:
    try:
        api.delete(name)
    except ApiError:
        return False  # a worker was quicker
    return True


def _api(project: str, queue: str, server: dict[str, str | None]) -> TaskQueueApi:
    return TaskQueueApi(server["api_host"], project, queue, access_token=server["access_token"])


def _show(value: Json) -> None:
    click.echo(json.dumps(value, indent=2))
