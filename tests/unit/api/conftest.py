"""What the tests of REST share: an emulator whose clock is stopped, and ways to call it."""

from __future__ import annotations

from typing import Any

import pytest
from rest_app import CONFIG, ROOT, Call
from werkzeug.test import Client, TestResponse

from pullqueue import Emulator, ManualClock
from pullqueue.api.tokens import Tokens
from pullqueue.server.app import create_app


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator with the queues pull, limited and push."""
    return Emulator(CONFIG, clock=clock)


@pytest.fixture
def client(emulator: Emulator) -> Client:
    return Client(create_app(emulator))


@pytest.fixture
def call(client: Client) -> Call:
    def call(verb: str, path: str, **options: Any) -> TestResponse:
        return client.open(f"{ROOT}/{path}", method=verb, **options)

    return call


@pytest.fixture
def tokens(clock: ManualClock) -> Tokens:
    return Tokens(clock)


@pytest.fixture
def guarded(emulator: Emulator, tokens: Tokens) -> Client:
    """Return a client of an application that enforces the acl."""
    return Client(create_app(emulator, tokens=tokens, acl=True))
