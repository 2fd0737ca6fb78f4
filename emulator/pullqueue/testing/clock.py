"""Moving an emulator's clock: to its next events, past leases, and where code sleeps."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import count
from types import BuiltinFunctionType
from weakref import WeakKeyDictionary

from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec, movable_clock
from pullqueue.engine import verbs
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.validation import AnyTask, name_of
from pullqueue.errors import UnknownTaskError
from pullqueue.limits import DAY_SECONDS
from pullqueue.tasks import Task, TaskState, TombstonedTaskError
from pullqueue.testing.arguments import check_pull_queue, find_queue
from pullqueue.testing.patching import Patches

_LEASE_SECONDS = 60

_WAITING_FOR_OTHERS = frozenset({"subprocess", "multiprocessing.popen_fork"})
"""Modules that sleep until another process ends, which moving the clock would not hasten."""

_WAITING = frozenset(
    {"asyncio", "concurrent", "grpc", "multiprocessing", "pullqueue", "queue", "selectors"}
    | {"socketserver", "subprocess", "threading"}
)
"""Packages whose waits take real time, so that their deadlines are in real time, too."""

_QUIET_TURNS = 100
"""After this many turns of an event loop in which no sleep begins or ends, all its tasks sleep.

asyncio has no public way to see whether other tasks can still run.
"""
_QUIET_TURNS_OF_SLEEPS = 10
"""The same where each task is known to sleep; only callbacks can still run."""


class FixtureClock(MovableClock):
    """The clock of an emulator under test, with the times at which its queues change."""

    def __init__(self, clock: MovableClock, emulator: Callable[[], Emulator]) -> None:
        self._clock = clock
        self._emulator = emulator

    def now_usec(self) -> int:
        """Return the current time in microseconds since the epoch."""
        return self._clock.now_usec()

    def _move(self, target_usec: int) -> None:
        self._clock.move_to_usec(target_usec)

    def expire_leases(self, queue: Queue | str | None = None) -> datetime | None:
        """Move to the end of the last current lease, of all queues or of one, and return it.

        Return None, without a move, if nothing is leased.
        """
        emulator = self._emulator()
        owner = emulator if queue is None else find_queue(emulator, queue)
        end_usec = owner.last_lease_end_usec()
        return None if end_usec is None else self.move_to_usec(end_usec)

    def advance_to_next_event(self) -> datetime | None:
        """Move to the next end of a lease, eta or exhaustion, and return that time.

        Return None, without a move, if there is none.
        """
        target_usec = self._emulator().next_change_usec()
        return None if target_usec is None else self.move_to_usec(target_usec)

    @contextmanager
    def auto_advance(self) -> Iterator[None]:
        """Make `time.sleep` and `asyncio.sleep` advance the clock instead of waiting.

        Only calls of the thread that enters the block do so, and of what takes its context to
        others, such as `asyncio.to_thread` and the test client of Starlette and FastAPI. Of several
        coroutines that sleep at the same time, each continues when the clock has reached the end of
        its sleep.

        Raises:
            ClockError: time is not frozen.
        """
        self._clock.advance(0)
        with sleeping(self._clock, self._clock.advance):
            yield


def exhaust(queue: Queue, task: AnyTask | str) -> Task:
    """Lease a task, and move the clock past its lease, until the task is exhausted.

    `task` is a task, also one of App Engine's SDK, or a name. Return the task as it was then.
    Moves the clock. Like a worker, it also leases every task before this one, and those leases
    expire, too.

    Raises:
        TypeError: `queue` is not a `Queue`.
        InvalidQueueModeError: the queue is a push queue.
        ValueError: the queue has no `task_retry_limit`, so its tasks are never exhausted.
        UnknownTaskError: the queue has no such task.
        TombstonedTaskError: the task was deleted or exhausted.
        ClockError: the clock cannot be moved.
    """
    name = name_of(task)
    limit = check_pull_queue(queue).retention
    if limit.leases is None:
        raise ValueError(
            f'tasks of queue "{queue.name}" are never exhausted: set a task_retry_limit '
            "in retry_parameters"
        )
    clock = movable_clock(queue)
    age_seconds = limit.age_usec // USEC_PER_SECOND
    lease_seconds = max(_LEASE_SECONDS, min(age_seconds, 7 * DAY_SECONDS))
    with bypass_interceptors():
        current: Task | None = queue.get_task(name)
        while current is not None:
            clock.move_to(max(current.eta, clock.now()))
            current = _stored(queue, name)
            while current is not None and current.state_at(clock.now_usec()) is TaskState.AVAILABLE:
                if not verbs.lease(queue, lease_seconds, 1000).tasks:
                    clock.advance(1)  # where the lease rate is limited, later calls return tasks
                current = _stored(queue, name)
    return next(end for end in reversed(queue.exhausted) if end.name == name)


def _stored(queue: Queue, name: str) -> Task | None:
    try:
        return queue.get_task(name)
    except (UnknownTaskError, TombstonedTaskError):
        return None


asleep: WeakKeyDictionary[object, bool] = WeakKeyDictionary()
"""Whether a task of asyncio that has slept in a block does so now."""


class _Sleeper:
    """What the sleeps in one block do instead of waiting."""

    is_over = False
    """True once the block has ended, while a context that was copied in it is still used."""

    def __init__(
        self, clock: MovableClock, sleep: Callable[[float], object], outer: _Sleeper | None
    ) -> None:
        self.outer = outer
        """That of the block around it."""
        self.slept_seconds: float = outer.slept_seconds if outer else 0.0
        """By how much sleeps have moved the clock."""
        self._clock = clock
        self._sleep = sleep
        self._sleeps: list[tuple[int, int]] = []
        """The end of each sleep, and its number: only the first of several that end at once counts
        the turns of the loop.
        """
        self._numbers = count()
        self._quiet_turns = 0

    def sleep(self, seconds: float) -> None:
        """Return when the clock has reached the end."""
        before_usec = self._clock.now_usec()
        self._sleep(seconds)
        moved_seconds = (self._clock.now_usec() - before_usec) / USEC_PER_SECOND
        sleeper: _Sleeper | None = self
        while sleeper is not None:
            sleeper.slept_seconds += moved_seconds
            sleeper = sleeper.outer

    async def sleep_async(
        self, seconds: float, real_sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        """Return when the clock has reached the end; the sleep that ends first moves it there.

        Where the block ends before that, wait for the rest.
        """
        end_usec = self._clock.now_usec() + duration_usec(seconds)
        end = end_usec, next(self._numbers)
        self._sleeps.append(end)
        self._quiet_turns = 0
        asleep[asyncio.current_task()] = True
        try:
            await real_sleep(0)
            while (now_usec := self._clock.now_usec()) < end_usec:
                if self.is_over:
                    await real_sleep((end_usec - now_usec) / USEC_PER_SECOND)
                    return
                if min(self._sleeps) == end:
                    self._quiet_turns += 1
                    if self._quiet_turns > _QUIET_TURNS or (
                        self._quiet_turns == _QUIET_TURNS_OF_SLEEPS
                        and all(asleep.get(task) for task in asyncio.all_tasks())
                    ):
                        self.sleep((end_usec - now_usec) / USEC_PER_SECOND)
                        continue
                await real_sleep(0)
        finally:
            self._sleeps.remove(end)
            self._quiet_turns = 0
            asleep[asyncio.current_task()] = False


_of_thread = threading.local()
"""`sleeper` is that of the last block which a thread has entered."""
_of_context: ContextVar[_Sleeper | None] = ContextVar("sleeper", default=None)
"""The same of a context, which other threads and event loops can run."""


@contextmanager
def sleeping(clock: MovableClock, sleep: Callable[[float], object]) -> Iterator[None]:
    """Call `sleep` where this thread or context calls `time.sleep`, or awaits `asyncio.sleep`."""
    with _sleep_replaced:
        before = getattr(_of_thread, "sleeper", None), _of_context.get()
        _of_thread.sleeper = sleeper = _Sleeper(clock, sleep, before[0] or before[1])
        _of_context.set(sleeper)
        try:
            yield
        finally:
            sleeper.is_over = True
            _of_thread.sleeper = before[0]
            _of_context.set(before[1])  # the block can end in another context, unlike a token


def _current_sleeper() -> _Sleeper | None:
    """Return that of the thread, which can run contexts of earlier blocks, or of the context."""
    sleeper = getattr(_of_thread, "sleeper", None) or _of_context.get()
    while sleeper is not None and sleeper.is_over:
        sleeper = sleeper.outer
    return sleeper


def _at_least_a_microsecond(seconds: float) -> float:
    """Return how long a sleep is; a loop that sleeps what is left of a time, a float, must end."""
    return max(seconds, 1 / USEC_PER_SECOND) if seconds > 0 else seconds


@Patches
def _sleep_replaced(patches: Patches) -> None:
    real_sleep, real_asyncio_sleep = time.sleep, asyncio.sleep  # noqa: TID251 - to be replaced
    real_monotonic = time.monotonic

    def time_sleep(seconds: float, /) -> None:
        sleeper = _current_sleeper()
        caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented, of CPython
        if sleeper is None or caller in _WAITING_FOR_OTHERS:
            real_sleep(seconds)
        else:
            sleeper.sleep(_at_least_a_microsecond(seconds))

    async def asyncio_sleep(delay: float, result: object = None) -> object:
        sleeper = _current_sleeper()
        if sleeper is None or delay <= 0:
            return await real_asyncio_sleep(delay, result)
        await sleeper.sleep_async(_at_least_a_microsecond(delay), real_asyncio_sleep)
        return result

    def time_monotonic() -> float:
        """Return the real time and what was slept, so that a loop with a deadline ends."""
        sleeper = _current_sleeper()
        caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - documented, of CPython
        if sleeper is None or caller.partition(".")[0] in _WAITING:
            return real_monotonic()
        return real_monotonic() + sleeper.slept_seconds

    replacements: dict[object, object] = {
        real_sleep: time_sleep,
        real_asyncio_sleep: asyncio_sleep,
    }
    if isinstance(real_monotonic, BuiltinFunctionType):  # and not frozen, by freezegun
        replacements[real_monotonic] = time_monotonic
    patches.replace(replacements)
