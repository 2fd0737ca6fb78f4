"""`gtaskqueue`: list, lease and delete the tasks of a queue; and what both commands share."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from inspect import signature
from typing import Any
from urllib.parse import quote, urlencode

import click
from click.core import ParameterSource

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli.client.connection import (
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

Function = Callable[..., Any]


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


class ApiError(click.ClickException):
    """the server refused a call, or cannot be reached"""


class TaskQueueApi:
    """One queue over REST."""

    def __init__(
        self,
        *,
        project_name: str,
        taskqueue_name: str,
        api_host: str,
        service_version: str,
        access_token: str | None,
        dump_request: bool,
    ) -> None:
        """Name the queue; the parameters are flags."""
        self._path = (
            f"/taskqueue/{service_version}/projects/{quote(project_name, safe='~:')}"
            f"/taskqueues/{quote(taskqueue_name, safe='')}"
        )
        self._root, self._queue, self._dumps = api_host, taskqueue_name, dump_request
        headers = {"Authorization": f"Bearer {access_token}"} if access_token else {}
        self._connection = Connection(api_host, timeout=_TIMEOUT_SECONDS, headers=headers)

    def lease(self, *, lease_secs: int, num_tasks: int, tag: str | None) -> Json:
        """Lease tasks; with a `tag`, only those."""
        tagged: dict[str, object] = {} if tag is None else {"groupByTag": "true", "tag": tag}
        return self.call("POST", "lease", None, leaseSecs=lease_secs, numTasks=num_tasks, **tagged)

    def change_lease(self, task: Json, lease_secs: int) -> Json:
        """Make the lease of a leased task end `lease_secs` from now; 0 releases it."""
        body = {name: task[name] for name in ("id", "leaseTimestamp")} | {"queueName": self._queue}
        return self.call("POST", task["id"], body, newLeaseSeconds=lease_secs)

    def call(
        self, verb: str, task: str | None = "", body: Json | None = None, **query: object
    ) -> Json:
        """Call a method of a task, of all tasks ("") or of the queue (None); return its response.

        Raises:
            ApiError: it is refused, or nothing answers.
        """
        path = self._path + ("" if task is None else f"/tasks/{quote(task, safe='')}".rstrip("/"))
        path += f"?{urlencode(query)}" if query else ""
        data = None if body is None else json.dumps(body).encode()
        if self._dumps:
            url = f"{self._root}{path}"
            click.echo(f"--request-start--\n{verb} {url}\n{json.dumps(body)}\n--request-end--")
        _log.debug("%s %s%s", verb, self._root, path)
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


def _refusal(body: bytes) -> ApiError | None:
    """Return the service's message with its details, if it was the service that responded."""
    try:
        error = json.loads(body)["error"]
        details = advice_in(error)
        return ApiError(f"{error['message']}{f' ({details})' if details else ''}")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def flags(*rows: tuple[Any, ...]) -> Callable[[Function], Function]:
    """Add flags: name, type, default, help, and further parameters of click's option."""

    def decorate(command: Function) -> Function:
        for name, kind, default, text, *more in reversed(rows):
            keywords = more[0] if more else {}
            command = click.option(name, type=kind, default=default, help=text, **keywords)(command)
        return command

    return decorate


LEASE_SECS = ("--lease_secs", click.IntRange(0), 30, "Lease duration in seconds.")
TAG = ("--tag", str, None, f"Lease only tasks with this tag. {OWN}")


def _check_name(ctx: click.Context, _flag: click.Parameter, name: str | None) -> str:
    if not name:  # `required` permits an empty name, and with a default of None no name
        raise click.UsageError("--task_name is missing: pass the name of a task", ctx)
    return name


_TASK_NAME = ("--task_name", str, None, "Task (required).", {"callback": _check_name})
_HOST = {"envvar": ADDRESS_VARIABLE, "show_envvar": True, "callback": server_url}
_TOKEN = {"envvar": "GTASKQUEUE_ACCESS_TOKEN", "show_envvar": True}
_IGNORED = {"hidden": True, "expose_value": False}  # the emulator needs no key
_API_FLAGS: Any = (
    ("--service_version", click.Choice(["v1beta1", "v1beta2"]), "v1beta2", "API version."),
    ("--api_host", str, DEFAULT_ADDRESS, "Server, as URL or HOST:PORT.", _HOST),
    ("--access_token", str, None, f"Bearer token, where the server asks for one. {OWN}", _TOKEN),
    ("--dump_request/--nodump_request", bool, False, "Print every request with its body."),
    ("--credentials_file", str, None, None, _IGNORED),
    ("--developer_key_file", str, None, None, _IGNORED),
    ("--use_developer_key/--nouse_developer_key", bool, False, None, _IGNORED),
)


def api_flags(queue: str) -> Callable[[Function], Function]:
    """Add the flags of a `TaskQueueApi`, which the command gets; `queue` is their default."""

    def decorate(command: Function) -> Function:
        @wraps(command)
        def function(*args: object, **values: Any) -> None:  # noqa: ANN401 - of flags
            own = {name: values.pop(name) for name in signature(TaskQueueApi).parameters}
            command(*args, TaskQueueApi(**own), **values)

        named = flags(("--taskqueue_name", str, queue, "Queue."), *_API_FLAGS)(function)
        project = click.option(
            "--project_name", "--project", default="default", help="Application id."
        )
        return project(named)

    return decorate


def _set_level(_ctx: click.Context, _flag: click.Parameter, level: str | None) -> None:
    if level is not None:
        logging.basicConfig(level=level)


_LEVELS = click.Choice(["DEBUG", "INFO", "WARNING", "CRITICAL"])
_LEVEL_HELP = "What to log on standard error; DEBUG: every call; default: WARNING."
_log_level = flags(
    ("--log_level", _LEVELS, None, _LEVEL_HELP, {"callback": _set_level, "expose_value": False})
)


def _command(*rows: tuple[Any, ...]) -> Callable[[Function], click.Command]:
    """Make a command of `gtaskqueue` with these flags and those of its queue."""

    def decorate(command: Function) -> click.Command:
        named = _log_level(api_flags("myqueue")(command))
        done: click.Command = gtaskqueue.command(flags(*rows)(named))
        return done

    return decorate


@click.group(cls=FlagsGroup, context_settings=CONTEXT)
@click.version_option(package_name="pullqueue")
@_log_level
@click.pass_context
@api_flags("myqueue")
def gtaskqueue(ctx: click.Context, _: TaskQueueApi) -> None:
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


@_command(("--get_stats/--noget_stats", bool, False, "Show its statistics, too."))
def getqueue(api: TaskQueueApi, *, get_stats: bool) -> None:
    """Show the queue."""
    _show(api.call("GET", None, getStats=str(get_stats).lower()))


@_command()
def listtasks(api: TaskQueueApi) -> None:
    """List the first hundred tasks, without their payloads."""
    _show(api.call("GET"))


@_command(_TASK_NAME)
def gettask(api: TaskQueueApi, *, task_name: str) -> None:
    """Show one task."""
    _show(api.call("GET", task_name))


_NUM_TASKS = ("--num_tasks", click.IntRange(1), 1, "Maximum number of tasks.")
_SHOWN_HELP = "Number of characters of a payload, in base64, to show."


@_command(
    LEASE_SECS,
    _NUM_TASKS,
    ("--payload_size_to_display", click.IntRange(0), 2 * 1024 * 1024, _SHOWN_HELP),
    TAG,
)
def leasetask(api: TaskQueueApi, *, payload_size_to_display: int, **lease: Any) -> None:  # noqa: ANN401 - flags
    """Lease tasks and show them with their payloads."""
    leased = api.lease(**lease)
    for task in leased.get("items", []):
        payload = task.get("payloadBase64", "")
        hidden = len(payload) - payload_size_to_display
        if hidden > 0:
            task["payloadBase64"] = f"{payload[:-hidden]}({hidden} more bytes)"
    _show(leased)


@_command(_TASK_NAME)
def deletetask(api: TaskQueueApi, *, task_name: str) -> None:
    """Delete one task, leased or not."""
    api.call("DELETE", task_name)


@_command(("--max_delete", click.IntRange(0), 100, "Maximum number of tasks."))
def clear(api: TaskQueueApi, *, max_delete: int) -> None:
    """Delete tasks of the queue, one after the other, and count them."""
    deleted = 0
    while deleted < max_delete and (tasks := api.call("GET").get("items", [])):
        gone = sum(_delete(api, task["id"]) for task in tasks[: max_delete - deleted])
        if not gone:
            raise ApiError(f"none of {len(tasks)} tasks can be deleted")
        deleted += gone
    _show({"deleted": deleted})


def _delete(api: TaskQueueApi, name: str) -> bool:
    click.echo(f"Deleting: {name}")
    try:
        api.call("DELETE", name)
    except ApiError:
        return False  # a worker was quicker
    return True


def _show(value: Json) -> None:
    click.echo(json.dumps(value, sort_keys=True, indent=2))
