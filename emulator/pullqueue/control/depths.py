"""The depths and the throughput of the queues over the last hour, for the charts."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.config.model import QueueMode
from pullqueue.control.models import Count, Model, Time
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall
from pullqueue.tasks import DeleteResult

_STEP_USEC = 5 * USEC_PER_SECOND
_KEPT = 720
"""An hour, at one depth each five seconds."""


class Depth(Model):
    """The statistics of a queue at one time."""

    time: Time
    tasks: Count
    available: Count
    leased: Count
    added: Annotated[
        Count, Meta(description="Tasks added through this server since the first depth.")
    ]
    deleted: Annotated[Count, Meta(description="Tasks deleted through it since then.")]


class DepthHistory:
    """The depths of an emulator's pull queues over the last hour, by the time of its store."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._depths: dict[str, deque[Depth]] = {}
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counting = False
        self._sampled_usec: int | None = None
        self._lock = threading.Lock()

    def sample(self) -> None:
        """Record the depths of the queues, unless that was done in the last seconds."""
        now_usec = self._emulator.now_usec()
        with self._lock:
            if not self._counting:  # a server whose depths nobody reads need not count
                self._counting = True
                self._emulator.interceptors.add(self._count, bypassed=False)
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
            self._counts.clear()
            self._sampled_usec = None

    def _count(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        result: Any = call_next()
        counts = self._counts[call.queue.name]
        match call.method:
            case "insert":
                counts["added"] += len(result.added)
            case "delete_tasks":
                counts["deleted"] += result.count(DeleteResult.DELETED)
            case "acknowledge":
                counts["deleted"] += 1
            case "purge":
                counts["deleted"] += result
        return result

    def _now(self) -> dict[str, Depth]:
        time = from_usec(self._emulator.now_usec()).isoformat()
        depths = {}
        for queue in self._emulator.queues:
            if queue.mode is QueueMode.PULL:
                numbers = queue.fetch_statistics()
                counts = self._counts[queue.name]
                depths[queue.name] = Depth(
                    time=time,
                    tasks=numbers.tasks,
                    available=numbers.available,
                    leased=numbers.leased,
                    added=counts["added"],
                    deleted=counts["deleted"],
                )
        return depths
