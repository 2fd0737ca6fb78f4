"""The emulator that the rules of the stores are tried with, with each store in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from store_rules import LIMITS, config_of
from stores import STORES, store_url

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.stores import open_store


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of each store in turn."""
    with store_url(request.param) as url:
        yield url


@pytest.fixture
def emulator(url: str, clock: ManualClock) -> Iterator[Emulator]:
    """Yield an emulator with an empty store."""
    emulator = Emulator(config_of(2), clock=clock, limits=LIMITS, store=open_store(url))
    emulator.reset()
    yield emulator
    emulator.close()


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    """Return its queue without limits."""
    return emulator.queue("pull")
