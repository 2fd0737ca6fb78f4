"""A running server whose clock is stopped, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import pytest
from rest_app import CONFIG

from pullqueue import Emulator, ManualClock
from pullqueue.server.lifecycle import Server


@pytest.fixture
def emulator() -> Emulator:
    return Emulator(CONFIG, clock=ManualClock())


@pytest.fixture
def server(emulator: Emulator) -> Iterator[Server]:
    with Server(emulator) as server:
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection(server.host, server.port, timeout=60)) as connection:
        yield connection
