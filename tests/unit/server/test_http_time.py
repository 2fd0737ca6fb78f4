"""pullqueue.server.lifecycle: a moved clock closes no connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from typing import Any

import pytest
import time_machine
from freezegun import freeze_time
from plain_http import QUEUE, ask

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

LATER = datetime(2040, 1, 1, tzinfo=UTC)
MOVES = {
    "freezegun, ticking": partial(freeze_time, LATER, tick=True),
    "freezegun, frozen": partial(freeze_time, LATER),
    "time-machine, ticking": partial(time_machine.travel, LATER, tick=True),
    "time-machine, frozen": partial(time_machine.travel, LATER, tick=False),
}
"""Time that is moved, and goes on from there or stops."""


Move = Callable[[], AbstractContextManager[Any]]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_no_connection_is_lost_and_the_emulator_goes_by_the_moved_time(move: Move) -> None:
    """Kept connections outlive time moved forward, stopped, and moved back."""
    emulator = Emulator.from_text("queue: [{name: pull, mode: pull}]")
    emulator.queue("pull").add(b"")
    with Server(emulator) as server, ExitStack() as stack:
        connections = [
            stack.enter_context(closing(HTTPConnection(server.host, server.port, timeout=60)))
            for _ in range(9)
        ]
        for connection in connections:
            ask(connection)
        sockets = [connection.sock for connection in connections]
        with move():
            # The server looks for idle connections whenever there is something to read.
            inside = [ask(connection).status for connection in connections * 2]
            ask(connections[0], "POST", f"{QUEUE}/tasks/lease?numTasks=1&leaseSecs=60")
            (task,) = emulator.queue("pull").list_tasks()
        after = [ask(connection).status for connection in connections]

        assert inside + after == [200] * 27
        assert [connection.sock for connection in connections] == sockets
    assert LATER <= task.eta <= LATER + timedelta(minutes=2)
