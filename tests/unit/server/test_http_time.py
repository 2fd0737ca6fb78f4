"""pullqueue.server.lifecycle: a moved clock closes no connection."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import Any

import pytest
import time_machine
from freezegun import freeze_time
from plain_http import QUEUE, ask

from pullqueue import Emulator, Limits, SystemClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.server.lifecycle import Server

LATER = datetime(2040, 1, 1, tzinfo=UTC)


def freezegun_ticking() -> AbstractContextManager[Any]:
    """Move time with freezegun; it goes on from there."""
    return freeze_time(LATER, tick=True)


def freezegun_frozen() -> AbstractContextManager[Any]:
    """Move time with freezegun and stop it."""
    return freeze_time(LATER)


def time_machine_ticking() -> AbstractContextManager[Any]:
    """Move time with time-machine; it goes on from there."""
    return time_machine.travel(LATER, tick=True)


def time_machine_frozen() -> AbstractContextManager[Any]:
    """Move time with time-machine and stop it."""
    return time_machine.travel(LATER, tick=False)


MOVES = [freezegun_ticking, freezegun_frozen, time_machine_ticking, time_machine_frozen]


def run_its_loop() -> None:
    """Return the server the time to check its connections, by a clock that nobody moves."""
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.08)
        with pytest.raises(TimeoutError):
            one.recv(1)


@pytest.mark.parametrize("move", MOVES)
class TestMovedTime:
    def test_no_connection_is_lost(
        self, move: Callable[[], AbstractContextManager[Any]], connection: HTTPConnection
    ) -> None:
        """A kept connection outlives time moved forward, stopped, and moved back."""
        ask(connection)
        mine = connection.sock
        with move():
            run_its_loop()
            inside = ask(connection)
            run_its_loop()
            again = ask(connection)
        run_its_loop()
        after = ask(connection)

        assert [inside.status, again.status, after.status] == [200, 200, 200]
        assert connection.sock is mine

    def test_a_server_started_in_moved_time(
        self, move: Callable[[], AbstractContextManager[Any]], emulator: Emulator
    ) -> None:
        """A server that starts in moved time keeps its connections when time is put right."""
        with move():
            server = Server(emulator).start()
            connection = HTTPConnection(server.host, server.port, timeout=60)
            ask(connection)
            mine = connection.sock
        run_its_loop()
        after = ask(connection)
        kept = connection.sock
        connection.close()
        server.stop()

        assert after.status == 200
        assert kept is mine

    def test_the_emulator_sees_it(self, move: Callable[[], AbstractContextManager[Any]]) -> None:
        """An emulator on the system's clock goes by the moved time, in the server's threads too."""
        config = QueueConfig(queues=(QueueSettings(name="pull", mode=QueueMode.PULL),))
        emulator = Emulator(config, clock=SystemClock(), limits=Limits())
        with (
            Server(emulator) as server,
            closing(HTTPConnection(server.host, server.port, timeout=60)) as connection,
        ):
            emulator.queue("pull").add(b"")
            with move():
                ask(connection, "POST", f"{QUEUE}/tasks/lease?numTasks=1&leaseSecs=60")
            (task,) = emulator.queue("pull").list_tasks()

        assert LATER <= task.eta <= LATER + timedelta(minutes=2)
