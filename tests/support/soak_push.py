"""The push half of the soak: tasks for an app whose handlers fail in many ways."""

from __future__ import annotations

import random
import threading
import time

from push_app import PushApp, Received

from pullqueue import Emulator, HttpRequest, ManualClock, PullQueueError
from pullqueue.config.model import QueueMode, QueueSettings, Rate, RetryParameters

WEB = QueueSettings(
    name="web",
    mode=QueueMode.PUSH,
    rate=Rate(count=500),
    bucket_size=100,
    retry_parameters=RetryParameters(task_retry_limit=3),
)
URLS = ("/ok", "/fails/2/{name}", "/status/404", "/status/503", "/nonsense", "/headers", "/line")
ADDS = 5
"""How many tasks are added at once."""
DEEPEST = 50
PATIENCE_SECONDS = 600
_pause = threading.Event()


class PushSoak:
    """Adds push tasks, and notes which of them are still to come to the app."""

    def __init__(self, app: PushApp, emulator: Emulator, *, seed: int) -> None:
        self._app = app
        self._queue = emulator.queue(WEB.name)
        self._random = random.Random(seed)
        self._awaited: set[str] = set()
        app.on_request = self._note

    def _note(self, received: Received) -> None:
        self._awaited.discard(received.headers["X-AppEngine-TaskName"])
        self._app.received.clear()

    def add(self) -> None:
        """Add some tasks, unless there are many; storage limit and faults may refuse them."""
        if self._queue.fetch_statistics().tasks > DEEPEST:
            return
        for _ in range(ADDS):
            name = f"{self._random.getrandbits(64):016x}"
            url = self._random.choice(URLS).format(name=name)
            self._awaited.add(name)
            try:
                self._queue.add(name=name, request=HttpRequest(url))
            except PullQueueError:
                self._awaited.discard(name)
        self._queue.remove_exhausted([task.name for task in self._queue.exhausted])

    def finish(self, clock: ManualClock) -> list[str]:
        """Wait until no task is left, and return what went wrong."""
        patience = time.monotonic() + PATIENCE_SECONDS
        while self._queue.fetch_statistics().tasks:
            if time.monotonic() > patience:
                return ["push tasks are left"]
            clock.advance(3600)
            _pause.wait(0.05)
        return [f"{name} was added and never came to the app" for name in self._awaited]
