"""Running an app's worker until there is nothing left for it to do."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueMode
from pullqueue.config.text import quoted
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall, bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Lease
from pullqueue.errors import InternalError, InvalidQueueModeError
from pullqueue.tasks import DeleteResult
from pullqueue.testing.describing import describe, pull_queues, queue_of
from pullqueue.testing.moving import next_event, sleeping

__tracebackhide__ = True  # a failed test is shown at its own line

Worker = Callable[[], object]
AsyncWorker = Callable[[], Awaitable[object]]

_CHANGES = frozenset({"add", "modify_task_lease", "purge"})

_IDLE_STEPS = 2
"""Number of times that a worker may sleep, or lease from one queue, in vain; then it is stopped.

Twice, because a worker that polls several queues and ends when all are empty does that.
"""

_LOOPS = 1000
"""More turns of a loop than it takes until a pending exception is raised in a thread."""


class WorkerInterrupt(BaseException):
    """ends a worker at one of its calls; no `except Exception` of the worker catches it"""


class WorkerStopped(WorkerInterrupt):
    """ends a worker that waits for tasks which will not come; `drain` swallows it"""


def drain(
    emulator: Emulator,
    worker: Worker,
    *,
    queues: Iterable[Queue | str] | None = None,
    max_calls: int = 1000,
) -> int:
    """Call an app's worker until the pull queues are empty, and return the number of calls.

    `queues` are the queues to empty, or their names; all pull queues if it is None. Tasks in other
    queues are left alone.

    `time.sleep` and `asyncio.sleep` advance the clock and return at once. When no task can be
    leased yet, the clock moves to the next event. A worker that loops forever is stopped when the
    queues are empty and it leases from the same queue in vain, or sleeps, for the third time in a
    row.

    Exceptions of the worker are not caught and end `drain`. To restart a worker that fails, pass a
    function that catches its exceptions.

    Raises:
        AssertionError: after `max_calls` calls of the worker, or as many leases or sleeps of it,
            there are still tasks.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a push queue.
        TypeError: `emulator` is not one, `queues` is not a list, or the worker is asynchronous or
            a generator.
        UnknownQueueError: one of `queues` does not exist.
    """
    driver = _Driver(emulator, queues, max_calls, Interrupter())
    with driver.at_work():
        while driver.begins_call():
            with suppress(WorkerStopped):
                try:
                    refuse_lazy(worker(), "worker")
                finally:
                    driver.interrupter.release()
    driver.check("drain")
    return driver.calls


async def drain_async(
    emulator: Emulator,
    worker: AsyncWorker,
    *,
    queues: Iterable[Queue | str] | None = None,
    max_calls: int = 1000,
) -> int:
    """Await an asynchronous worker until the pull queues are empty; return the number of calls.

    Like `drain`, for workers under asyncio: `asyncio.sleep` in the worker, and in tasks that it
    starts, advances the clock. `asyncio.wait_for` and `asyncio.timeout` use the real time.

    Raises:
        AssertionError: after `max_calls` calls of the worker, or as many leases or sleeps of it,
            there are still tasks.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a push queue.
        TypeError: `emulator` is not one, `queues` is not a list, or the worker is not asynchronous.
        UnknownQueueError: one of `queues` does not exist.
    """
    interrupter = TaskInterrupter()
    driver = _Driver(emulator, queues, max_calls, interrupter)
    with driver.at_work():
        while driver.begins_call():
            result = worker()
            if not inspect.isawaitable(result):
                raise TypeError(
                    f"drain_async: the worker returned {quoted(result)}, which cannot be "
                    "awaited: use drain() for a worker that is not asynchronous"
                )
            await interrupter.run(result)
    driver.check("drain_async")
    return driver.calls


class _Driver:
    """One run of `drain` or `drain_async`."""

    def __init__(
        self,
        emulator: Emulator,
        queues: Iterable[Queue | str] | None,
        max_calls: int,
        interrupter: Interrupter,
    ) -> None:
        self.calls = 0
        """Number of times that the worker was called."""
        self.interrupter = interrupter
        self._emulator = emulator
        check_is_emulator(emulator)
        self._queues = _selected(emulator, queues)
        self._clock = movable_clock(emulator)
        self._max_calls = max_calls
        self._exceeded = ""
        """What the worker has done too many times."""
        self._leases = 0
        self._sleeps = 0
        self._slept = False
        self._idle_leases: Counter[object] = Counter()
        self._idle_sleeps = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Intercept the worker's calls and sleeps."""
        with (
            self._emulator.interceptors.installed(self._intercept),
            sleeping(self._clock, self._sleep),
        ):
            yield

    @bypass_interceptors()
    def begins_call(self) -> bool:
        """Return whether to call the worker; where nothing can be leased yet, move the clock."""
        while not self._exceeded and self._tasks() and not self._available():
            next_event(self._emulator)
        if self._exceeded or not self._tasks():
            return False
        if self.calls == self._max_calls:
            self._exceeded = f"the worker was called {self.calls} times"
            return False
        self.calls += 1
        self._busy()
        return True

    def check(self, name: str) -> None:
        """Raise if the worker has done something too many times.

        Raises:
            AssertionError: it has.
        """
        if self._exceeded:
            raise AssertionError(
                f"{name}: {self._exceeded}, and the queues are still not empty; if this is not an "
                f"endless loop, pass a higher max_calls\n{describe(self._emulator)}"
            )

    def _intercept(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb not in LEASE_VERBS:
            return self._other_call(call.verb, call_next)
        self._leases += 1
        if self._leases > self._max_calls:
            self._exceeded = f"the worker has leased {self._max_calls} times"
            return self.interrupter.end(WorkerStopped, Lease([]))
        lease = call_next()
        if not isinstance(lease, Lease) or lease.tasks:
            self._busy()
            return lease
        return self._after_empty_lease(call.queue.name, lease)

    def _other_call(self, verb: str, call_next: Callable[[], object]) -> object:
        result = call_next()
        if verb == "delete_tasks":
            # A task that is acknowledged has no result of its own.
            changed = not isinstance(result, list) or DeleteResult.DELETED in result
        else:
            changed = verb in _CHANGES
        if changed:
            self._busy()
        return result

    @bypass_interceptors()
    def _after_empty_lease(self, queue_name: str, lease: Lease) -> object:
        if lease.rate_limited:
            self._clock.advance(1)
            return lease
        loop = (queue_name, current_task())  # of several coroutines each has its own
        self._idle_leases[loop] += 1
        again = self._idle_leases[loop] > 1
        if not self._tasks():
            if self._idle_leases[loop] > _IDLE_STEPS:
                return self.interrupter.end(WorkerStopped, lease)
            return lease
        # A worker that polls without a pause would see no time pass; one that pauses and has
        # leases meanwhile must not lose them by a jump.
        if again and not self._available() and not (self._slept and self._leased()):
            next_event(self._emulator)
            self._idle_leases.clear()
        self._slept = False
        return lease

    @bypass_interceptors()
    def _sleep(self, seconds: float) -> None:
        self._sleeps += 1
        self._slept = True
        if self._sleeps > self._max_calls:
            self._exceeded = f"the worker has slept {self._max_calls} times"
            self.interrupter.end(WorkerStopped)
        if not self._tasks():
            self._idle_sleeps += 1
            if self._idle_sleeps > _IDLE_STEPS:
                self.interrupter.end(WorkerStopped)
        self._clock.advance(seconds)

    def _busy(self) -> None:
        self._idle_leases.clear()
        self._idle_sleeps = 0
        self._slept = False

    def _tasks(self) -> int:
        return sum(queue.fetch_statistics().tasks for queue in self._queues)

    def _available(self) -> int:
        return sum(queue.fetch_statistics().available for queue in self._queues)

    def _leased(self) -> int:
        return sum(queue.fetch_statistics().leased for queue in self._queues)


def _selected(emulator: Emulator, queues: Iterable[Queue | str] | None) -> list[Queue]:
    if queues is None:
        return pull_queues(emulator)
    if isinstance(queues, str | Queue):
        raise TypeError(f"queues is {quoted(queues)}: pass a list, queues=[{quoted(queues)}]")
    selected = [queue_of(emulator, queue) for queue in queues]
    if not selected:
        raise ValueError("queues is empty: pass at least one queue, or None for all pull queues")
    for queue in selected:
        if queue.mode is not QueueMode.PULL:
            raise InvalidQueueModeError(
                f'queue "{queue.name}" is a push queue, whose tasks no worker can lease: pass '
                "pull queues only",
                queue_name=queue.name,
            )
    return selected


def check_is_emulator(emulator: object) -> None:
    """Raise if the first argument is something else, such as a queue.

    Raises:
        TypeError: it is.
    """
    if not isinstance(emulator, Emulator):
        raise TypeError(
            f"{quoted(emulator)} is not an Emulator: pass the emulator, then the worker"
        )


def refuse_lazy(result: object, name: str) -> None:
    """Refuse what a function of the test returned instead of doing its work.

    Raises:
        TypeError: it is a coroutine or another awaitable, or a generator.
    """
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()  # or Python would warn that it was never awaited
    if inspect.isawaitable(result):
        raise TypeError(
            f"the {name} returned {quoted(result)}, which was not awaited: "
            f"{'use `await drain_async(...)`, or ' if name == 'worker' else ''}"
            f"pass lambda: asyncio.run({name}())"
        )
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            f"the {name} returned {quoted(result)}, which was not iterated: iterate it, as with "
            f"lambda: list({name}())"
        )


def current_task() -> asyncio.Task[object] | None:
    """Return the task of asyncio in which the caller runs, if any."""
    with suppress(RuntimeError):  # in this thread no loop is running
        return asyncio.current_task()
    return None


class Interrupter:
    """Ends a worker from one of its calls.

    The worker may run in this thread and call the emulator in it, or call a server that responds in
    another: then the interrupt is raised in the worker's thread, as soon as it has its response.
    """

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._interrupted_from_elsewhere = False

    def end(self, interrupt: type[WorkerInterrupt], result: object = None) -> object:
        """End the worker; if it waits for a server, return `result`, the result of its call.

        Raises:
            WorkerInterrupt: this is the worker's thread.
            InternalError: it is another one, and there is no result.
        """
        if threading.get_ident() == self._thread_id:
            self._interrupt_here(interrupt)
        self._interrupt_there(interrupt)
        if result is None:
            raise InternalError("the worker that made this call was ended by its test")
        return result

    def release(self) -> None:
        """Receive an interrupt that came too late to reach the worker.

        Raises:
            WorkerInterrupt: there is one; expect it around this call.
        """
        if self._interrupted_from_elsewhere:
            # A pending exception is raised in a loop. To unset it by the same function of Python
            # would leave the interpreter checking for it forever.
            for _ in range(_LOOPS):
                pass

    def _interrupt_here(self, interrupt: type[WorkerInterrupt]) -> None:
        raise interrupt

    def _interrupt_there(self, interrupt: type[WorkerInterrupt]) -> None:
        self._interrupted_from_elsewhere = True
        if sys.version_info < (3, 12):
            # There, traced code (as under coverage) stops while another thread has an exception
            # pending; this one must go on, to respond to the worker.
            sys.settrace(None)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread_id), ctypes.py_object(interrupt)
        )


class TaskInterrupter(Interrupter):
    """Ends an asynchronous worker: a task of asyncio, and the tasks that it awaits."""

    def __init__(self) -> None:
        super().__init__()
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("drain_async works under asyncio only, and no loop runs") from None
        self._task: asyncio.Future[object]
        self._ended = False

    async def run(self, worker: Awaitable[object]) -> None:
        """Await a worker until it returns or is ended."""
        self._task = asyncio.ensure_future(worker)
        try:
            await self._task
        except BaseException as error:
            if not self._is_end(error):
                raise

    def _is_end(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):  # of a TaskGroup
            return error.split((WorkerInterrupt, asyncio.CancelledError))[1] is None and self._ended
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return self._ended and not (task and task.cancelling())
        return isinstance(error, WorkerInterrupt)

    def _interrupt_here(self, interrupt: type[WorkerInterrupt]) -> None:
        self._ended = True
        if current_task() is not self._task:
            self._task.cancel()
        raise interrupt

    def _interrupt_there(self, _: type[WorkerInterrupt]) -> None:
        self._ended = True
        self._loop.call_soon_threadsafe(self._task.cancel)
