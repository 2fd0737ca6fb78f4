"""Options and arguments that several commands have, and the values they take."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, DEFAULT_PORT, is_host_and_port
from pullqueue.errors import ConfigFileError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND

if TYPE_CHECKING:
    from pullqueue.cli._client import Json

    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # takes no parameter before click 8.4

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FILE_NAMES = ("queue.yaml", "queue.yml")
_PROJECT = re.compile(
    r"""
    (?: [a-z] ~ )?                # the partition, as in s~my-app
    (?: [a-z0-9.-]+ : )?          # the domain, as in example.com:my-app
    [a-zA-Z0-9] [a-zA-Z0-9_-]*
    """,
    re.ASCII | re.VERBOSE,
)
_HOST_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*", re.ASCII | re.IGNORECASE)


class _Number(_FloatType):
    """A finite number within limits; click accepts `nan` and `inf`."""

    name = "number"

    def __init__(
        self, *, what: str, example: str, least: float, most: float = sys.float_info.max
    ) -> None:
        """Accept numbers from `least` to `most`; `what` and `example` are for the message."""
        self._least = least
        self._most = most
        self._advice = f"use {what}, such as {example}"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not self._least <= number <= self._most:
            self.fail(f"{value!r} is not valid: {self._advice}", param, ctx)
        return number


SECONDS = _Number(least=0, what="a number of seconds, 0 or more", example="60")
PAUSE_SECONDS = _Number(least=0.1, what="a number of seconds, 0.1 or more", example="2")
SHARE = _Number(least=0, most=1, what="a number from 0 to 1", example="0.5")

queue_yaml_argument = click.argument("queue_yaml", required=False, type=click.Path(path_type=Path))
profile_option = click.option(
    "--profile",
    default="gcloud",
    show_default=True,
    type=click.Choice(["gcloud", "sdk"]),
    help="Rules that the file must follow: those of gcloud, or the more lenient ones of the SDK.",
)
lease_rate_option = click.option(
    "--lease-rate-limit/--no-lease-rate-limit",
    default=True,
    show_default=True,
    help=f"Whether more than {PRODUCTION_LEASES_PER_SECOND} leases a second on one queue return "
    "no tasks, as on App Engine.",
)


def url_option(command: _Command) -> _Command:
    """Add --url."""
    return click.option(
        "--url",
        metavar="HOST:PORT",
        help=f"Address of the server. Default: the value of {ADDRESS_VARIABLE}, or "
        f"{DEFAULT_ADDRESS}.",
    )(command)


def server_options(command: _Command) -> _Command:
    """Add --url and --json."""
    as_json = click.option(
        "--json", "as_json", is_flag=True, help="Print results and errors as JSON."
    )
    return url_option(as_json(command))


def complete_queue(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of a running server's pull queues that begin with what was typed."""
    queues = _completions(ctx, "/queues", "queues")
    names = [queue["name"] for queue in queues if queue["mode"] == "pull"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_task(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of tasks in the queue that begin with what was typed."""
    from pullqueue.cli._client import task_path  # noqa: PLC0415 - only when it completes

    path = task_path(ctx.params.get("queue") or "")
    tasks = _completions(ctx, path, "tasks", search=incomplete, limit=1000)
    if ctx.info_name == "requeue":
        tasks = _completions(ctx, path, "tasks", search=incomplete, state="exhausted", limit=1000)
    return [CompletionItem(t["name"]) for t in tasks if t["name"].startswith(incomplete)]


def _completions(ctx: click.Context, path: str, field: str, **query: object) -> list[Json]:
    from pullqueue.cli._client import Client  # noqa: PLC0415 - only when it completes

    try:
        found: list[Json] = Client(ctx.params.get("url")).get(path, **query)[field]
    except click.ClickException:
        return []
    return found


def queue_argument(command: _Command) -> _Command:
    """Add the argument QUEUE, which shells complete."""
    return click.argument("queue", shell_complete=complete_queue)(command)


def task_argument(command: _Command) -> _Command:
    """Add the argument TASK, which shells complete."""
    return click.argument("task", shell_complete=complete_task)(command)


def project_id(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the value of an option that is a project id.

    Raises:
        BadParameter: it is not valid.
    """
    if value is not None and not _PROJECT.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is not a valid project id: use letters, digits and hyphens, such as my-app"
        )
    return value


def host_and_port(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the value of an option that is an address.

    Raises:
        BadParameter: it is not valid.
    """
    if value is not None and not is_host_and_port(value):
        raise click.BadParameter(f"{value!r} is {_not_an_address('localhost:8080')}")
    return value


def host_names(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the values of an option that are host names, as they appear in Host headers.

    Raises:
        BadParameter: one is not valid.
    """
    for value in values:
        if not _HOST_NAME.fullmatch(value):
            raise click.BadParameter(
                f"{value!r} is not a valid host name: use one without a port, such as "
                "queues.internal"
            )
    return values


def server_url(option: str | None, *, name: str = "--url") -> str:
    """Return the URL of the server that an option or the environment names, or the default.

    HOST:PORT is enough; a URL may omit the port, or have a path, behind a proxy.

    Raises:
        UsageError: it is not an address.
    """
    address = option or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    url = address if "://" in address else f"http://{address}"
    if not (is_host_and_port(address) or ("://" in address and _is_url(address))):
        problem = f"{address!r}, which is {_not_an_address(f'localhost:{DEFAULT_PORT}')}"
        if option:
            raise click.UsageError(f"{name} is {problem}")
        raise click.UsageError(f"{ADDRESS_VARIABLE} is {problem}, or unset the variable")
    return url.rstrip("/")


def found_file(folder: Path) -> Path:
    """Return the queue.yaml of a folder.

    Raises:
        ConfigFileError: it has none.
    """
    for name in _FILE_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise ConfigFileError(
        f"there is neither {' nor '.join(_FILE_NAMES)} in {str(folder.resolve())!r}: name a file, "
        "as in `pullqueue serve path/to/queue.yaml`"
    )


def _not_an_address(example: str) -> str:
    return f"not a valid address: use HOST:PORT, such as {example}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and parts.scheme in ("http", "https") and not re.search(r"\s", text)
