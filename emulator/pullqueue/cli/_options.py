"""Options and arguments that several commands have, and the checks of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, DEFAULT_PORT, is_host_and_port
from pullqueue.cli._client import Client, Json, queue_path
from pullqueue.cli._output import AS_JSON
from pullqueue.config.text import did_you_mean, quoted
from pullqueue.errors import ConfigFileError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND

Command = Callable[..., Any]

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


class Choice(click.Choice[str]):
    """One of these words; an unknown one is refused with the word that is meant."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the word."""
        if value not in self.choices:
            advice = did_you_mean(value, self.choices)
            self.fail(f"{quoted(value)} does not exist: {advice}", param, ctx)
        return super().convert(value, param, ctx)


def checked(is_valid: Callable[[str], object], what: str) -> Callable[..., Any]:
    """Return the callback of an option whose value, or each value, must be valid."""

    def check(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - what click passes
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and not is_valid(each):
                raise click.BadParameter(f'"{each}" is not a valid {what}')
        return value

    return check


def server_url(_ctx: click.Context, _parameter: click.Parameter, address: str) -> str:
    """Return the URL of an address: HOST:PORT, or a URL, perhaps with a path or without a port."""
    is_url = "://" in address
    url = address if is_url else f"http://{address}"
    try:
        parts = urlsplit(url)
        valid = parts.hostname and parts.port != 0 and (parts.port or is_url)
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https") or re.search(r"\s", url):
        raise click.BadParameter(
            f'"{address}" is not a valid address: use HOST:PORT, such as localhost:{DEFAULT_PORT}'
        )
    return url.rstrip("/")


def is_passed(parameter: str) -> bool:
    """Return whether an option of the running command is on its command line."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _client(ctx: click.Context, parameter: click.Parameter, address: str) -> Client:
    """Return the client of an address; without --url, a command of a group uses the group's."""
    if is_passed("client") or ctx.obj is None:
        ctx.obj = ctx.with_resource(closing(Client(server_url(ctx, parameter, address))))
    client: Client = ctx.obj
    return client


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
    return url(as_json(command))


def complete_queue(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of a running server's pull queues that begin with what was typed."""
    queues = _found(ctx, "queues")
    return _names([queue for queue in queues if queue["mode"] == "pull"], incomplete)


def complete_task(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names of tasks in the queue that begin with what was typed."""
    queue = ctx.params.get("queue") or ""
    state = "exhausted" if ctx.info_name == "requeue" else None
    tasks = _found(ctx, "tasks", queue, "tasks", search=incomplete, state=state, limit=1000)
    return _names(tasks, incomplete)


def _found(ctx: click.Context, field: str, *names: str, **query: object) -> list[Json]:
    try:
        found: list[Json] = ctx.params["client"].get(queue_path(*names), **query)[field]
    except click.ClickException:
        return []
    return found


def _names(found: list[Json], incomplete: str) -> list[str]:
    names = [str(each["name"]) for each in found]
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]


queue_argument = click.argument("queue", shell_complete=complete_queue)
task_argument = click.argument("task", shell_complete=complete_task)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def emulator_options(command: Command) -> Command:
    """Add QUEUE_YAML and the options of an emulator that is started for a command."""
    options = (
        click.argument("queue_yaml", required=False, type=click.Path(path_type=Path)),
        click.option(
            "--profile",
            default="gcloud",
            type=click.Choice(["gcloud", "sdk"]),
            help="Rules that QUEUE_YAML must follow: those of gcloud, or the more lenient ones of "
            "the SDK.",
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
            "--api-upstream",
            metavar="HOST:PORT",
            callback=checked(is_host_and_port, "address: use HOST:PORT, such as localhost:8080"),
            help="Server for calls to App Engine's other services. Default: none.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def found_file() -> Path:
    """Return the queue.yaml of the current folder.

    Raises:
        ConfigFileError: it has none.
    """
    for name in _FILE_NAMES:
        if Path(name).is_file():
            return Path(name)
    raise ConfigFileError(
        f'there is neither {" nor ".join(_FILE_NAMES)} in "{Path.cwd()}": name a file, as in '
        f"`{click.get_current_context().command_path} path/to/queue.yaml`"
    )
