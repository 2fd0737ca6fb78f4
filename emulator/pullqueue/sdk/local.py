"""The SDK in a process of its own, which reaches an emulator over the wire."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_PORT, is_host_and_port
from pullqueue.errors import ServerAddressError
from pullqueue.sdk import imports  # noqa: F401 - imports the SDK, or tells that it is missing
from pullqueue.sdk.startup import sitecustomize

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def connect(address: str | None) -> None:
    """Let this process's calls go to a server; see `pullqueue.sdk.connect`."""
    given = address or os.environ.get(ADDRESS_VARIABLE)
    if given:
        if not is_host_and_port(given):
            name = "the address" if address else ADDRESS_VARIABLE
            raise ServerAddressError(
                f"{name} is {given!r}, which is no address: give HOST:PORT, such as "
                f"localhost:{DEFAULT_PORT}"
            )
        host, _, port = given.rpartition(":")
        sitecustomize.variables.update(API_HOST=host.strip("[]"), API_PORT=port)
    sitecustomize.grant_tickets()


def local_request(app: WSGIApplication) -> WSGIApplication:
    """Wrap an app; see `pullqueue.sdk.local_request`."""
    connect(None)

    def with_ticket(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ.setdefault(sitecustomize.TICKET_VARIABLE, sitecustomize.TICKET)
        return app(environ, start_response)

    return with_ticket
