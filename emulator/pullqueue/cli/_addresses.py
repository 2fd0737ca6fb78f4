"""Options that name a project, a server or a host, refused where they cannot be one."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

import click

from pullqueue.address import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    DEFAULT_PORT,
    is_host_and_port,
)

_EXAMPLE_OF_ANOTHER = "localhost:8080"
_PROJECT = re.compile(
    r"""
    (?: [a-z] ~ )?                # the partition, as in s~my-app
    (?: [a-z0-9.-]+ : )?          # the domain, as in example.com:my-app
    [a-zA-Z0-9] [a-zA-Z0-9_-]*
    """,
    re.ASCII | re.VERBOSE,
)
_HOST_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*", re.ASCII | re.IGNORECASE)


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
        raise click.BadParameter(f"{value!r} is {_no_address(_EXAMPLE_OF_ANOTHER)}")
    return value


def host_names(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Give the values of an option that are names of hosts, as they stand in Host headers.

    Raises:
        BadParameter: one is none.
    """
    for value in values:
        if not _HOST_NAME.fullmatch(value):
            raise click.BadParameter(
                f"{value!r} is no name of a host: give one without a port, such as queues.internal"
            )
    return values


def server_url(option: str | None, *, name: str = "--url") -> str:
    """Give the URL of the server that an option or the environment names, or the usual one.

    HOST:PORT will do; a URL may leave out the port, or lead to a path behind a proxy.

    Raises:
        ClickException: it is no address.
    """
    address = option or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    url = address if "://" in address else f"http://{address}"
    if not (is_host_and_port(address) or ("://" in address and _is_url(address))):
        problem = f"{address!r}, which is {_no_address(f'localhost:{DEFAULT_PORT}')}"
        if option:
            raise click.ClickException(f"{name} is {problem}")
        raise click.ClickException(f"{ADDRESS_VARIABLE} is {problem}, or unset the variable")
    return url.rstrip("/")


def _no_address(example: str) -> str:
    return f"no address: give HOST:PORT, such as {example}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and parts.scheme in ("http", "https") and not re.search(r"\s", text)
