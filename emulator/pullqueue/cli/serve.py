"""`pullqueue serve`: the emulator as a server, until it is interrupted."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.address import DEFAULT_HOST, DEFAULT_PORT, is_loopback
from pullqueue.cli._options import (
    found_file,
    host_and_port,
    host_names,
    lease_rate_option,
    profile_option,
    project_id,
    queue_yaml_argument,
)
from pullqueue.clock import Clock, ManualClock, SystemClock
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, SERVED_TASKS, Limits
from pullqueue.tasks import count_tasks

if TYPE_CHECKING:
    from pullqueue.cli._service import Signals
    from pullqueue.engine.emulator import Emulator
    from pullqueue.engine.queue import Queue
    from pullqueue.server.lifecycle import Server

_TASK = '{"payloadBase64": "aGVsbG8="}'


@click.command
@queue_yaml_argument
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    help="Port of Cloud Tasks v2beta2 over gRPC; 0 picks a free one. Default: not served.",
)
@click.option(
    "--project",
    callback=project_id,
    help="The only application id to accept. Default: any.",
)
@click.option(
    "--auth",
    default="off",
    show_default=True,
    type=click.Choice(["off", "acl"]),
    help="off: no tokens are needed. acl: callers need a token, and the acl of each queue says "
    "what they may do.",
)
@click.option(
    "--secret-file",
    "secret_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the secret that signs keys and tokens, which stay valid after a restart and "
    "for every server with this file. It is created if it does not exist.",
)
@profile_option
@click.option(
    "--store",
    default="memory",
    show_default=True,
    metavar="URL",
    help="Where tasks are stored: memory, sqlite:///FILE, or postgresql://USER@HOST/DATABASE.",
)
@click.option(
    "--clock",
    default="system",
    show_default=True,
    type=click.Choice(["system", "manual"]),
    help="system: the time of this machine. manual: time stops until `pullqueue clock` moves it.",
)
@lease_rate_option
@click.option(
    "--api-upstream",
    metavar="HOST:PORT",
    callback=host_and_port,
    help="Server to pass calls of apps to App Engine's other services on to. Default: none.",
)
@click.option(
    "--max-tasks",
    default=SERVED_TASKS,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of tasks in memory.",
)
@click.option("--watch", is_flag=True, help="Reload QUEUE_YAML whenever it changes.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    callback=host_names,
    metavar="NAME",
    help="Another host name that clients may use for this server; repeatable.",
)
@click.option(
    "--port-file",
    "port_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that contains the port while the server runs.",
)
@click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json"]),
    help="Format of the log; json: one object per line.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged; debug includes every request.",
)
def serve(
    *,
    queue_yaml: Path | None,
    host: str,
    port: int,
    grpc_port: int | None,
    project: str | None,
    auth: str,
    secret_path: Path | None,
    profile: str,
    store: str,
    clock: str,
    lease_rate_limit: bool,
    api_upstream: str | None,
    max_tasks: int,
    watch: bool,
    allowed_hosts: tuple[str, ...],
    port_path: Path | None,
    log_format: str,
    log_level: str,
) -> None:
    """Serve the pull queues of QUEUE_YAML over HTTP.

    Default for QUEUE_YAML: queue.yaml or queue.yml of the current folder. Ctrl-C stops the server.
    """
    from pullqueue.cli._secret import secret_of  # noqa: PLC0415 - imported when it runs
    from pullqueue.cli._service import Signals, set_up_logs  # noqa: PLC0415 - the same
    from pullqueue.control.config_file import ConfigFile  # noqa: PLC0415 - the same
    from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - imports Flask

    # Else gRPC's core writes lines of its own to the error stream.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    set_up_logs(log_format=log_format, log_level=log_level)
    file = queue_yaml or found_file(Path())
    limits = Limits(
        leases_per_second=PRODUCTION_LEASES_PER_SECOND if lease_rate_limit else None,
        tasks_in_memory=max_tasks,
    )
    time = ManualClock() if clock == "manual" else SystemClock()
    with _emulator(
        file, clock=time, limits=limits, project=project, profile=profile, store=store
    ) as emulator:
        signals = Signals()
        server = Server(
            emulator,
            host=host,
            port=port,
            grpc_port=grpc_port,
            acl=auth == "acl",
            secret=secret_of(secret_path) if secret_path else None,
            api_upstream=api_upstream,
            config_file=ConfigFile(file, profile=profile),
            host_names=allowed_hosts,
        )
        _run(
            server,
            signals,
            host=host,
            store=store,
            acl=auth == "acl",
            port_path=port_path,
            watch=watch,
        )


def _emulator(
    file: Path, *, clock: Clock, limits: Limits, project: str | None, profile: str, store: str
) -> closing[Emulator]:
    """Return the emulator of a file, to be closed at the end."""
    from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - imported when it runs

    emulator = Emulator.from_file(
        file, clock=clock, limits=limits, project=project, profile=profile, store=store
    )
    return closing(emulator)


def _run(
    server: Server,
    signals: Signals,
    *,
    host: str,
    store: str,
    acl: bool,
    port_path: Path | None,
    watch: bool,
) -> None:
    """Serve, and print the address, until a signal ends it."""
    from pullqueue.cli._service import port_file, tell_systemd  # noqa: PLC0415 - the same

    with server, port_file(port_path, server):
        address = f"[{host}]" if ":" in host else host
        click.echo(f"pullqueue listening on http://{address}:{server.port}")
        if server.grpc_address:
            click.echo(f"gRPC listening on {server.grpc_address}")
        _greet(server, host=host, store=store, acl=acl)
        tell_systemd("READY=1")
        signals.keep(server.state, watch=watch)
        tell_systemd("STOPPING=1")
        if store == "memory":
            _report_tasks_left(server)


def _greet(server: Server, *, host: str, store: str, acl: bool) -> None:
    """Print the queues of a running server, its store and clock, and a command to try."""
    emulator = server.emulator
    pull = [queue for queue in emulator.queues if queue.settings.is_pull]
    if pull:
        click.echo(f"{emulator.config.file}: {len(pull)} pull queue{'s' if len(pull) > 1 else ''}")
        for queue in pull:
            click.echo(f"  {queue.name}{_notes(queue, acl=acl)}")
    else:
        click.echo(f"{emulator.config.file} has no pull queue: set `mode: pull` to make one")
    if pull:
        _print_attempt(server, pull, acl=acl)
    where = "memory, until the server stops" if store == "memory" else _without_password(store)
    click.echo(f"Tasks are stored in {where}")
    if isinstance(emulator.clock, ManualClock):
        click.echo("The clock is manual: move it with `pullqueue clock advance 60`")
    reachable = "" if not is_loopback(host) else ", from this machine only"
    click.echo(f"Console: {server.url}/console/{reachable}")
    if not is_loopback(host):
        click.echo(
            f"warning: {host} can be reached from other machines, and whoever reaches it can use "
            "every queue",
            err=True,
        )


def _without_password(url: str) -> str:
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", url)


def _notes(queue: Queue, *, acl: bool) -> str:
    notes = []
    retry = queue.settings.retry_parameters
    if retry is not None and retry.task_retry_limit is not None:
        times = "time" if retry.task_retry_limit == 1 else "times"
        notes.append(f"each task can be leased {retry.task_retry_limit} {times}")
    if acl and not queue.settings.acl:
        notes.append("no acl: nobody may use it")
    return f" ({'; '.join(notes)})" if notes else ""


def _print_attempt(server: Server, pull: list[Queue], *, acl: bool) -> None:
    """Print a command that adds a task, as somebody who may, if there is anybody."""
    queue, header = pull[0], ""
    if acl:
        from pullqueue.api.tokens import DEFAULT_SCOPES  # noqa: PLC0415 - imports Flask

        writers = [(each, email) for each in pull for email in _writers(each)]
        if not writers:
            return
        queue, email = writers[0]
        token = server.tokens.issue(email, frozenset(DEFAULT_SCOPES))
        header = f" -H {shlex.quote(f'Authorization: Bearer {token.text}')}"
    project = server.emulator.project or "my-app"
    url = f"{server.url}/taskqueue/v1beta2/projects/{project}/taskqueues/{queue.name}/tasks"
    click.echo(f"Add a task:\n  curl{header} -d {shlex.quote(_TASK)} {shlex.quote(url)}")


def _writers(queue: Queue) -> list[str]:
    return [entry.writer_email for entry in queue.settings.acl or () if entry.writer_email]


def _report_tasks_left(server: Server) -> None:
    """Say how many tasks in memory are deleted with the server, and how to keep them."""
    from pullqueue.engine.interceptors import bypass_interceptors  # noqa: PLC0415 - when it runs

    with bypass_interceptors():
        left = sum(queue.fetch_statistics().tasks for queue in server.emulator.queues)
    if left:
        click.echo(
            f"pullqueue: {count_tasks(left)} in memory {'is' if left == 1 else 'are'} deleted; to "
            "keep tasks, start with --store sqlite:///tasks.db, or run `pullqueue snapshot save "
            "FILE` before",
            err=True,
        )
