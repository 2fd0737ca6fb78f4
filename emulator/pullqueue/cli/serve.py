"""`pullqueue serve`: the emulator as a server, until it is interrupted."""

from __future__ import annotations

import logging
import signal
import threading
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import click

from pullqueue.clock import ManualClock, SystemClock
from pullqueue.errors import ConfigFileError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, Limits

_FILE_NAMES = ("queue.yaml", "queue.yml")
_POLL_SECONDS = 0.5
"""How often the main thread looks up: where a lock cannot be interrupted, signals come then."""


@click.command
@click.argument("queue_yaml", required=False, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8124,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--project", help="The only application id to answer to; any, if not given.")
@click.option(
    "--auth",
    default="off",
    show_default=True,
    type=click.Choice(["off", "acl"]),
    help="off: everybody may do everything. acl: callers need a token, and the acl of each queue "
    "decides.",
)
@click.option(
    "--profile",
    default="gcloud",
    show_default=True,
    type=click.Choice(["gcloud", "sdk"]),
    help="Whose rules the file must keep: gcloud's, or the more lenient ones of the SDK.",
)
@click.option(
    "--clock",
    default="system",
    show_default=True,
    type=click.Choice(["system", "manual"]),
    help="manual: time stands still until it is moved with POST /_emulator/clock.",
)
@click.option(
    "--lease-rate-limit/--no-lease-rate-limit",
    default=True,
    show_default=True,
    help=f"Whether more than {PRODUCTION_LEASES_PER_SECOND} leases a second on one queue give no "
    "tasks, as on App Engine.",
)
@click.option(
    "--api-upstream",
    metavar="HOST:PORT",
    help="Where calls of apps to App Engine's other services are passed on to.",
)
def serve(
    *,
    queue_yaml: Path | None,
    host: str,
    port: int,
    project: str | None,
    auth: str,
    profile: str,
    clock: str,
    lease_rate_limit: bool,
    api_upstream: str | None,
) -> None:
    """Serve the pull queues of QUEUE_YAML over HTTP.

    Without QUEUE_YAML, queue.yaml or queue.yml of the current folder is taken. Ctrl-C stops.
    """
    from pullqueue.cli._greeting import greeting  # noqa: PLC0415 - imported when it runs
    from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - the same
    from pullqueue.rest.server import Server  # noqa: PLC0415 - imports Flask

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    emulator = Emulator.from_file(
        queue_yaml or found_file(Path()),
        clock=ManualClock() if clock == "manual" else SystemClock(),
        limits=Limits(leases_per_second=PRODUCTION_LEASES_PER_SECOND if lease_rate_limit else None),
        project=project,
        profile=profile,
    )
    stopped = _until_signalled()
    with Server(
        emulator, host=host, port=port, acl=auth == "acl", api_upstream=api_upstream
    ) as server:
        click.echo(f"pullqueue listening on {server.url}")
        click.echo(greeting(server, acl=auth == "acl"))
        if auth == "off":
            _warn_if_public(host)
        while not stopped.wait(_POLL_SECONDS):
            pass


def found_file(folder: Path) -> Path:
    """Give the queue.yaml of a folder.

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


def _until_signalled() -> threading.Event:
    """Give an event that Ctrl-C and a request to terminate set."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        # In a thread of its own: a handler may interrupt the very wait it is to end.
        threading.Thread(target=stopped.set).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopped


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
