"""What operators did to a server: by the control routes, the commands and the console."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Annotated

from msgspec import Meta

from pullqueue.control.models import Model, Time
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface
from pullqueue.engine.interceptors import current_origin

_KEPT = 1_000

_log = logging.getLogger("pullqueue.activity")


class Action(Model):
    """Something that an operator did."""

    time: Annotated[Time, Meta(description="Time by the emulator's clock.")]
    text: Annotated[str, Meta(description="What was done, such as `paused queue mail`.")]
    interface: Interface
    client: Annotated[str, Meta(description="User-Agent of the client; empty if unknown.")]


class ActivityLog:
    """The latest thousand actions. A reset of the server deletes none."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._actions: deque[Action] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def record(self, text: str) -> None:
        """Record and log an action of the current caller."""
        origin = current_origin()
        time = self._emulator.clock.now().isoformat()
        action = Action(time=time, text=text, interface=origin.interface, client=origin.client)
        with self._lock:
            self._actions.append(action)
        _log.info("%s (%s)", text, origin.who)

    def latest(self) -> list[Action]:
        """Return the actions, the latest first."""
        with self._lock:
            return list(reversed(self._actions))
