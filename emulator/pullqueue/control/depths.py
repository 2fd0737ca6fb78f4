"""The depths of the queues over the last hour, for the charts."""

from __future__ import annotations

import threading
from collections import deque

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.control.models import Count, Model, Time
from pullqueue.engine.emulator import Emulator

_STEP_USEC = 5 * USEC_PER_SECOND
_KEPT = 720
"""An hour, at one depth each five seconds."""


class Depth(Model):
    """The statistics of a queue at one time."""

    time: Time
    tasks: Count
    available: Count
    leased: Count


class DepthHistory:
    """The depths of an emulator's pull queues over the last hour, by the time of its store."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._depths: dict[str, deque[Depth]] = {}
        self._sampled_usec: int | None = None
        self._lock = threading.Lock()

    def sample(self) -> None:
        """Record the depths of the queues, unless that was done in the last seconds."""
        now_usec = self._emulator.now_usec()
        with self._lock:
            last = self._sampled_usec
            if last is not None and last <= now_usec < last + _STEP_USEC:
                return
            self._sampled_usec = now_usec
        for name, depth in self._now().items():
            self._depths.setdefault(name, deque(maxlen=_KEPT)).append(depth)

    def read(self) -> dict[str, list[Depth]]:
        """Return the depths of each queue, oldest first, the current one last."""
        return {name: [*self._depths.get(name, ()), depth] for name, depth in self._now().items()}

    def clear(self) -> None:
        """Delete all."""
        with self._lock:
            self._depths.clear()
            self._sampled_usec = None

    def _now(self) -> dict[str, Depth]:
        time = from_usec(self._emulator.now_usec()).isoformat()
        depths = {}
        for queue in self._emulator.queues:
            if not queue.is_push:
                numbers = queue.fetch_statistics()
                depths[queue.name] = Depth(
                    time=time,
                    tasks=numbers.tasks,
                    available=numbers.available,
                    leased=numbers.leased,
                )
        return depths
