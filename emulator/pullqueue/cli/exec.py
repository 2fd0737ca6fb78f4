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
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, is_host_and_port
from pullqueue.cli._addresses import host_and_port
from pullqueue.cli._client import Client
from pullqueue.cli._reasons import reason_of
from pullqueue.cli._serving import (
    found_file,
    lease_rate_option,
    profile_option,
    queue_yaml_argument,
)
from pullqueue.errors import ServerAddressError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, Limits
from pullqueue.tasks import count_tasks

if TYPE_CHECKING:
    from pullqueue.server.lifecycle import Server

_ANSWER_SECONDS = 5
_LOOK_SECONDS = 0.5
"""For how long a server that nobody named may hold up the command."""

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128
"""Exit statuses as shells give them; a program that signal N ended has 128 + N."""

_FROM_TERMINALS = ("SIGINT", "SIGQUIT")
_PASSED_ON = (*_FROM_TERMINALS, "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

_COMMAND = "pullqueue.exec.command"


class _Exec(click.Command):
    """A command line in two parts, with `--` between them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the program's part apart, whatever it looks like."""
        own, program = _split(args)
        ctx.meta[_COMMAND] = program
        try:
            return super().parse_args(ctx, own)
        except click.UsageError:
            if "--" in args:
                raise
            raise _no_command(ctx) from None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Tell of both parts."""
        return [*super().collect_usage_pieces(ctx), "--", "COMMAND..."]


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
    help="Where the program's calls to App Engine's other services are passed on to.",
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
    """Run COMMAND with its task queue calls going to an emulator.

    One with the queues of QUEUE_YAML is started for as long as the command runs, or the server that
    PULLQUEUE_EMULATOR_HOST names is joined. The environment tells App Engine's client libraries
    where it is. Without QUEUE_YAML, queue.yaml or queue.yml of the current folder is taken.

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
    hint = _hint_at_the_usual_server(queue_yaml)
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


def _hint_at_the_usual_server(queue_yaml: Path | None) -> str | None:
    """Give what to say where a pullqueue that could have been meant runs already."""
    try:
        found = Client(DEFAULT_ADDRESS, timeout=_LOOK_SECONDS).get("/version")
    except click.ClickException:
        return None
    if "version" not in found:
        return None
    advice = "" if queue_yaml is None else f", without {str(queue_yaml)!r},"
    return (
        f"pullqueue: a server runs at {DEFAULT_ADDRESS}, which this command does not use: set "
        f"{ADDRESS_VARIABLE}={DEFAULT_ADDRESS}{advice} to join it"
    )


def _no_command(ctx: click.Context) -> click.UsageError:
    return click.UsageError(
        "there is no command: give one behind `--`, as in `pullqueue exec queue.yaml -- "
        "python main.py`",
        ctx,
    )


def _split(args: list[str]) -> tuple[list[str], list[str]]:
    """Give what stands before the first `--`, and what stands behind it."""
    place = args.index("--") if "--" in args else len(args)
    return args[:place], args[place + 1 :]


@contextmanager
def _started(
    file: Path, *, limits: Limits, profile: str, port: int, api_upstream: str | None
) -> Iterator[str]:
    """Serve the queues of a queue.yaml inside the block, and give the server's address."""
    from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - imported when it runs
    from pullqueue.sdk.missing import SdkMissingError, is_installed  # noqa: PLC0415 - with it
    from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - imports Flask

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    emulator = Emulator.from_file(file, limits=limits, profile=profile)
    with closing(emulator), Server(emulator, port=port, api_upstream=api_upstream) as server:
        click.echo(f"pullqueue listening on {server.url}", err=True)
        if not is_installed():
            _warn_of_missing_sdk("this server", str(SdkMissingError()))
        yield f"{server.host}:{server.port}"
        _tell_what_was_left(server)


def _tell_what_was_left(server: Server) -> None:
    """Say how many tasks go away with a server, if any."""
    from pullqueue.engine.interceptors import bypass_interceptors  # noqa: PLC0415 - when it runs

    with bypass_interceptors():
        left = sum(queue.fetch_statistics().tasks for queue in server.emulator.queues)
    if left:
        fate = "was left and is" if left == 1 else "were left and are"
        click.echo(f"pullqueue: {count_tasks(left)} {fate} gone with this server", err=True)


def _check_answers(address: str) -> None:
    """Ask the server that is to be joined whether it is there, and has the SDK.

    Raises:
        ServerAddressError: nothing answers at this address, or something else does, or the server
            refuses to be called so.
    """
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - imported when it runs

    from pullqueue.sdk.environment import BRIDGE_PATH  # noqa: PLC0415 - the same
    from pullqueue.sdk.missing import NO_SDK_STATUS  # noqa: PLC0415 - the same

    if not is_host_and_port(address):
        raise ServerAddressError(
            f"{ADDRESS_VARIABLE} is {address!r}, which is no address: give HOST:PORT, such as "
            "localhost:8124, or unset the variable"
        )
    try:
        with closing(HTTPConnection(address, timeout=_ANSWER_SECONDS)) as connection:
            connection.request("GET", BRIDGE_PATH)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        raise ServerAddressError(
            f"{ADDRESS_VARIABLE} is {address!r}, where no server answers ({reason_of(error)}): "
            "start one there with `pullqueue serve`, or unset the variable"
        ) from None
    if answer.status == NO_SDK_STATUS:
        _warn_of_missing_sdk(f"the server at {address}", said)
    elif answer.status != HTTPStatus.OK:
        raise ServerAddressError(f"{ADDRESS_VARIABLE} is {address!r}, where {_refusal(said)}")


def _refusal(said: str) -> str:
    """Give why a server that answers cannot be joined, in its own words if it is one of ours."""
    try:
        return f"the server refuses to answer: {json.loads(said)['error']['message']}"
    except (ValueError, LookupError, TypeError):
        advice = "start one there with `pullqueue serve`, or unset the variable"
        return f"what answers is no pullqueue: {advice}"


def _warn_of_missing_sdk(server: str, reason: str) -> None:
    # No error: a program that works by REST does without it.
    click.echo(f"pullqueue: a program on App Engine's SDK cannot use {server}: {reason}", err=True)


def _run(command: Sequence[str], address: str) -> int:
    """Run a program to its end and give the exit status to end with."""
    from pullqueue.sdk.environment import variables_for  # noqa: PLC0415 - imported when it runs

    environment = os.environ | variables_for(address)
    with _signals_kept() as forward_to:
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's
        except FileNotFoundError:
            click.echo(f"pullqueue: {command[0]!r} is not found: check its spelling", err=True)
            return _NOT_FOUND
        except OSError as error:
            click.echo(f"pullqueue: {command[0]!r} cannot be run: {reason_of(error)}", err=True)
            return _NOT_EXECUTABLE
        forward_to(process)
        status = process.wait()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _signals_kept() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Let signals of this process go to the one that is named with the function given.

    Those that came before it was named are passed on then.
    """
    processes: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not processes:
            early.append(number)
        elif signal.Signals(number).name not in _FROM_TERMINALS or not _in_foreground():
            processes[0].send_signal(number)

    def forward_to(process: subprocess.Popen[bytes]) -> None:
        processes.append(process)
        for number in early:
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    before = [(number, signal.signal(number, pass_on)) for number in numbers]
    try:
        yield forward_to
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Tell whether this is a terminal's foreground job: its keys reach all processes of the job."""
    for stream in (0, 1, 2):
        try:
            return os.tcgetpgrp(stream) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
