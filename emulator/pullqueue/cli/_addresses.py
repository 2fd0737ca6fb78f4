"""Options that name a project or a server, refused where they cannot be one."""

from __future__ import annotations

import re

import click

_LARGEST_PORT = 65_535
_PROJECT = re.compile(
    r"""
    (?: [a-z] ~ )?                # the partition, as in s~my-app
    (?: [a-z0-9.-]+ : )?          # the domain, as in example.com:my-app
    [a-zA-Z0-9] [a-zA-Z0-9_-]*
    """,
    re.ASCII | re.VERBOSE,
)


def project_id(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Give the value of an option that is a project id.

    Raises:
        BadParameter: it is none.
    """
    if value is not None and not _PROJECT.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is no project id: give letters, digits and hyphens, such as my-app"
        )
    return value


def host_and_port(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Give the value of an option that is an address.

    Raises:
        BadParameter: it is none.
    """
    if value is not None and not is_host_and_port(value):
        raise click.BadParameter(f"{value!r} is no address: give HOST:PORT, such as localhost:8080")
    return value


def is_host_and_port(text: str) -> bool:
    """Tell whether a text is HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or any(letter.isspace() for letter in text):
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port) <= _LARGEST_PORT
