"""Running an app's worker until there is nothing left for it to do."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall, bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Lease
from pullqueue.tasks import DeleteResult
from pullqueue.testing import arguments, interrupt
from pullqueue.testing.arguments import Errors, Severity
from pullqueue.testing.clock import FixtureClock, sleeping
from pullqueue.testing.describing import describe
from pullqueue.testing.running import TaskRunner
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.testing.undeleted import Undeleted
from pullqueue.testing.waiting import WaitingWorker
from pullqueue.text import quoted

Worker = Callable[[], object]
AsyncWorker = Callable[[], Awaitable[object]]

_CHANGES = frozenset({"add", "modify_task_lease", "purge"})
_SEVERITY: dict[Errors, Severity] = {"raise": "warn", "strict": "error", "retry": "ignore"}
"""What an exhausted task does to the test, by what an error of a handler does."""


def drain(
    emulator: Emulator,
    worker: Worker,
    *,
    queues: Iterable[Queue | str] | None = None,
    app: App | None = None,
    send: SendFunction | None = None,
    deferred: bool = False,
    errors: Errors = "raise",
    max_calls: int = 1000,
) -> int:
    """Call an app's worker until the pull queues are empty, and return the number of calls.

    With `app`, `send` or `deferred`, as in `run_tasks`, the tasks of push queues are sent as well,
    before and between the calls of the worker, until those queues are empty, too. An exception of
    a handler ends `drain`; with `errors="retry"` it is only status 500, as in production.

    A pull task that is exhausted, since the worker has not deleted it, leads to a warning, with
    `errors="strict"` to an AssertionError, and with `errors="retry"` to nothing.

    `queues` are the queues to empty, or their names; if it is None, all pull queues, and the push
    queues whose tasks are sent. Tasks in other queues are left alone.

    `time.sleep` and `asyncio.sleep` advance the clock and return at once. When no task can be
    leased yet, the clock moves to the next event. A worker that loops forever is stopped when the
    queues are empty and it leases from the same queue in vain, or sleeps, for the third time in a
    row. While all tasks are leased, the clock moves to the next event after `max_calls` leases in
    vain.

    Exceptions of the worker are not caught and end `drain`. To restart a worker that fails, pass a
    function that catches its exceptions.

    Raises:
        AssertionError: after `max_calls` calls of the worker, or as many leases or sleeps of it,
            or attempts to send tasks, there are still tasks.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a push queue, and its tasks are not sent.
        TypeError: `emulator` is not one, `queues` is not a list, or the worker is asynchronous or
            a generator.
        UnknownQueueError: one of `queues` does not exist.
    """
    sender = Sender(app, send, deferred=deferred)
    arguments.check_actor(worker)
    selected = _select(emulator, queues, sender)
    driver = Driver(emulator, sender, selected, max_calls=max_calls, errors=errors)
    driver.run(worker)
    driver.check("drain")
    driver.undeleted.report("drain", 'errors="retry"', _SEVERITY[errors])
    return driver.calls


async def drain_async(
    emulator: Emulator,
    worker: AsyncWorker,
    *,
    queues: Iterable[Queue | str] | None = None,
    app: App | None = None,
    send: SendFunction | None = None,
    deferred: bool = False,
    errors: Errors = "raise",
    max_calls: int = 1000,
) -> int:
    """Await an asynchronous worker until the pull queues are empty; return the number of calls.

    Like `drain`, for workers under asyncio: `asyncio.sleep` in the worker, and in tasks that it
    starts, advances the clock. `asyncio.wait_for` and `asyncio.timeout` use the real time.

    Raises:
        TypeError: the worker is not asynchronous; otherwise as `drain`.
    """
    interrupter = interrupt.TaskInterrupter(interrupt.WorkerStopped)
    sender = Sender(app, send, deferred=deferred)
    arguments.check_actor(worker)
    selected = _select(emulator, queues, sender)
    driver = Driver(emulator, sender, selected, interrupter, max_calls=max_calls, errors=errors)
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
    driver.undeleted.report("drain_async", 'errors="retry"', _SEVERITY[errors])
    return driver.calls


def _select(
    emulator: Emulator, queues: Iterable[Queue | str] | None, sender: Sender
) -> arguments.SelectQueues:
    arguments.check_is_emulator(emulator)
    modes = (QueueMode.PULL, QueueMode.PUSH) if sender.is_set else (QueueMode.PULL,)
    return arguments.select_queues(emulator, queues, modes=modes)


@dataclass
class _Idleness:
    """What a worker has done in vain since it has last changed something."""

    leases: Counter[object] = field(default_factory=Counter)
    """By queue and task of asyncio: of several coroutines each polls for itself."""
    sleeps: int = 0
    """Those while there was nothing to do."""
    has_slept: bool = False
    """True if it has slept since its last lease."""


class Driver:
    """One run of `drain` or `drain_async`."""

    def __init__(
        self,
        emulator: Emulator,
        sender: Sender,
        queues: arguments.SelectQueues,
        interrupter: interrupt.Interrupter | None = None,
        *,
        max_calls: int,
        errors: str,
    ) -> None:
        arguments.check_choices(arguments.ERRORS, errors=errors)
        self.calls = 0
        """Number of times that the worker was called."""
        self._emulator = emulator
        self._interrupter = interrupter or interrupt.Interrupter(interrupt.WorkerStopped)
        self._queues: arguments.SelectQueues = lambda: [
            queue for queue in queues() if not queue.is_push
        ]
        self._runner = TaskRunner(
            emulator,
            sender,
            lambda: [queue for queue in queues() if queue.is_push],
            errors=errors,
            max_attempts=max_calls,
            limit_name="max_calls",
            ends_endless=True,
        )
        self._sending = False
        """True if a handler is called, and not the worker."""
        self._clock = FixtureClock(movable_clock(emulator), lambda: emulator)
        self._max_calls = max_calls
        self._done: Counter[str] = Counter()
        """What the worker has done, leases only where they returned tasks."""
        self._exceeded = ""
        """What it has done too many times."""
        self._idle = _Idleness()
        self._waiting = WaitingWorker(self._interrupter.end)
        self.undeleted = Undeleted(emulator, self._queues)

    def run(self, worker: Worker) -> None:
        """Call a worker that is not asynchronous, until there is nothing to do."""
        with self.at_work():
            while self.begins_call():
                with self._interrupter.ending(), self._waiting.watched():
                    arguments.refuse_lazy(worker(), "worker")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Intercept the worker's calls and sleeps."""
        with (
            interrupt.interruptible,
            self._emulator.interceptors.installed(self._intercept),
            sleeping(self._clock, self._sleep),
        ):
            yield

    def begins_call(self) -> bool:
        """Return True to call the worker; before that, send tasks, and move the clock to them."""
        self._send_tasks()
        while not self._exceeded and self._moves_on():
            self._send_tasks()
        if self._exceeded or self._waiting.was_ended or not self._count("tasks"):
            return False
        if self.calls == self._max_calls:
            self._exceeded = f"the worker was called {self.calls} times"
            return False
        self.calls += 1
        self._idle = _Idleness()
        return True

    def _send_tasks(self) -> None:
        if not self._runner.has_due():
            return
        self._sending = True
        try:
            self._runner.run_due()
        finally:
            self._sending = False

    @bypass_interceptors()
    def _moves_on(self) -> bool:
        """Move to the next event, if there are tasks, and none can be leased or sent now."""
        if self._count("available"):
            return False
        if self._runner.has_tasks():
            if self._runner.next_usec() is None and not self._count("tasks"):
                self._runner.refuse_left()
        elif not self._count("tasks"):
            return False
        return self._clock.advance_to_next_event() is not None

    def check(self, name: str) -> None:
        """Raise an AssertionError if the worker never ends."""
        self._interrupter.check_caught(name)
        if self._waiting.was_ended:
            raise AssertionError(f"{name}: {self._waiting.describe()}")
        if self._exceeded:
            raise AssertionError(
                f"{name}: {self._exceeded}, and the queues are still not empty; if this is not an "
                f"endless loop, pass a higher max_calls\n{describe(self._emulator)}"
            )

    def _intercept(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        if self._sending:
            return call_next()
        self._waiting.note_call()
        if call.verb not in LEASE_VERBS:
            return self._other_call(call.verb, call_next)
        lease = call_next()
        if not isinstance(lease, Lease) or lease.tasks:
            self._idle = _Idleness()
            self._note("leased")
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
            self._idle = _Idleness()
        return result

    @bypass_interceptors()
    def _after_empty_lease(self, queue_name: str, lease: Lease) -> object:
        if lease.rate_limited:
            self._clock.advance(1)
            return lease
        loop = queue_name, interrupt.current_task()
        self._idle.leases[loop] += 1
        in_vain = self._idle.leases[loop]
        if self._has_nothing_to_do():
            if in_vain > interrupt.IDLE_STEPS:
                self._waiting.note_end()
                self._interrupter.end()
            return lease
        if self._idle.leases.total() > self._max_calls:
            self._exceed("leased")
        # A worker that polls without a pause would see no time pass; one that pauses and has
        # leases meanwhile must not lose them by a jump.
        has_lease = self._idle.has_slept and self._count("leased")
        self._idle.has_slept = False
        if in_vain > 1 and not self._count("available") and not has_lease:
            self._clock.advance_to_next_event()
            self._idle = _Idleness()
        return lease

    @bypass_interceptors()
    def _sleep(self, seconds: float) -> None:
        self._waiting.note_call()
        self._note("slept")
        self._idle.has_slept = True
        if self._has_nothing_to_do():
            self._idle.sleeps += 1
            if self._idle.sleeps > interrupt.IDLE_STEPS:
                self._interrupter.end()
        self._clock.advance(seconds)

    def _note(self, done: str) -> None:
        self._done[done] += 1
        if self._done[done] > self._max_calls:
            self._exceed(done)

    def _exceed(self, done: str) -> None:
        """End the worker; if it waits for a lease that is longer than this, expire the lease.

        Not earlier: the worker may have the lease itself, and wait for more tasks.
        """
        waits = self._idle.leases and not self._count("available")
        if waits and self._clock.advance_to_next_event():
            del self._done["slept"]
            self._idle = _Idleness()
        else:
            self._exceeded = f"the worker has {done} {self._max_calls} times"
            self._interrupter.end()

    def _has_nothing_to_do(self) -> bool:
        """Return True if the worker waits in vain, or for tasks that handlers are to add."""
        return self._runner.has_due() or not self._count("tasks")

    @bypass_interceptors()
    def _count(self, state: str) -> int:
        return sum(getattr(queue.fetch_statistics(), state) for queue in self._queues())
