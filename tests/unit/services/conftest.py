"""A server with services, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from services_client import Client
from werkzeug.test import Client as WebClient
from werkzeug.test import TestResponse

from pullqueue import Emulator, ManualClock
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services

Serve = Callable[..., Server]
"""Starts a server with services; arguments are those of `Services`."""


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text("queue: [{name: pull, mode: pull}]", clock=clock)


@pytest.fixture
def serve(emulator: Emulator) -> Iterator[Serve]:
    """A function that starts a server; with `stack`, that ends it."""
    with ExitStack() as stack:

        def serve(ends_with: ExitStack = stack, **options: Any) -> Server:
            services = Services(clock=emulator.clock, **options)
            ends_with.enter_context(closing(services))
            return ends_with.enter_context(Server(emulator, services=services))

        yield serve


@pytest.fixture
def client(serve: Serve) -> Client:
    """A client of a server whose data are in memory, without a socket."""
    web = WebClient(serve()._app)

    def send(verb: str, url: str, *, body: bytes, headers: dict[str, str]) -> TestResponse:
        return web.open(url, method=verb, data=body, headers=headers)

    return Client("", send=send)
