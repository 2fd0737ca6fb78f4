"""The emulator that the rules of the stores are tried with, with each store in turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from store_rules import LIMITS, Start, config_of
from stores import LONG, STORES, store_url

from pullqueue import Emulator, Limits, ManualClock, NewTask, Queue
from pullqueue.config.model import QueueConfig
from pullqueue.stores import open_store

CONFIG = config_of(2)


PROJECTS = {"sqlite-project": "sqlite"} | ({"postgres-project": "postgres"} if LONG else {})
"""Stores of which another project than the server's own is tried."""


@pytest.fixture(params=(*STORES, *PROJECTS))
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of each store in turn."""
    with store_url(PROJECTS.get(request.param, request.param)) as url:
        yield url


@pytest.fixture
def own(request: pytest.FixtureRequest, url: str) -> Iterator[Emulator | None]:
    """Yield the server's own project, with tasks, if another one is tried.

    Whatever the other one does, in its own time, leaves that as it is.
    """
    if request.node.callspec.params.get("url") not in PROJECTS:
        yield None
        return
    with closing(Emulator(CONFIG, clock=ManualClock(), store=open_store(url))) as own:
        own.reset()
        for queue in (own.queue("pull"), own.queue("limited")):
            queue.add_many([NewTask(b"own", name=f"n{n}", tag="red") for n in range(5)])
            queue.lease_tasks(60, 2)
            queue.delete_tasks("n4")
        before = own.export()
        yield own
        for project in own.store.read_projects().values():
            own.store.drop_project(project.number)
        assert own.export() == before


@pytest.fixture
def start(url: str, clock: ManualClock, own: Emulator | None) -> Iterator[Start]:
    """Yield what opens an emulator on the store, which the first one empties; close them."""
    started: list[Emulator] = []

    def start(config: QueueConfig = CONFIG, *, query: str = "", **options: Any) -> Emulator:
        options = {"clock": clock, "limits": LIMITS, **options}
        store = open_store(url + query)
        if own is not None:
            project = own.store.add_project("other", "{}")
            assert project is not None
            store = own.store.find_store(project.number)
        emulator = Emulator(config, store=store, **options)
        if not started:
            emulator.reset()
        started.append(emulator)
        return emulator

    yield start
    for emulator in started:
        emulator.close()


@pytest.fixture
def emulator(start: Start) -> Emulator:
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
