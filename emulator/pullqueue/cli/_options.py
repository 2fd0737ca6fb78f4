"""Options and arguments that several commands have, and the checks of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, LARGEST_PORT, is_host_and_port
from pullqueue.cli._client import Client, queue_path
from pullqueue.cli._output import AS_JSON
from pullqueue.cli._words import Choice
from pullqueue.cli.connection import Json, server_url
from pullqueue.errors import StoreError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND
from pullqueue.services import SERVICES, parse_services
from pullqueue.text import SECONDS_PER_UNIT, format_span, quoted

if TYPE_CHECKING:
    from pullqueue.push.addresses import PushAddresses

Command = Callable[..., Any]

DURATION_ADVICE = "use seconds, or a time span such as 10min, 2h or 7d"

_SPAN = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(s|min|m|h|d)", re.ASCII)
_LOCATION = re.compile(r"[A-Za-z0-9-]{2,100}", re.ASCII)
_PROJECT = re.compile(r"([a-z]~)?([a-z0-9.-]+:)?[a-zA-Z0-9][a-zA-Z0-9_-]*", re.ASCII)
_PROJECT_KEY = "pullqueue.project"
"""With a partition (s~my-app) or a domain (example.com:my-app), or without."""
_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)
PORT = click.IntRange(0, LARGEST_PORT)
_FILE_NAMES = ("queue.yaml", "queue.yml")


class Number(click.FloatRange):
    """A finite number in a range; click's accepts `nan` and `inf`."""

    name = "number"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not finite.", param, ctx)
        return number


class Duration(Number):
    """A number of seconds in a range, or a time span such as `10min`, `2h` or `7d`."""

    name = "duration"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number of seconds."""
        if isinstance(value, str):
            seconds = parse_seconds(value)
            if seconds is None:
                self.fail(f"{quoted(value)} is not a valid duration: {DURATION_ADVICE}", param, ctx)
            if self.max is not None and seconds > self.max:
                allowed = f"the maximum is {format_span(self.max)}"
                self.fail(f"{quoted(value)} is not a valid duration: {allowed}", param, ctx)
            value = seconds
        return super().convert(value, param, ctx)


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration as it is written on the command line; None if it is not."""
    if match := _SPAN.fullmatch(text.strip()):
        return float(match[1]) * (SECONDS_PER_UNIT | {"m": 60})[match[2]]
    try:
        return float(text)
    except ValueError:
        return None


since_option = click.option(
    "--since",
    metavar="TIME",
    help="Only from this TIME on: 14:05 (UTC; when it last was), or 2026-01-01T14:05:00Z.",
)
"""`--since` of lists of what happened; the server reads it, by its clock."""


def checked(is_valid: Callable[[str], object], what: str) -> Callable[..., Any]:
    """Return the callback of an option whose value, or each value, must be valid."""

    def check(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - what click passes
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and not is_valid(each):
                raise click.BadParameter(f'"{each}" is not a valid {what}')
        return value

    return check


def is_passed(parameter: str) -> bool:
    """Return whether an option of the running command is on its command line."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _client(ctx: click.Context, parameter: click.Parameter, address: str) -> Client:
    """Return the client of an address; without --url, a command of a group uses the group's."""
    if address.startswith("/") and any(each.name == "request" for each in ctx.command.params):
        raise click.BadParameter(
            f"{quoted(address)} is not a valid address: pass the path of a push task by --request, "
            f'as in --request "POST {address}"'
        )
    if is_passed("client") or ctx.obj is None:
        ctx.obj = ctx.with_resource(closing(Client(server_url(ctx, parameter, address))))
    client: Client = ctx.obj
    client.project = ctx.meta.get(_PROJECT_KEY) or client.project
    return client


def _keep_project(ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    ctx.meta[_PROJECT_KEY] = name or ctx.meta.get(_PROJECT_KEY)


def _keep_json(ctx: click.Context, _parameter: click.Parameter, given: bool) -> None:  # noqa: FBT001 - click's signature
    ctx.meta[AS_JSON] = given or ctx.meta.get(AS_JSON, False)


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
        callback=_keep_json,
        help="Print results and errors as JSON.",
    )
    project = click.option(
        "--project",
        metavar="NAME",
        is_eager=True,  # before --url, whose client gets it
        expose_value=False,
        callback=_keep_project,
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


def _push_addresses(
    _ctx: click.Context, _parameter: click.Parameter, options: tuple[str, ...]
) -> PushAddresses:
    from pullqueue.push.addresses import PushAddresses  # noqa: PLC0415 - imported when it runs

    try:
        return PushAddresses(options)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _store_url(_ctx: click.Context, _parameter: click.Parameter, url: str | None) -> str | None:
    from pullqueue.stores import open_store  # noqa: PLC0415 - imported when it runs

    try:
        open_store(url or "memory")
    except StoreError as error:
        raise click.BadParameter(str(error)) from error
    return url


def _services(
    _ctx: click.Context, _parameter: click.Parameter, names: str | None
) -> frozenset[str] | None:
    try:
        return None if names is None else parse_services(names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_EMULATOR = (
    # Which queues there are, and what they accept.
    click.argument("queue_yaml", required=False, type=click.Path(path_type=Path)),
    click.option(
        "--profile",
        default="gcloud",
        type=Choice(["gcloud", "sdk"]),
        help="Rules that QUEUE_YAML must follow: those of gcloud, or the more lenient ones of "
        "the SDK.",
    ),
    click.option("--watch", is_flag=True, help="Reload QUEUE_YAML whenever it changes."),
    click.option(
        "--keep-created-queues",
        "keep_created",
        is_flag=True,
        help="Whether a reload of QUEUE_YAML leaves queues of CreateQueue as they are. "
        "Default: it disables them, as a deployment does.",
    ),
    click.option(
        "--lease-rate-limit/--no-lease-rate-limit",
        "leases_per_second",
        default=True,
        callback=lambda _ctx, _parameter, on: PRODUCTION_LEASES_PER_SECOND if on else None,
        help=f"Whether more than {PRODUCTION_LEASES_PER_SECOND} leases a second on one queue "
        "return no tasks, as on App Engine.",
    ),
    click.option(
        "--project",
        callback=checked(
            _PROJECT.fullmatch, "project id: use letters, digits and hyphens, such as my-app"
        ),
        help="Application id of the queues of QUEUE_YAML. A call that names another one begins a "
        "project without queues. Default: any id means these queues.",
    ),
    click.option(
        "--strict-project",
        is_flag=True,
        help="With --project: refuse calls that name another application id.",
    ),
    click.option(
        "--location",
        callback=checked(
            _LOCATION.fullmatch, "location: use letters, digits and hyphens, as in us-central1"
        ),
        help="The only location that Cloud Tasks accepts. Default: any region of Google Cloud.",
    ),
    # Where tasks and time are.
    click.option(
        "--store",
        metavar="URL",
        callback=_store_url,
        help="Where tasks are stored: memory, sqlite:///FILE, or "
        "postgresql://USER@HOST/DATABASE. Default: memory, or tasks.db in the folder of "
        "--data.",
    ),
    click.option(
        "--clock",
        default="system",
        type=Choice(["system", "manual"]),
        help="system: the time of this machine. manual: time stops until `pullqueue clock` "
        "moves it.",
    ),
    # App Engine's other services.
    click.option(
        "--services",
        metavar="NAMES",
        callback=_services,
        help="App Engine's other services to answer, by Google's stubs: names with commas, all "
        f"or none. Names: {', '.join(SERVICES)}. Default: all but urlfetch; none with "
        "--api-upstream.",
    ),
    click.option(
        "--data",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the datastore and blobs are stored, and tasks unless --store is passed. "
        "Default: in memory.",
    ),
    click.option(
        "--datastore-consistency",
        "consistency",
        default="strong",
        type=Choice(["strong", "eventual"]),
        help="strong: queries see every write. eventual: those without an ancestor may miss "
        "the latest.",
    ),
    click.option(
        "--api-upstream",
        metavar="HOST:PORT",
        callback=checked(is_host_and_port, "address: use HOST:PORT, such as localhost:8080"),
        help="Server for calls to the services that --services does not name. Default: none.",
    ),
    # Where push tasks and cron jobs are sent.
    click.option(
        "--push-to",
        multiple=True,
        metavar="[TARGET=]URL",
        callback=_push_addresses,
        help="Address to which push tasks are sent, such as http://localhost:8080; with "
        "TARGET, only those with this target. Repeatable. Default: push tasks are kept, not "
        "delivered.",
    ),
    click.option(
        "--cron",
        type=click.Path(path_type=Path),
        metavar="CRON_YAML",
        help="File of cron jobs: their URLs are requested at the addresses of --push-to when "
        "they are due. Default: none.",
    ),
)


def emulator_options(command: Command) -> Command:
    """Add QUEUE_YAML and the options of an emulator that is started for a command."""
    for option in reversed(_EMULATOR):
        command = option(command)
    return command


def found_file() -> Path | None:
    """Return the queue.yaml of the current folder, if it has one."""
    return next((path for path in map(Path, _FILE_NAMES) if path.is_file()), None)
