"""The flags of both commands, and their forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli.connection import server_url

OWN = "[pullqueue's own]"
"""Marks the flags that Google's commands did not have."""

CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class FlagsCommand(click.Command):
    """A command whose flags may have one dash, as in Google's: `-lease_secs=30`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse flags with one dash as flags with two."""
        options = self.get_params(ctx)
        names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
        with_two = [f"-{arg}" if f"-{arg.partition('=')[0]}" in names else arg for arg in args]
        return super().parse_args(ctx, with_two)


class FlagsGroup(FlagsCommand, click.Group):
    """A group of such commands."""

    command_class = FlagsCommand


lease_secs_flag = click.option(
    "--lease_secs", type=click.IntRange(0), default=30, help="Lease duration in seconds."
)


def api_flags(queue: str) -> Decorator:
    """Add the flags of `ApiFlags`; `queue` is the default name of the queue."""
    token = f"Bearer token to send, where the server asks for one. {OWN}"
    version = click.Choice(["v1beta1", "v1beta2"])
    options = (
        click.option("--project_name", "--project", default="default", help="Application id."),
        click.option("--taskqueue_name", default=queue, help="Queue."),
        click.option(
            "--api_host",
            envvar=ADDRESS_VARIABLE,
            show_envvar=True,
            default=DEFAULT_ADDRESS,
            callback=server_url,
            help="Server, as URL or HOST:PORT.",
        ),
        click.option("--service_version", type=version, default="v1beta2", help="API version."),
        click.option(
            "--access_token", envvar="GTASKQUEUE_ACCESS_TOKEN", show_envvar=True, help=token
        ),
        click.option("--dump_request/--nodump_request", help="Print every request with its body."),
        # Accepted and ignored: the emulator needs no key.
        click.option("--credentials_file", hidden=True, expose_value=False),
        click.option("--developer_key_file", hidden=True, expose_value=False),
        click.option("--use_developer_key/--nouse_developer_key", hidden=True, expose_value=False),
    )
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)
