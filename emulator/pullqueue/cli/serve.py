"""`pullqueue serve`: the emulator as a server, until it is interrupted."""

from __future__ import annotations

import os
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.address import DEFAULT_HOST, DEFAULT_PORT
from pullqueue.cli._addresses import host_and_port, host_names, project_id
from pullqueue.cli._serving import (
    found_file,
    lease_rate_option,
    profile_option,
    queue_yaml_argument,
)
from pullqueue.clock import Clock, ManualClock, SystemClock
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, SERVED_TASKS, Limits

if TYPE_CHECKING:
    from pullqueue.cli._service import Signals
    from pullqueue.engine.emulator import Emulator
    from pullqueue.server.lifecycle import Server


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
    help="Serve Cloud Tasks v2beta2 over gRPC, too, on this port; 0 picks a free one.",
)
@click.option(
    "--project",
    callback=project_id,
    help="The only application id to answer to; any, if not given.",
)
@click.option(
    "--auth",
    default="off",
    show_default=True,
    type=click.Choice(["off", "acl"]),
    help="off: everybody may do everything. acl: callers need a token, and the acl of each queue "
    "decides.",
)
@click.option(
    "--secret-file",
    "secret_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keeps keys and tokens good over a restart, and at every server with the same file; made "
    "if missing.",
)
@profile_option
@click.option(
    "--store",
    default="memory",
    show_default=True,
    metavar="URL",
    help="Where tasks are kept: memory, sqlite:///FILE, or postgresql://USER@HOST/DATABASE.",
)
@click.option(
    "--clock",
    default="system",
    show_default=True,
    type=click.Choice(["system", "manual"]),
    help="manual: time stands still until it is moved with `pullqueue clock`.",
)
@lease_rate_option
@click.option(
    "--api-upstream",
    metavar="HOST:PORT",
    callback=host_and_port,
    help="Where calls of apps to App Engine's other services are passed on to.",
)
@click.option(
    "--max-tasks",
    default=SERVED_TASKS,
    show_default=True,
    type=click.IntRange(1),
    help="How many tasks may be kept in memory.",
)
@click.option("--watch", is_flag=True, help="Reload QUEUE_YAML whenever it changes.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    callback=host_names,
    metavar="NAME",
    help="Another name by which clients may call this server; can be given again.",
)
@click.option(
    "--port-file",
    "port_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the port in this file while the server runs.",
)
@click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json"]),
    help="json: one object a line.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="debug: every request, too.",
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

    Without QUEUE_YAML, queue.yaml or queue.yml of the current folder is taken. Ctrl-C stops.
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
        _run(server, signals, host=host, acl=auth == "acl", port_path=port_path, watch=watch)


def _emulator(
    file: Path, *, clock: Clock, limits: Limits, project: str | None, profile: str, store: str
) -> closing[Emulator]:
    """Give the emulator of a file, which is closed however serving it ends."""
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
    acl: bool,
    port_path: Path | None,
    watch: bool,
) -> None:
    """Serve, and say where, until a signal ends it."""
    from pullqueue.cli._greeting import greeting  # noqa: PLC0415 - imported when it runs
    from pullqueue.cli._service import port_file, tell_systemd  # noqa: PLC0415 - the same

    with server, port_file(port_path, server):
        address = f"[{host}]" if ":" in host else host
        click.echo(f"pullqueue listening on http://{address}:{server.port}")
        if server.grpc_address:
            click.echo(f"gRPC listening on {server.grpc_address}")
        click.echo(greeting(server, acl=acl))
        click.echo(f"See it all at {server.url}/console/")
        _warn_if_public(host)
        tell_systemd("READY=1")
        signals.keep(server.state, watch=watch)
        tell_systemd("STOPPING=1")


def _warn_if_public(host: str) -> None:
    if not _is_loopback(host):
        click.echo(
            f"warning: {host} can be reached from other machines, and whoever reaches it can use "
            "every queue",
            err=True,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
