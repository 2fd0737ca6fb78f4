"""The flags that both commands have, written as Google's were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS

_Command = TypeVar("_Command", bound=Callable[..., Any])


def api_options(command: _Command) -> _Command:
    """Add the flags that say which queue of which server is meant."""
    for option in (
        click.option(
            "--access_token",
            envvar="GTASKQUEUE_ACCESS_TOKEN",
            help="What to send as bearer token, where the server asks for one.",
        ),
        click.option(
            "--api_host",
            metavar="HOST:PORT",
            help=f"Where the server is; if not given, what {ADDRESS_VARIABLE} says, or "
            f"{DEFAULT_ADDRESS}.",
        ),
        click.option("--taskqueue_name", required=True, help="The queue."),
        click.option(
            "--project", "--project_name", "project", required=True, help="The application id."
        ),
    ):
        command = option(command)
    return command


lease_secs_option = click.option(
    "--lease_secs",
    type=click.IntRange(0),
    default=30,
    show_default=True,
    help="How long to lease, in seconds.",
)
