"""`pullqueue exec`: run a program whose task queue calls go to an emulator."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, SplitUrl, is_host_and_port
from pullqueue.cli import _watcher
from pullqueue.cli._emulator import EmulatorOptions, hint_at_manual_clock
from pullqueue.cli._options import PORT, checked, parsed
from pullqueue.cli._output import say
from pullqueue.cli.client import Client, FailedError
from pullqueue.cli.serve import report_tasks_left
from pullqueue.sdk.environment import variables_for
from pullqueue.sdk.startup.front_end import PROOF, PROOF_VARIABLE
from pullqueue.text import describe_os_error

if TYPE_CHECKING:
    from pullqueue.observe.users import User
    from pullqueue.runtime.state import ServerState

_RESPONSE_SECONDS = 5
_LOOK_SECONDS = 0.5
"""Maximum time that the search for a server at the default address takes."""

_CHECK_SECONDS = 0.5
"""Interval of the checks whether the app listens, and for changes of the file."""

_CONNECT_SECONDS = 0.1

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128
"""Exit statuses as shells return them; a program that signal N ended has 128 + N."""

_FROM_TERMINALS = ("SIGINT", "SIGQUIT")
_FORWARDED = (*_FROM_TERMINALS, "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

_COMMAND = "pullqueue.exec.command"

_JOINING = ("url", "project", "user")
"""The options of a program that uses a running server."""


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


def _user(value: str) -> User:
    from pullqueue.observe.users import parse_user

    return parse_user(value)


@click.command(cls=_Exec)
@EmulatorOptions.add_to
@click.option("--port", default=0, type=PORT, help="Port of the server; 0 picks a free one.")
@click.option(
    "--url",
    metavar="HOST:PORT",
    envvar=ADDRESS_VARIABLE,
    show_envvar=True,
    callback=checked(is_host_and_port, "address: use HOST:PORT, such as localhost:8124"),
    help="Address of a running server to use, with --project and --user only. Default: none, a "
    "server is started.",
)
@click.option(
    "--user",
    metavar="EMAIL[:admin]",
    callback=parsed(_user),
    help="User of the app in requests of a browser that has not signed in; with :admin, an "
    "administrator. For apps in Python. Default: nobody.",
)
@click.pass_context
def exec(  # noqa: A001 - the command's name
    ctx: click.Context, /, *, port: int, url: str | None, user: User | None, **options: Any
) -> int:
    """Run COMMAND with its task queue calls sent to an emulator.

    Start a server with the queues of QUEUE_YAML, and stop it when the command ends; with --url, use
    a running server. App Engine's client libraries find the server through environment variables.
    Default for QUEUE_YAML: queue.yaml or queue.yml of the current folder; without one there is the
    queue `default`.

    The exit status is that of the command; signals are passed on to it.
    """
    command: Sequence[str] = ctx.meta[_COMMAND]
    if not command:
        raise _no_command(ctx)
    given = EmulatorOptions(**options)
    if url:
        if ctx.get_parameter_source("url") is ParameterSource.ENVIRONMENT:
            _check_server_of_variable(url)
        _check_unused(ctx, url)
        _check_server(url, timeout=_RESPONSE_SECONDS)
        return _run(command, os.environ | variables_for(url, project=given.project, user=user))
    return _serve_and_run(command, given, port=port, user=user)


def _serve_and_run(
    command: Sequence[str], options: EmulatorOptions, *, port: int, user: User | None
) -> int:
    hint, environment = _hint_at_default_server(), dict(os.environ)
    from pullqueue.cli._process import set_up_logs

    set_up_logs(log_format="text", log_level="warning")
    if options.push_to:
        environment[PROOF_VARIABLE] = secrets.token_urlsafe()
        options.push_to.proof = {PROOF: environment[PROOF_VARIABLE]}
    options.push_to.await_app()
    with options.make_server(port=port) as server, server:
        say(f"pullqueue listening on {server.url}", err=True)
        if server.grpc_address:
            say(f"gRPC listening on {server.grpc_address}", err=True)
        say(f"pullqueue console: {server.url}/console/", err=True)
        for line in filter(None, (hint, hint_at_manual_clock(server))):
            say(line, err=True)
        address = f"{server.host}:{server.port}"
        variables = variables_for(
            address, project=options.project, location=options.location, user=user
        )
        if user is not None:
            server.state.users[user.email] = user
        checks = [partial(_look_for_app, server.state)] if options.push_to else []
        if options.watch:
            checks.append(partial(server.check_files, changes=True, now=False))
        status = _run(command, environment | variables, checks)
        if options.store_url == "memory":
            report_tasks_left(server)
    return status


def _look_for_app(state: ServerState) -> None:
    """Send tasks to the addresses at which the app has begun to listen."""
    for origin in state.push_to.awaited:
        address = SplitUrl(origin)
        where = (address.host, address.port)
        with suppress(OSError), socket.create_connection(where, _CONNECT_SECONDS):
            state.push_to.has_begun_to_listen(origin)
            if state.delivery is not None:
                state.delivery.look_again()


def _check_unused(ctx: click.Context, url: str) -> None:
    """Raise a UsageError for what a running server has of its own."""
    instead = f"leave out --url and unset {ADDRESS_VARIABLE}"
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name in _JOINING or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if name == "queue_yaml":
            raise click.UsageError(
                f'the server at "{url}" has a queue.yaml of its own: leave "{ctx.params[name]}" '
                f"out, or {instead}"
            )
        raise click.UsageError(
            f'the server at "{url}" has settings of its own: pass {parameter.opts[0]} to it, or '
            f"{instead}"
        )


def _hint_at_default_server() -> str | None:
    try:
        _check_server(DEFAULT_ADDRESS, timeout=_LOOK_SECONDS)
    except click.ClickException:
        return None
    return (
        f"pullqueue: a server runs at {DEFAULT_ADDRESS}, which this command does not use: pass "
        f"--url {DEFAULT_ADDRESS} to use it"
    )


def _check_server(address: str, *, timeout: float) -> None:
    """Check that pullqueue listens at an address.

    Raises:
        RefusedError: it refuses the request, there is none, or it is not a pullqueue.
    """
    with closing(Client(f"http://{address}", timeout=timeout)) as client:
        if "version" not in client.get("/version"):
            raise FailedError(f"the server at {address} is not a pullqueue: pass another --url")


def _check_server_of_variable(address: str) -> None:
    """Check the same where the variable names the address; raise a FailedError that says so."""
    try:
        _check_server(address, timeout=_RESPONSE_SECONDS)
    except FailedError as error:
        raise FailedError(
            f"{ADDRESS_VARIABLE} is set to {address}, so exec uses the server there instead of "
            f"starting one, but {str(error).partition(': ')[0]}: unset {ADDRESS_VARIABLE} to start "
            "one"
        ) from None


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    checks: Sequence[Callable[[], None]] = (),
) -> int:
    """Run a program with an environment, to its end, and return the exit status to end with.

    `checks` are called before it starts, and at intervals meanwhile.
    """
    for check in checks:
        check()
    with _ForwardedSignals() as signals:
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's
        except FileNotFoundError:
            say(f'pullqueue: "{command[0]}" is not found: check its spelling', err=True)
            return _NOT_FOUND
        except OSError as error:
            say(f'pullqueue: "{command[0]}" cannot be run: {describe_os_error(error)}', err=True)
            return _NOT_EXECUTABLE
        signals.forward_to(process)
        status = None
        with _watched(process):
            while status is None:
                try:
                    status = process.wait(_CHECK_SECONDS if checks else None)
                except subprocess.TimeoutExpired:
                    for check in checks:
                        check()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a program with its children should this process be killed in the block."""
    if os.name != "posix":
        yield
        return
    command = [sys.executable, "-I", "-S", _watcher.__file__, str(process.pid)]
    null = subprocess.DEVNULL
    watcher = subprocess.Popen(  # noqa: S603 - a file of this package
        command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
    )
    with watcher:
        yield
        with suppress(OSError):  # somebody has ended it
            watcher.communicate(b".")


class _ForwardedSignals(ExitStack):
    """Signals that are passed on to a program as soon as there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        for number in (getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)):
            self.callback(signal.signal, number, signal.signal(number, self._forward))

    def forward_to(self, process: subprocess.Popen[bytes]) -> None:
        """Pass signals on to a program, and those that came before."""
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _forward(self, number: int, _frame: object) -> None:
        if self._process is None:
            self._early.append(number)
        elif signal.Signals(number).name not in _FROM_TERMINALS or not _in_foreground():
            self._process.send_signal(number)


def _in_foreground() -> bool:
    """Return whether this is a terminal's foreground job: its keys reach all its processes."""
    for stream in (0, 1, 2):
        try:
            return os.tcgetpgrp(stream) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
