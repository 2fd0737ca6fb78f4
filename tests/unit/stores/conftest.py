"""The emulator that the rules of the stores are tried with, with each store in turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from store_rules import LIMITS, Start, config_of
from stores import STORES, store_url

from pullqueue import Emulator, Limits, ManualClock, Queue
from pullqueue.config.model import QueueConfig
from pullqueue.stores import open_store

CONFIG = config_of(2)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of each store in turn."""
    with store_url(request.param) as url:
        yield url


@pytest.fixture
def start(url: str, clock: ManualClock) -> Iterator[Start]:
    """Yield what opens an emulator on the store, which the first one empties; close them."""
    started: list[Emulator] = []

    def start(config: QueueConfig = CONFIG, *, query: str = "", **options: Any) -> Emulator:
        options = {"clock": clock, "limits": LIMITS, **options}
        emulator = Emulator(config, store=open_store(url + query), **options)
        if not started:
            emulator.reset()
        started.append(emulator)
        return emulator

    yield start
    for emulator in started:
        emulator.close()


@pytest.fixture
def emulator(start: Start) -> Emulator:
    """Return an emulator with an empty store."""
    return start()


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    """Return its queue without limits."""
    return emulator.queue("pull")


@pytest.fixture
def servers(start: Start, url: str) -> Iterator[tuple[Queue, Queue]]:
    """Yield that queue as two servers have it, if they can share the store; else one twice."""
    queue = start(limits=Limits()).queue("pull")
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads take turns within an operation, too
    yield queue, start(limits=Limits()).queue("pull") if "postgres" in url else queue
    sys.setswitchinterval(usual_seconds)
