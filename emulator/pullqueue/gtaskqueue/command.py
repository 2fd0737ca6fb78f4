"""`gtaskqueue`: look at a queue and its tasks, lease and delete them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Unpack

import click
from click.core import ParameterSource

from pullqueue.cli.connection import Json
from pullqueue.gtaskqueue.api import ApiError, ApiFlags, TaskQueueApi
from pullqueue.gtaskqueue.flags import CONTEXT, OWN, FlagsGroup, api_flags, lease_secs_flag

_task_name_flag = click.option("--task_name", required=True, help="Task.")


def _set_level(_ctx: click.Context, _flag: click.Parameter, level: str | None) -> None:
    if level is not None:
        logging.basicConfig(level=level)


def _queue_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    log_level = click.option(
        "--log_level",
        type=click.Choice(["DEBUG", "INFO", "WARNING", "CRITICAL"]),
        callback=_set_level,
        expose_value=False,
        help="What to log on standard error; DEBUG: every call; default: WARNING.",
    )
    return api_flags("myqueue")(log_level(command))


@click.group(cls=FlagsGroup, context_settings=CONTEXT)
@click.version_option(package_name="pullqueue")
@_queue_flags
@click.pass_context
def gtaskqueue(ctx: click.Context, **_: Unpack[ApiFlags]) -> None:
    """List, lease and delete the tasks of a pull queue over REST.

    The flags below may follow the command as well. All flags may have one dash. Google's
    --credentials_file, --use_developer_key and --developer_key_file are accepted and ignored, since
    the emulator needs no key.
    """
    given = {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    ctx.default_map = dict.fromkeys(gtaskqueue.commands, given)


@gtaskqueue.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_(ctx: click.Context, *, command: str | None) -> None:
    """Show what a command does, and its flags."""
    group = ctx.find_root()
    if command is not None and command not in gtaskqueue.commands:
        names = ", ".join(sorted(gtaskqueue.commands))
        raise click.UsageError(f'there is no command "{command}": use one of {names}', group)
    if command is not None:
        group = click.Context(gtaskqueue.commands[command], parent=group, info_name=command)
    click.echo(group.get_help())


@gtaskqueue.command
@click.option("--get_stats/--noget_stats", help="Show its statistics, too.")
@_queue_flags
def getqueue(*, get_stats: bool, **api: Unpack[ApiFlags]) -> None:
    """Show the queue."""
    _show(TaskQueueApi(**api).get_queue(stats=get_stats))


@gtaskqueue.command
@_queue_flags
def listtasks(**api: Unpack[ApiFlags]) -> None:
    """List the first hundred tasks, without their payloads."""
    _show(TaskQueueApi(**api).list_tasks())


@gtaskqueue.command
@_task_name_flag
@_queue_flags
def gettask(*, task_name: str, **api: Unpack[ApiFlags]) -> None:
    """Show one task."""
    _show(TaskQueueApi(**api).get_task(task_name))


@gtaskqueue.command
@lease_secs_flag
@click.option("--num_tasks", type=click.IntRange(1), default=1, help="Maximum number of tasks.")
@click.option(
    "--payload_size_to_display",
    type=click.IntRange(0),
    default=2 * 1024 * 1024,
    help="Number of characters of a payload, in base64, to show.",
)
@click.option("--tag", help=f"Lease only tasks with this tag. {OWN}")
@_queue_flags
def leasetask(
    *,
    lease_secs: int,
    num_tasks: int,
    payload_size_to_display: int,
    tag: str | None,
    **api: Unpack[ApiFlags],
) -> None:
    """Lease tasks and show them with their payloads."""
    leased = TaskQueueApi(**api).lease(lease_secs=lease_secs, num_tasks=num_tasks, tag=tag)
    for task in leased.get("items", []):
        payload = task.get("payloadBase64", "")
        hidden = len(payload) - payload_size_to_display
        if hidden > 0:
            task["payloadBase64"] = f"{payload[:-hidden]}({hidden} more bytes)"
    _show(leased)


@gtaskqueue.command
@_task_name_flag
@_queue_flags
def deletetask(*, task_name: str, **api: Unpack[ApiFlags]) -> None:
    """Delete one task, leased or not."""
    TaskQueueApi(**api).delete(task_name)


@gtaskqueue.command
@click.option("--max_delete", type=click.IntRange(0), default=100, help="Maximum number of tasks.")
@_queue_flags
def clear(*, max_delete: int, **flags: Unpack[ApiFlags]) -> None:
    """Delete tasks of the queue, one after the other, and count them."""
    api = TaskQueueApi(**flags)
    deleted = 0
    while deleted < max_delete and (tasks := api.list_tasks().get("items", [])):
        gone = sum(_delete(api, task["id"]) for task in tasks[: max_delete - deleted])
        if not gone:
            raise ApiError(f"none of {len(tasks)} tasks can be deleted")
        deleted += gone
    _show({"deleted": deleted})


def _delete(api: TaskQueueApi, name: str) -> bool:
    click.echo(f"Deleting: {name}")
    try:
        api.delete(name)
    except ApiError:
        return False  # a worker was quicker
    return True


def _show(value: Json) -> None:
    click.echo(json.dumps(value, sort_keys=True, indent=2))
