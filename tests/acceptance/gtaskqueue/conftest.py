"""A running server for Google's two commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pullqueue import Emulator, Queue
from pullqueue.server.lifecycle import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Emulator.from_text("queue: [{name: pull, mode: pull}]")) as server:
        yield server


@pytest.fixture
def queue(server: Server) -> Queue:
    return server.emulator.queue("pull")


@pytest.fixture
def queue_flags(server: Server) -> list[str]:
    return ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]
