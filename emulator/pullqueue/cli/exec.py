"""`pullqueue exec`: run a program whose task queue calls go to an emulator."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, is_host_and_port
from pullqueue.cli._client import Client
from pullqueue.cli._options import (
    found_file,
    host_and_port,
    lease_rate_option,
    profile_option,
    queue_yaml_argument,
)
from pullqueue.config.text import reason_of
from pullqueue.errors import ServerAddressError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, Limits
from pullqueue.sdk.environment import BRIDGE_PATH, variables_for
from pullqueue.sdk.missing import NO_SDK_STATUS, SdkMissingError, is_installed
from pullqueue.tasks import count_tasks

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator

_RESPONSE_SECONDS = 5
_LOOK_SECONDS = 0.5
"""Maximum time that the search for a server at the default address takes."""

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128
"""Exit statuses as shells return them; a program that signal N ended has 128 + N."""

_FROM_TERMINALS = ("SIGINT", "SIGQUIT")
_FORWARDED = (*_FROM_TERMINALS, "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

_COMMAND = "pullqueue.exec.command"


class _Exec(click.Command):
    """A command line in two parts, with `--` between them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the part before `--`; the part after it is the program's."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[place + 1 :]
        try:
            return super().parse_args(ctx, args[:place])
        except click.UsageError:
            if "--" in args:
                raise
            raise _no_command(ctx) from None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of both parts."""
        return [*super().collect_usage_pieces(ctx), "--", "COMMAND..."]


def _no_command(ctx: click.Context) -> click.UsageError:
    return click.UsageError(
        "there is no command to run: write it after `--`, as in `pullqueue exec queue.yaml -- "
        "python main.py`",
        ctx,
    )


@click.command(cls=_Exec)
@queue_yaml_argument
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the server; 0 picks a free one.",
)
@profile_option
@lease_rate_option
@click.option(
    "--api-upstream",
    metavar="HOST:PORT",
    callback=host_and_port,
    help="Server to pass the program's calls to App Engine's other services on to.",
)
@click.pass_context
def exec(  # noqa: A001 - the command's name
    ctx: click.Context,
    *,
    queue_yaml: Path | None,
    port: int,
    profile: str,
    lease_rate_limit: bool,
    api_upstream: str | None,
) -> int:
    """Run COMMAND with its task queue calls sent to an emulator.

    A server with the queues of QUEUE_YAML is started for as long as the command runs, or the server
    that PULLQUEUE_EMULATOR_HOST names is used. App Engine's client libraries find it by the
    environment. Default for QUEUE_YAML: queue.yaml or queue.yml of the current folder.

    The exit status is that of the command; signals are passed on to it.
    """
    command: Sequence[str] = ctx.meta[_COMMAND]
    if not command:
        raise _no_command(ctx)
    address = os.environ.get(ADDRESS_VARIABLE)
    if address:
        if queue_yaml is not None:
            raise click.UsageError(
                f"{ADDRESS_VARIABLE} is {address!r}, a server with a queue.yaml of its own: "
                f"leave {str(queue_yaml)!r} out, or unset the variable"
            )
        _check_answers(address)
        return _run(command, address)
    hint = _hint_at_default_server(queue_yaml)
    with _started(
        queue_yaml or found_file(Path()),
        limits=Limits(leases_per_second=PRODUCTION_LEASES_PER_SECOND if lease_rate_limit else None),
        profile=profile,
        port=port,
        api_upstream=api_upstream,
    ) as address:
        if hint:
            click.echo(hint, err=True)
        return _run(command, address)


def _hint_at_default_server(queue_yaml: Path | None) -> str | None:
    """Return a hint if a server is already running at the default address."""
    try:
        found = Client(DEFAULT_ADDRESS, timeout=_LOOK_SECONDS).get("/version")
    except click.ClickException:
        return None
    if "version" not in found:
        return None
    advice = "" if queue_yaml is None else f", without {str(queue_yaml)!r},"
    return (
        f"pullqueue: a server runs at {DEFAULT_ADDRESS}, which this command does not use: set "
        f"{ADDRESS_VARIABLE}={DEFAULT_ADDRESS}{advice} to use it"
    )


@contextmanager
def _started(
    file: Path, *, limits: Limits, profile: str, port: int, api_upstream: str | None
) -> Iterator[str]:
    """Serve the queues of a queue.yaml inside the block, and yield the server's address."""
    from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - imported when it runs
    from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - imports Flask

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    emulator = Emulator.from_file(file, limits=limits, profile=profile)
    with closing(emulator), Server(emulator, port=port, api_upstream=api_upstream) as server:
        click.echo(f"pullqueue listening on {server.url}", err=True)
        if not is_installed():
            _warn_of_missing_sdk("this server", str(SdkMissingError()))
        yield f"{server.host}:{server.port}"
        _report_tasks_left(server.emulator)


def _report_tasks_left(emulator: Emulator) -> None:
    """Print the number of tasks that are lost with the server, if any."""
    from pullqueue.engine.interceptors import bypass_interceptors  # noqa: PLC0415 - when it runs

    with bypass_interceptors():
        left = sum(queue.fetch_statistics().tasks for queue in emulator.queues)
    if left:
        fate = "was left and is" if left == 1 else "were left and are"
        click.echo(f"pullqueue: {count_tasks(left)} {fate} gone with this server", err=True)


def _check_answers(address: str) -> None:
    """Check that pullqueue listens at an address; warn if it has no SDK.

    Raises:
        ServerAddressError: nothing listens there, or something else, or the server refuses.
    """
    if not is_host_and_port(address):
        raise ServerAddressError(
            f"{ADDRESS_VARIABLE} is {address!r}, which is not a valid address: use HOST:PORT, "
            "such as localhost:8124, or unset the variable"
        )
    try:
        with closing(HTTPConnection(address, timeout=_RESPONSE_SECONDS)) as connection:
            connection.request("GET", BRIDGE_PATH)
            response = connection.getresponse()
            text = response.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        raise ServerAddressError(
            f"{ADDRESS_VARIABLE} is {address!r}, where no server responds ({reason_of(error)}): "
            "start one there with `pullqueue serve`, or unset the variable"
        ) from None
    if response.status == NO_SDK_STATUS:
        _warn_of_missing_sdk(f"the server at {address}", text)
    elif response.status != HTTPStatus.OK:
        raise ServerAddressError(f"{ADDRESS_VARIABLE} is {address!r}, where {_refusal(text)}")


def _refusal(text: str) -> str:
    """Return why a server that responds cannot be used: its own message if it is pullqueue."""
    try:
        return f"the server refuses the request: {json.loads(text)['error']['message']}"
    except (ValueError, LookupError, TypeError):
        advice = "start one there with `pullqueue serve`, or unset the variable"
        return f"what listens is not pullqueue: {advice}"


def _warn_of_missing_sdk(server: str, reason: str) -> None:
    # Not an error: a program that uses REST does not need it.
    click.echo(f"pullqueue: a program on App Engine's SDK cannot use {server}: {reason}", err=True)


def _run(command: Sequence[str], address: str) -> int:
    """Run a program to its end and return the exit status to end with."""
    environment = os.environ | variables_for(address)
    with _forwarding_signals() as started:
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's
        except FileNotFoundError:
            click.echo(f"pullqueue: {command[0]!r} is not found: check its spelling", err=True)
            return _NOT_FOUND
        except OSError as error:
            click.echo(f"pullqueue: {command[0]!r} cannot be run: {reason_of(error)}", err=True)
            return _NOT_EXECUTABLE
        started(process)
        status = process.wait()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _forwarding_signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass signals of this process on to the one that the yielded function is called with.

    Those that came before that call are passed on by it.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif signal.Signals(number).name not in _FROM_TERMINALS or not _in_foreground():
            process.send_signal(number)

    def started(given: subprocess.Popen[bytes]) -> None:
        nonlocal process
        process = given
        for number in early:
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)]
    before = [(number, signal.signal(number, forward)) for number in numbers]
    try:
        yield started
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Return whether this is a terminal's foreground job: its keys reach all its processes."""
    for stream in (0, 1, 2):
        try:
            return os.tcgetpgrp(stream) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
