"""`pullqueue serve`: the emulator as a server, until it is interrupted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pullqueue.address import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_PROJECT, is_loopback
from pullqueue.checks import PERMISSIONS, describe_off
from pullqueue.cli._emulator import EmulatorOptions, hint_at_manual_clock, option
from pullqueue.cli._options import PORT, checked
from pullqueue.cli._output import say
from pullqueue.cli._port_file import port_file as locked_port_file
from pullqueue.cli._words import Choice
from pullqueue.errors import ConfigFileError
from pullqueue.limits import SERVED_TASKS
from pullqueue.push.addresses import KEPT, OPTION
from pullqueue.tasks import count_tasks
from pullqueue.text import counted

if TYPE_CHECKING:
    from pullqueue.engine.queue import Queue
    from pullqueue.server.lifecycle import Server

_HOST_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*", re.ASCII | re.IGNORECASE)
_TASK = '{"payloadBase64": "aGVsbG8="}'


class _Serve(click.Command):
    """A command whose port file shows that it has failed, also if its options are not valid."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; those that are not valid fail while the port file is locked."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            lenient = self.make_context(
                ctx.info_name,
                given,
                resilient_parsing=True,
                ignore_unknown_options=True,
                allow_extra_args=True,
            )
            with suppress(ConfigFileError), locked_port_file(lenient.params.get("port_file")):
                raise
            raise


@dataclass(frozen=True, kw_only=True)
class ServeOptions(EmulatorOptions):
    """QUEUE_YAML, and the options of `pullqueue serve`."""

    host: str = option(default=DEFAULT_HOST, help="Address to listen on.")
    port: int = option(
        default=DEFAULT_PORT, type=PORT, help="Port to listen on; 0 picks a free one."
    )
    auth: str = option(
        default="off",
        type=Choice(["off", "acl"]),
        help="off: no tokens are needed. acl: callers need a token, and the acl of each queue says "
        "what they may do.",
    )
    max_tasks: int = option(
        default=SERVED_TASKS,
        type=click.IntRange(1),
        help="Maximum number of tasks in memory.",
    )
    host_names: tuple[str, ...] = option(
        "--allow-host",
        multiple=True,
        callback=checked(
            _HOST_NAME.fullmatch, "host name: use one without a port, such as queues.internal"
        ),
        metavar="NAME",
        help="Another host name that clients may use for this server; repeatable.",
    )
    port_file: Path | None = option(
        type=click.Path(path_type=Path, dir_okay=False),
        help="File that contains the port while the server runs, for `wait` and scripts. One "
        "server uses it at a time.",
    )
    log_format: str = option(
        default="text",
        type=Choice(["text", "json"]),
        help="Format of the log; json: one object per line.",
    )
    log_level: str = option(
        default="info",
        type=Choice(["debug", "info", "warning", "error"]),
        help="Lowest level that is logged; debug includes every request.",
    )

    @property
    def acl(self) -> bool:
        """True if callers need a token."""
        return self.auth == "acl"

    @property
    def checks(self) -> dict[str, bool]:
        """Whether the checks of production are on that can be off."""
        return super().checks | {PERMISSIONS: self.acl}


@click.command(cls=_Serve)
@ServeOptions.add_to
def serve(**options: Any) -> None:
    """Serve the queues of QUEUE_YAML over HTTP.

    Default for QUEUE_YAML: queue.yaml or queue.yml of the current folder; without one there is the
    queue `default`. Ctrl-C stops the server.
    """
    with locked_port_file(options["port_file"]) as write_port:
        _serve(ServeOptions(**options), write_port)


def _serve(options: ServeOptions, write_port: Callable[[int], None]) -> None:
    """Serve until a signal stops the server; report its port once it listens."""
    from pullqueue.cli import _process

    _process.set_up_logs(log_format=options.log_format, log_level=options.log_level)
    making = options.make_server(
        max_tasks=options.max_tasks,
        host=options.host,
        port=options.port,
        acl=options.acl,
        host_names=options.host_names,
    )
    with making as server:
        signals = _process.Signals(server)
        with server:
            write_port(server.port)
            _print_banner(server, options)
            signals.wait(watch=options.watch)
            if options.store_url == "memory":
                report_tasks_left(
                    server,
                    "; to keep tasks, start with --store sqlite:///tasks.db, or run `pullqueue "
                    "snapshot save FILE` first",
                )


def report_tasks_left(server: Server, advice: str = "") -> None:
    """Print how many tasks are deleted with a server, and how many are exhausted."""
    from pullqueue.engine.interceptors import bypass_interceptors

    with bypass_interceptors():
        queues = [queue for state in server.states for queue in state.emulator.queues]
        statistics = [queue.fetch_statistics() for queue in queues]
    left, exhausted = (sum(n.tasks for n in statistics), sum(n.exhausted for n in statistics))
    if left:
        were = "was left and is" if left == 1 else "were left and are"
        say(f"pullqueue: {count_tasks(left)} {were} deleted with this server{advice}", err=True)
    if exhausted:
        say(f"pullqueue: exhausted tasks, whose work was not done: {exhausted}", err=True)


def _print_banner(server: Server, options: ServeOptions) -> None:
    """Print the address of a running server, its queues, a command to try, store and clock."""
    from pullqueue.stores import without_password

    host, store, acl = options.host, options.store_url, options.acl
    address = f"[{host}]" if ":" in host else host
    click.echo(f"pullqueue listening on http://{address}:{server.port}")
    if server.grpc_address:
        click.echo(f"gRPC listening on {server.grpc_address}")
    emulator = server.emulator
    pull = [queue for queue in emulator.queues if not queue.is_push]
    push = [queue for queue in emulator.queues if queue.is_push and queue.settings.line]
    counts = [
        counted(len(queues), f"{mode} queue")
        for mode, queues in (("pull", pull), ("push", push))
        if queues
    ]
    queues = ", ".join(counts) or 'only the queue "default"'
    say(f"{emulator.config.file or 'No queue.yaml'}: {queues}")
    for queue in (*pull, *push):
        say(f"  {queue.name}{_notes(queue, acl=acl)}")
    _print_projects(server)
    if pull:
        _print_example(server, pull, acl=acl)
    where = "memory, until the server stops" if store == "memory" else without_password(store)
    say(f"Tasks are stored in {where}")
    if options.data is not None:
        say(f"Datastore and blobs are stored in {options.data}")
    if server.state.push_to:
        say(f"Push tasks are delivered to {server.state.push_to}")
        if server.state.cron.states:
            say(f"{options.cron}: {counted(len(server.state.cron.states), 'cron job')}")
    elif push:
        say(
            f"Push tasks of App Engine are {KEPT}: pass {OPTION} to deliver them to an app; tasks "
            "with an HTTP target on this machine are delivered"
        )
    for line in filter(None, (describe_off(options.checks), hint_at_manual_clock(server))):
        say(line)
    loopback = is_loopback(host)
    say(f"Console: {server.url}/console/{', from this machine only' if loopback else ''}")
    if not loopback:
        say(
            f"warning: {host} can be reached from other machines, and whoever reaches it can use "
            "every queue",
            err=True,
        )


def _print_projects(server: Server) -> None:
    stored = 0
    for state in server.states[1:]:
        if state.config_file is None:
            stored += 1
            continue
        names = ", ".join(queue.name for queue in state.emulator.queues)
        say(f"Project {state.emulator.project}, {state.config_file.path}: {names}")
    if stored:
        say(f"{counted(stored, 'other project')} in the store")


def _notes(queue: Queue, *, acl: bool) -> str:
    if queue.is_push:
        return " (push)" if queue.settings.effective_rate else " (push; not sent: rate is 0)"
    notes = []
    retry = queue.settings.retry_parameters
    if retry is not None and retry.task_retry_limit is not None:
        notes.append(f"each task can be leased {counted(retry.task_retry_limit, 'time')}")
    if acl and not queue.settings.acl:
        notes.append("no acl: nobody may use it")
    return f" ({'; '.join(notes)})" if notes else ""


def _print_example(server: Server, pull: list[Queue], *, acl: bool) -> None:
    """Print a command that adds a task, as somebody who may, if there is anybody."""
    queue, header = pull[0], ""
    if acl:
        entries = [(queue, entry) for queue in pull for entry in queue.settings.acl or ()]
        writers = [(queue, entry.writer_email) for queue, entry in entries if entry.writer_email]
        if not writers:
            return
        queue, email = writers[0]
        token = server.tokens.issue(email)
        header = f" -H {shlex.quote(f'Authorization: Bearer {token.text}')}"
    project = server.emulator.project or DEFAULT_PROJECT
    url = f"{server.url}/taskqueue/v1beta2/projects/{project}/taskqueues/{queue.name}/tasks"
    click.echo(f"Add a task:\n  curl{header} -d {shlex.quote(_TASK)} {shlex.quote(url)}")
