"""`gtaskqueue`: list, lease and delete the tasks of a queue; and what both commands share."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import reduce
from http import HTTPStatus
from typing import Any, TypedDict, Unpack
from urllib.parse import quote, urlencode

import click
from click.core import ParameterSource

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli.connection import (
    BrokenResponseError,
    Connection,
    Json,
    NoResponseError,
    server_url,
)
from pullqueue.error_codes import advice_in

_TIMEOUT_SECONDS = 60

_log = logging.getLogger("pullqueue.gtaskqueue")

OWN = "[pullqueue's own]"
"""Marks the flags that Google's commands did not have."""

CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class FlagsCommand(click.Command):
    """A command whose flags may have one dash, as in Google's: `-lease_secs=30`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse flags with one dash as flags with two."""
        options = self.get_params(ctx)
        names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
        with_two = [f"-{arg}" if f"-{arg.partition('=')[0]}" in names else arg for arg in args]
        return super().parse_args(ctx, with_two)


class FlagsGroup(FlagsCommand, click.Group):
    """A group of such commands."""

    command_class = FlagsCommand


lease_secs_flag = click.option(
    "--lease_secs", type=click.IntRange(0), default=30, help="Lease duration in seconds."
)


def api_flags(queue: str) -> Decorator:
    """Add the flags of `ApiFlags`; `queue` is the default name of the queue."""
    token = f"Bearer token to send, where the server asks for one. {OWN}"
    version = click.Choice(["v1beta1", "v1beta2"])
    options = (
        click.option("--project_name", "--project", default="default", help="Application id."),
        click.option("--taskqueue_name", default=queue, help="Queue."),
        click.option(
            "--api_host",
            envvar=ADDRESS_VARIABLE,
            show_envvar=True,
            default=DEFAULT_ADDRESS,
            callback=server_url,
            help="Server, as URL or HOST:PORT.",
        ),
        click.option("--service_version", type=version, default="v1beta2", help="API version."),
        click.option(
            "--access_token", envvar="GTASKQUEUE_ACCESS_TOKEN", show_envvar=True, help=token
        ),
        click.option("--dump_request/--nodump_request", help="Print every request with its body."),
        # Accepted and ignored: the emulator needs no key.
        click.option("--credentials_file", hidden=True, expose_value=False),
        click.option("--developer_key_file", hidden=True, expose_value=False),
        click.option("--use_developer_key/--nouse_developer_key", hidden=True, expose_value=False),
    )
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


class ApiError(click.ClickException):
    """the server refused a call, or cannot be reached"""


class ApiFlags(TypedDict):
    """Which queue of which server is meant: the values of the flags of these names."""

    project_name: str
    taskqueue_name: str
    api_host: str
    service_version: str
    access_token: str | None
    dump_request: bool


class TaskQueueApi:
    """One queue over REST."""

    def __init__(self, **flags: Unpack[ApiFlags]) -> None:
        """Name the queue."""
        self._root = flags["api_host"]
        self._path = (
            f"/taskqueue/{flags['service_version']}/projects/"
            f"{quote(flags['project_name'], safe='~:')}/taskqueues/"
            f"{quote(flags['taskqueue_name'], safe='')}"
        )
        self._queue = flags["taskqueue_name"]
        self._dumps = flags["dump_request"]
        token = flags["access_token"]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = Connection(self._root, timeout=_TIMEOUT_SECONDS, headers=headers)

    def get_queue(self, *, stats: bool) -> Json:
        """Return the queue, with its statistics if these are asked for."""
        return self._call("GET", "", {"getStats": str(stats).lower()})

    def list_tasks(self) -> Json:
        """Return the first hundred tasks."""
        return self._call("GET", "/tasks")

    def get_task(self, name: str) -> Json:
        """Return one task."""
        return self._call("GET", _task(name))

    def lease(self, *, lease_secs: int, num_tasks: int, tag: str | None = None) -> Json:
        """Lease tasks; with a `tag`, only those."""
        query: Json = {"leaseSecs": lease_secs, "numTasks": num_tasks}
        if tag is not None:
            query |= {"groupByTag": "true", "tag": tag}
        return self._call("POST", "/tasks/lease", query)

    def change_lease(self, task: Json, lease_secs: int) -> Json:
        """Make the lease of a leased task end `lease_secs` from now; 0 releases it."""
        body = {name: task[name] for name in ("id", "leaseTimestamp")} | {"queueName": self._queue}
        return self._call("POST", _task(task["id"]), {"newLeaseSeconds": lease_secs}, body)

    def delete(self, name: str) -> None:
        """Delete one task."""
        self._call("DELETE", _task(name))

    def _call(
        self, verb: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> Json:
        """Call a method and return its response.

        Raises:
            ApiError: it is refused, or nothing answers.
        """
        path = f"{self._path}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._root}{path}"
        if self._dumps:
            click.echo(f"--request-start--\n{verb} {url}\n{json.dumps(body)}\n--request-end--")
        _log.debug("%s %s", verb, url)
        try:
            response = self._connection.send(verb, path, data)
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                problem = f"status {response.status} {response.phrase}"
                raise _refusal(response.body) or self._unreachable(problem)
            return dict(json.loads(response.body or b"{}"))
        except (NoResponseError, BrokenResponseError, ValueError) as error:
            raise self._unreachable(str(error)) from None
        finally:
            self._connection.close()  # it may be long until the next call

    def _unreachable(self, reason: str) -> ApiError:
        return ApiError(
            f"no task queue responds at {self._root} ({reason}): start one with `pullqueue serve`, "
            f"or pass its address with --api_host or {ADDRESS_VARIABLE}"
        )


def _task(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _refusal(body: bytes) -> ApiError | None:
    """Return the service's message with its details, if it was the service that responded."""
    try:
        error = json.loads(body)["error"]
        details = advice_in(error)
        return ApiError(f"{error['message']}{f' ({details})' if details else ''}")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


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
