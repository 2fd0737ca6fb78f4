"""Calls that fail, wait or come back empty, as those of a service do on a bad day."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypedDict, Unpack, cast

from pullqueue import errors
from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec, from_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, VERBS, QueueCall
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Lease
from pullqueue.errors import (
    ClockError,
    DeadlineExceededError,
    OverQuotaError,
    PullQueueError,
    QueueError,
    TaskError,
)

Proceed = Callable[[], object]
ErrorSource = PullQueueError | type[PullQueueError]
"""An error, or the class of one."""


class When(TypedDict, total=False):
    """Which of the calls a fault strikes: all, unless these narrow it."""

    queue: Queue | str
    """Only calls on this queue are counted and struck."""
    times: int
    """It strikes this often at most."""
    after: int
    """It lets so many calls through first."""
    every: int
    """Of the calls after these it strikes every second, third..."""
    probability: float
    """It strikes with this probability, from a sequence that is the same at each run."""
    seed: int
    """Another sequence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """`When`, checked."""

    queue_name: str | None = None
    times: int | None = None
    after: int = 0
    every: int = 1
    probability: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times!r}: a fault strikes once at least")
        if self.after < 0:
            raise ValueError(f"after={self.after!r}: give how many calls succeed first, 0 or more")
        if self.every < 1:
            raise ValueError(f"every={self.every!r}: give 1 for each call, 2 for every second...")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability={self.probability!r}: give more than 0, at most 1")


class Fault:
    """One kind of trouble: which calls it strikes, and how often it has."""

    def __init__(
        self,
        verbs: frozenset[str],
        choice: _Choice,
        strike: Callable[[QueueCall, Proceed], object],
    ) -> None:
        self.calls = 0
        """How many calls it could have struck."""
        self.hits = 0
        """How many it has struck."""
        self._verbs = verbs
        self._choice = choice
        self._strike = strike
        self._random = random.Random(choice.seed)  # noqa: S311 - repeatable, not secret
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        verbs = ", ".join(sorted(self._verbs))
        name = self._choice.queue_name
        where = "" if name is None else f" on queue {name!r}"
        return f"fault in {verbs}{where}: struck {self.hits} of {self.calls} calls"

    def __call__(self, call: QueueCall, proceed: Proceed) -> object:
        """Strike a call, if it is one of those, or let it through."""
        return self._strike(call, proceed) if self._strikes(call) else proceed()

    def _strikes(self, call: QueueCall) -> bool:
        if call.verb not in self._verbs:
            return False
        if self._choice.queue_name not in (None, call.queue.name):
            return False
        with self._lock:
            self.calls += 1
            struck = self._chooses(self.calls - self._choice.after)
            self.hits += struck
        return struck

    def _chooses(self, number: int) -> bool:
        if number < 1 or number % self._choice.every:
            return False
        if self.hits == self._choice.times:
            return False
        return self._random.random() < self._choice.probability


def faults_of(emulator: Emulator) -> list[Fault]:
    """Give the faults that are set in an emulator's calls, the oldest first."""
    found = [fault for fault in emulator.interceptors if isinstance(fault, Fault)]
    return found[::-1]


class Faults:
    """Faults in the calls to an emulator, the same through every door.

        faults = Faults(emulator)
        faults.fail("lease_tasks", TransientError, times=3)

    Each method gives the fault it makes; its `hits` tell how often it has struck. Faults last until
    `clear`, or the end of a `with` block. `lease_tasks` and `lease_tasks_by_tag` are two calls: a
    fault in one does not strike the other. The test's own questions, by the assertions of
    `pullqueue.testing`, are never struck.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._stack = ExitStack()

    def fail(self, verb: str, error: ErrorSource, **when: Unpack[When]) -> Fault:
        """Let calls raise an error instead of doing anything.

        Raises:
            ValueError: there is no such verb, or `when` makes no sense.
            TypeError: `error` is none of pullqueue's.
        """
        made(error, "")
        return self._add({verb}, when, lambda call, _: _raise(made(error, call.queue.name)))

    def lose_answer(
        self, verb: str, error: ErrorSource = DeadlineExceededError, **when: Unpack[When]
    ) -> Fault:
        """Let calls be done, and raise an error all the same: the answer never arrives.

        Raises:
            ValueError: there is no such verb, or `when` makes no sense.
            TypeError: `error` is none of pullqueue's.
        """
        made(error, "")

        def lose(call: QueueCall, proceed: Proceed) -> object:
            proceed()
            raise made(error, call.queue.name)

        return self._add({verb}, when, lose)

    def latency(self, verb: str, by: float | timedelta, **when: Unpack[When]) -> Fault:
        """Let the clock move on before calls give their answer, by seconds or a timedelta.

        The SDK's calls have a deadline, of 10 seconds for leases unless the app says otherwise:
        with more latency than that they are carried out all the same, the clock moves on by the
        deadline, and they raise DeadlineExceededError.

        Raises:
            ValueError: there is no such verb, or `when` makes no sense.
            ClockError: the emulator's clock cannot be moved, or not by so much.
        """
        clock = movable_clock(self._emulator)
        usec = duration_usec(by)
        if usec < 0:
            raise ClockError(f"a latency of {by!r}: a clock never goes back, give 0 or more")

        def wait(call: QueueCall, proceed: Proceed) -> object:
            answer = proceed()
            _advance(clock, usec, call.deadline_usec)
            return answer

        return self._add({verb}, when, wait)

    def empty_leases(self, **when: Unpack[When]) -> Fault:
        """Let leases give no tasks, as when they are asked for too often.

        Raises:
            ValueError: `when` makes no sense.
        """
        return self._add(LEASE_VERBS, when, lambda _call, _proceed: Lease([], rate_limited=True))

    def lapse_leases(
        self, rival: Callable[[], object] | None = None, **when: Unpack[When]
    ) -> Fault:
        """Let leases run out while they are held, so that their tasks are delivered twice.

        Before the holder's next call the clock moves to the end of the lease, and `rival`, another
        worker, is called: it finds the tasks free, and may be done with them before the holder is.

        Raises:
            ValueError: `when` makes no sense.
            ClockError: the emulator's clock cannot be moved.
        """
        lapse = _Lapse(self._emulator, rival)
        self._stack.enter_context(self._emulator.interceptors.installed(lapse.before_next_call))
        return self._add(LEASE_VERBS, when, lapse.note_lease)

    def clear(self) -> None:
        """Take all faults away."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def _add(
        self,
        verbs: set[str] | frozenset[str],
        when: When,
        strike: Callable[[QueueCall, Proceed], object],
    ) -> Fault:
        for verb in verbs:
            if verb not in VERBS:
                raise ValueError(f"there is no call {verb!r}: use one of {', '.join(VERBS)}")
        options = dict(when)
        queue = options.pop("queue", None)
        name = None if queue is None else queue_of(self._emulator, queue).name  # type: ignore[arg-type]
        choice = _Choice(queue_name=name, **options)  # type: ignore[arg-type] # named in When
        fault = Fault(frozenset(verbs), choice, strike)
        self._stack.enter_context(self._emulator.interceptors.installed(fault))
        return fault


class _Lapse:
    """Lets a lease run out before the next call of its holder."""

    def __init__(self, emulator: Emulator, rival: Callable[[], object] | None) -> None:
        self._clock = movable_clock(emulator)
        self._rival = rival
        self._rival_at_work = False
        self._end: datetime | None = None

    def note_lease(self, _: QueueCall, proceed: Proceed) -> object:
        lease = proceed()
        if isinstance(lease, Lease) and lease.tasks and not self._rival_at_work:
            self._end = from_usec(max(task.eta_usec for task in lease.tasks))
        return lease

    def before_next_call(self, _: QueueCall, proceed: Proceed) -> object:
        end, self._end = self._end, None
        if end is not None:
            if end > self._clock.now():
                self._clock.move_to(end)
            self._deliver_again()
        return proceed()

    def _deliver_again(self) -> None:
        if self._rival is not None:
            self._rival_at_work = True
            try:
                self._rival()
            finally:
                self._rival_at_work = False


def _advance(clock: MovableClock, usec: int, deadline_usec: int | None) -> None:
    """Advance a clock by the latency of a call, or by its deadline if that is less.

    Raises:
        DeadlineExceededError: the deadline is less.
    """
    if deadline_usec is None or usec <= deadline_usec:
        clock.advance(timedelta(microseconds=usec))
        return
    clock.advance(timedelta(microseconds=deadline_usec))
    raise DeadlineExceededError(
        f"a fault lets the call take {usec / USEC_PER_SECOND:g} seconds, and its deadline is "
        f"{deadline_usec / USEC_PER_SECOND:g} seconds"
    )


def _raise(error: PullQueueError) -> object:
    raise error


def made(source: object, where: str) -> PullQueueError:
    """Give an error, or make one of a class with what the class asks for.

    `where` is the queue's name.

    Raises:
        TypeError: it is none of pullqueue's.
    """
    if isinstance(source, PullQueueError):
        return source
    if not (isinstance(source, type) and issubclass(source, PullQueueError)):
        name = _name_here(source) or "TransientError"
        raise TypeError(
            f"{source!r} is no error of pullqueue: give one of its own, such as pullqueue.{name}"
        )
    error: type[PullQueueError] = source
    message = f"{error.__doc__} (injected by the test)"
    if issubclass(error, OverQuotaError):
        return error(message, limit_bytes=0, needed_bytes=0)
    if issubclass(error, TaskError):
        return error(message, queue_name=where, task_name="")
    if issubclass(error, QueueError):
        return error(message, queue_name=where)
    return error(message)


def _name_here(source: object) -> str | None:
    """Give the name of pullqueue's error that goes by the same name as another's."""
    name = (source if isinstance(source, type) else type(source)).__name__
    here = getattr(errors, name, None)
    return name if isinstance(here, type) and issubclass(here, PullQueueError) else None


def movable_clock(owner: Emulator | Queue) -> MovableClock:
    """Give the clock of an emulator or a queue, if it can be moved.

    Raises:
        ClockError: it cannot: it is the system's, or time is not frozen.
    """
    clock = owner.clock
    if not hasattr(clock, "move_to"):
        raise ClockError(
            f"cannot move the time of {owner!r}, which goes by a {type(clock).__name__}: make the "
            "emulator with clock=ManualClock(), or use the fixtures of the pytest plugin"
        )
    movable = cast("MovableClock", clock)
    movable.advance(0)
    return movable


def queue_of(emulator: Emulator, queue: Queue | str) -> Queue:
    """Give a queue by its name, or the queue itself.

    Raises:
        UnknownQueueError: the emulator has no queue of this name.
    """
    return queue if isinstance(queue, Queue) else emulator.queue(queue)
