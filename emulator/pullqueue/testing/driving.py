"""Running an app's worker until there is nothing left for it to do."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.faults import movable_clock
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall, bypass_interceptors
from pullqueue.engine.queue_view import QueueStatistics
from pullqueue.engine.store import Lease
from pullqueue.tasks import DeleteResult
from pullqueue.testing.describing import describe
from pullqueue.testing.interception import (
    Leash,
    WorkerInterrupt,
)
from pullqueue.testing.moving import next_event

Worker = Callable[[], object]

_CHANGES = frozenset({"add", "modify_task_lease", "purge"})

_IDLE_STEPS = 2
"""How often a worker may sleep, or lease from one queue, in vain; at the next time it is stopped.

Twice, because a worker that goes round several queues and ends when all are empty does that.
"""

_WAITING_FOR_OTHERS = frozenset({"subprocess", "multiprocessing.popen_fork"})
"""Modules that sleep until another process is done, which moving the clock would not hasten."""


class WorkerStopped(WorkerInterrupt):
    """ends a worker that waits for tasks which will not come; `drain` swallows it"""


def drain(emulator: Emulator, worker: Worker, *, max_calls: int = 1000) -> int:
    """Call an app's worker until the pull queues are empty, and tell how often it was called.

    Time passes as the worker lets it: `time.sleep` moves the clock and returns at once; where
    nothing can be leased yet, the clock goes to the next moment that changes this. A worker that
    loops for ever is stopped from outside, once the queues are empty: where it leases from the same
    queue in vain, or sleeps, for the third time in a row. What the worker raises is not caught: it
    ends `drain`. To have a worker started anew when it fails, give one that catches.

    Raises:
        AssertionError: after `max_calls` calls of the worker, or as many leases or pauses of it,
            there are still tasks.
        ClockError: the clock cannot be moved.
    """
    __tracebackhide__ = True
    driver = _Driver(emulator, max_calls)
    with driver.at_work():
        while not driver.done():
            driver.call(worker)
    if driver.exceeded:
        raise AssertionError(
            f"drain: {driver.exceeded}, and still the queues are not empty; if that is no endless "
            f"loop, give more max_calls\n{describe(emulator)}"
        )
    return driver.calls


class _Driver:
    """One run of `drain`."""

    def __init__(self, emulator: Emulator, max_calls: int) -> None:
        self.calls = 0
        """How often the worker was called."""
        self.exceeded = ""
        """What the worker has done too often."""
        self._emulator = emulator
        self._clock = movable_clock(emulator)
        self._max_calls = max_calls
        self._leash = Leash()
        self._leases = 0
        self._sleeps = 0
        self._slept = False
        self._idle_leases: Counter[str] = Counter()
        self._idle_sleeps = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch the worker's leases and pauses."""
        with self._emulator.interceptors.installed(self._watch), _sleeping(self._sleep):
            yield

    @bypass_interceptors()
    def done(self) -> bool:
        """Tell whether to stop; where nothing can be leased yet, move the clock on."""
        while not self.exceeded and self._tasks() and not self._available():
            next_event(self._emulator)
        return bool(self.exceeded) or not self._tasks()

    def call(self, worker: Worker) -> None:
        """Call the worker once."""
        if self.calls == self._max_calls:
            self.exceeded = f"the worker was called {self.calls} times"
            return
        self.calls += 1
        self._busy()
        with suppress(WorkerStopped):
            try:
                worker()
            finally:
                self._leash.release()

    def _watch(self, call: QueueCall, proceed: Callable[[], object]) -> object:
        if call.verb not in LEASE_VERBS:
            return self._other_call(call.verb, proceed)
        self._leases += 1
        if self._leases > self._max_calls:
            self.exceeded = f"the worker has leased {self._max_calls} times"
            return self._leash.end(WorkerStopped, Lease([]))
        lease = proceed()
        if not isinstance(lease, Lease) or lease.tasks:
            self._busy()
            return lease
        return self._after_empty_lease(call.queue.name, lease)

    def _other_call(self, verb: str, proceed: Callable[[], object]) -> object:
        answer = proceed()
        if verb == "delete_tasks":
            changed = isinstance(answer, list) and DeleteResult.DELETED in answer
        else:
            changed = verb in _CHANGES
        if changed:
            self._busy()
        return answer

    @bypass_interceptors()
    def _after_empty_lease(self, queue_name: str, lease: Lease) -> object:
        if lease.rate_limited:
            self._clock.advance(1)
            return lease
        self._idle_leases[queue_name] += 1
        again = self._idle_leases[queue_name] > 1
        if not self._tasks():
            if self._idle_leases[queue_name] > _IDLE_STEPS:
                return self._leash.end(WorkerStopped, lease)
            return lease
        # A worker that polls without a pause would see no time pass; one that pauses and holds
        # leases meanwhile must not lose them by a jump.
        if again and not self._available() and not (self._slept and self._held()):
            next_event(self._emulator)
            self._idle_leases.clear()
        self._slept = False
        return lease

    @bypass_interceptors()
    def _sleep(self, seconds: float) -> None:
        self._sleeps += 1
        self._slept = True
        if self._sleeps > self._max_calls:
            self.exceeded = f"the worker has paused {self._max_calls} times"
            self._leash.end(WorkerStopped)
        if not self._tasks():
            self._idle_sleeps += 1
            if self._idle_sleeps > _IDLE_STEPS:
                self._leash.end(WorkerStopped)
        self._clock.advance(seconds)

    def _busy(self) -> None:
        self._idle_leases.clear()
        self._idle_sleeps = 0
        self._slept = False

    def _tasks(self) -> int:
        return sum(numbers.tasks for numbers in self._numbers())

    def _available(self) -> int:
        return sum(numbers.available for numbers in self._numbers())

    def _held(self) -> int:
        return sum(numbers.leased for numbers in self._numbers())

    def _numbers(self) -> list[QueueStatistics]:
        queues = self._emulator.queues
        return [q.fetch_statistics() for q in queues if q.mode is QueueMode.PULL]


@contextmanager
def _sleeping(sleep: Callable[[float], None]) -> Iterator[None]:
    """Put `sleep` in the place of `time.sleep` for this thread, wherever that was imported to."""
    real = time.sleep  # noqa: TID251 - replaced, and left to the other threads
    thread_id = threading.get_ident()

    def replacement(seconds: float, /) -> None:
        caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented, of CPython
        ours = threading.get_ident() == thread_id and caller not in _WAITING_FOR_OTHERS
        (sleep if ours else real)(seconds)

    holders = _holders_of_sleep(real)
    for module in holders:
        vars(module)["sleep"] = replacement
    try:
        yield
    finally:
        for module in _holders_of_sleep(replacement):
            vars(module)["sleep"] = real


def _holders_of_sleep(function: Callable[[float], None]) -> list[ModuleType]:
    modules = list(sys.modules.values())
    return [m for m in modules if getattr(m, "__dict__", {}).get("sleep") is function]
