"""Options and arguments of the commands that call a server, and their completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli._options import Command, checked
from pullqueue.cli._output import AS_JSON
from pullqueue.cli.client import Client, queue_path
from pullqueue.cli.client.connection import Json, server_url
from pullqueue.text import quoted

_PROJECT_KEY = "pullqueue.project"
"""With a partition (s~my-app) or a domain (example.com:my-app), or without."""
_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)


since_option = click.option(
    "--since",
    metavar="TIME",
    help="Only from this TIME on: 14:05 (UTC; when it last was), or 2026-01-01T14:05:00Z.",
)
"""`--since` of lists of what happened; the server reads it, by its clock."""


def _client(ctx: click.Context, parameter: click.Parameter, address: str) -> Client:
    if address.startswith("/") and any(each.name == "request" for each in ctx.command.params):
        raise click.BadParameter(
            f"{quoted(address)} is not a valid address: pass the path of a push task by --request, "
            f'as in --request "POST {address}"'
        )
    url, project = server_url(ctx, parameter, address), ctx.meta.get(_PROJECT_KEY)
    return ctx.with_resource(closing(Client(url, project=project)))


def server_options(command: Command) -> Command:
    """Add --url, which becomes the parameter `client`, and --json, which `show` respects."""
    url = click.option(
        "--url",
        "client",
        metavar="HOST:PORT",
        envvar=ADDRESS_VARIABLE,
        default=DEFAULT_ADDRESS,
        show_envvar=True,
        callback=_client,
        help="Address of the server.",
    )
    as_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, given: ctx.meta.update({AS_JSON: given}),
        help="Print results and errors as JSON.",
    )
    project = click.option(
        "--project",
        metavar="NAME",
        is_eager=True,  # before --url, whose client gets it
        expose_value=False,
        callback=lambda ctx, _, name: ctx.meta.update({_PROJECT_KEY: name}),
        help="Project of the server. Default: its own, with the queues of queue.yaml.",
    )
    return url(project(as_json(command)))


def complete_queue(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of a running server's queues that begin with what was typed."""
    return _beginning_with(incomplete, [queue["name"] for queue in _found(ctx, "queues")])


def complete_task(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names of tasks in the queue that begin with what was typed."""
    queue = ctx.params.get("queue") or ""
    state = "exhausted" if ctx.info_name == "requeue" else None
    tasks = _found(ctx, "tasks", queue, "tasks", search=incomplete, state=state, limit=1000)
    return _beginning_with(incomplete, [task["name"] for task in tasks])


def complete_tag(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return tags of tasks in the queue that begin with what was typed."""
    state = "exhausted" if ctx.info_name == "requeue" else None
    # click assigns no arguments while the value of an option is missing.
    queue = ctx.params.get("queue") or next(iter(ctx.args), "")
    tasks = _found(ctx, "tasks", queue, "tasks", state=state, limit=1000)
    tags = dict.fromkeys(task["tag"] for task in tasks if task["tag"])
    return _beginning_with(incomplete, tags)


def complete_fault(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the numbers of the faults that are set."""
    return _beginning_with(incomplete, [str(fault["number"]) for fault in _found(ctx, "faults")])


def _found(ctx: click.Context, field: str, *names: str, **query: object) -> list[Json]:
    """Return what a running server lists, or nothing; `names` are those of `queue_path`."""
    try:
        path = queue_path(*names) if names else f"/{field}"
        found: list[Json] = ctx.params["client"].get(path, **query)[field]
    except click.ClickException:
        return []
    return found


def _beginning_with(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete) and word.isprintable()]


def complete_client(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what the clients of the latest requests call themselves."""
    requests = _found(ctx, "requests", limit=1000)
    names = dict.fromkeys(each["caller"] or each["agent"] for each in requests)
    return _beginning_with(incomplete, filter(None, names))


def number_argument(noun: str) -> Callable[[Command], Command]:
    """Return the argument of the command that lists mails or requests: the NUMBER of one."""
    what = f"{noun} number: use one that `pullqueue {noun}s` lists"
    return click.argument("number", required=False, callback=checked(_NUMBER.fullmatch, what))


queue_argument = click.argument("queue", shell_complete=complete_queue)
task_argument = click.argument("task", shell_complete=complete_task)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def count_stored(client: Client) -> int:
    """Return how many tasks a server has, exhausted ones included."""
    queues = client.get("/queues")["queues"]
    return sum(queue["tasks"] + queue["exhausted"] for queue in queues)
