"""Faults: calls to a queue that fail, take time, or return no tasks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, Self, TypedDict, Unpack, cast

from pullqueue import errors
from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec, from_usec
from pullqueue.config.text import quoted
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, VERBS, Interceptors, QueueCall
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

__tracebackhide__ = True  # a failed test is shown at its own line

CallNext = Callable[[], object]
Effect = Callable[[QueueCall, CallNext], object]
"""What a fault does to a call on which it triggers; it may carry the call out, or not."""
ErrorSource = Exception | type[Exception]
"""An error of pullqueue or of App Engine's SDK, or the class of one."""

_SDK = "google.appengine."
_SETTING = threading.Lock()


class When(TypedDict, total=False):
    """The calls on which a fault triggers: every call of its verb, unless these narrow it."""

    queue: Queue | str
    """Only calls on this queue are counted."""
    times: int
    """Maximum number of times that the fault triggers."""
    after: int
    """Number of calls that pass before the first on which it can trigger."""
    every: int
    """Of the calls after these, it triggers on every second, third..."""
    probability: float
    """Probability that it triggers on a call; the sequence is the same in each run."""
    seed: int
    """Selects another sequence."""


class _Selection(NamedTuple):
    """`When`, with its defaults."""

    queue: str | None = None
    times: int | None = None
    after: int = 0
    every: int = 1
    probability: float = 1.0
    seed: int = 0

    def check(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}: must be 1 or more")
        if self.after < 0:
            raise ValueError(f"after is {self.after}: must be 0 or more")
        if self.every < 1:
            raise ValueError(f"every is {self.every}: must be 1 (each call) or more")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability is {self.probability}: must be more than 0, at most 1")


class Fault:
    """One fault of an emulator; as a context manager it is removed at the end of the block."""

    def __init__(
        self, title: str, verbs: frozenset[str], selection: _Selection, effect: Effect
    ) -> None:
        self.calls = 0
        """Number of calls on which it could have triggered."""
        self.hits = 0
        """Number of times it has triggered."""
        self._title = title
        self._verbs = verbs
        self._selection = selection
        self.effect = effect
        """What happens to a call on which it triggers."""
        self.before_call: Callable[[], None] | None = None
        """Called before each call of the app, whether or not the fault triggers on it."""
        self._random = random.Random(selection.seed)  # noqa: S311 - repeatable, not secret
        self._lock = threading.Lock()
        self._chain: _FaultChain | None = None

    def __repr__(self) -> str:
        return f"<Fault {self}>"

    def __str__(self) -> str:
        return f"{self._title}: triggered on {self.hits} of {self.calls} calls"

    @property
    def is_set(self) -> bool:
        """Whether it is still set, and not removed."""
        return self._chain is not None

    def set_in(self, emulator: Emulator) -> Self:
        """Set it, after all faults that the emulator has."""
        with _SETTING:
            self._chain = _chain_of(emulator) or _FaultChain(emulator.interceptors)
            self._chain.add(self)
        return self

    def remove(self) -> None:
        """Remove it; nothing happens if it was removed before."""
        with _SETTING:
            chain, self._chain = self._chain, None
            if chain is not None:
                chain.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def triggers_on(self, call: QueueCall) -> bool:
        """Count a call, and return whether the fault triggers on it."""
        if call.verb not in self._verbs or self._selection.queue not in (None, call.queue.name):
            return False
        with self._lock:
            self.calls += 1
            triggers = self._selects(self.calls - self._selection.after)
            self.hits += triggers
        return triggers

    def _selects(self, number: int) -> bool:
        if number < 1 or number % self._selection.every:
            return False
        if self.hits == self._selection.times:
            return False
        return self._random.random() < self._selection.probability


class _FaultChain:
    """The interceptor that has all faults of an emulator, in the order in which they were set."""

    def __init__(self, interceptors: Interceptors) -> None:
        self._interceptors = interceptors
        self.faults: tuple[Fault, ...] = ()

    def add(self, fault: Fault) -> None:
        if not self.faults:
            self._interceptors.add(self)
        self.faults = (*self.faults, fault)

    def remove(self, fault: Fault) -> None:
        self.faults = tuple(other for other in self.faults if other is not fault)
        if not self.faults:
            self._interceptors.remove(self)

    def __call__(self, call: QueueCall, call_next: CallNext) -> object:
        faults = self.faults
        for fault in faults:
            if fault.before_call is not None:
                fault.before_call()
        first = next((fault for fault in faults if fault.triggers_on(call)), None)
        return call_next() if first is None else first.effect(call, call_next)


def _chain_of(emulator: Emulator) -> _FaultChain | None:
    found = (chain for chain in emulator.interceptors if isinstance(chain, _FaultChain))
    return next(found, None)


def faults_of(emulator: Emulator) -> list[Fault]:
    """Return the faults that are set in an emulator, in the order in which they were set."""
    chain = _chain_of(emulator)
    return [] if chain is None else list(chain.faults)


class Faults:
    """Sets faults in the calls to an emulator, through every interface.

        faults = Faults(emulator)
        faults.fail("lease_tasks", TransientError, times=3)

    Each method returns the fault it sets: its `hits` count how often it has triggered, `remove()`
    or a `with` block removes it. `clear()` or a `with` block of `Faults` removes all of them.

    At most one fault triggers on each call: the one that was set first. One without `times`
    prevents later faults of the same verb from triggering.

    `lease_tasks` includes leases by tag, `lease_tasks_by_tag` means only those. The assertions of
    `pullqueue.testing` trigger no fault.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._faults: list[Fault] = []

    @property
    def active(self) -> list[Fault]:
        """The faults set here and not removed, in the order in which they were set."""
        return [fault for fault in self._faults if fault.is_set]

    def fail(self, verb: str, error: ErrorSource, **when: Unpack[When]) -> Fault:
        """Raise an error instead of carrying the call out.

        `error` is an error of pullqueue or of App Engine's SDK, or the class of one. Both names
        mean the same: apps that use the SDK get the SDK's exception, callers of the REST API its
        status.

        Raises:
            ValueError: the verb does not exist, or `when` is not valid.
            TypeError: `error` is neither pullqueue's nor the SDK's.
        """
        make_error(error)

        def effect(call: QueueCall, _: CallNext) -> object:
            raise make_error(error, call.queue.name)

        return self._set("fail", verb, effect, when, error)

    def lose_response(
        self, verb: str, error: ErrorSource = DeadlineExceededError, **when: Unpack[When]
    ) -> Fault:
        """Carry out the call and raise an error nevertheless: the response is lost.

        Raises:
            ValueError: the verb does not exist, or `when` is not valid.
            TypeError: `error` is neither pullqueue's nor the SDK's.
        """
        make_error(error)

        def effect(call: QueueCall, call_next: CallNext) -> object:
            call_next()
            raise make_error(error, call.queue.name)

        return self._set("lose_response", verb, effect, when, error)

    def latency(self, verb: str, by: float | timedelta, **when: Unpack[When]) -> Fault:
        """Advance the clock by seconds or a timedelta before the call returns.

        Calls of the SDK have a deadline, by default 10 seconds for leases. If the latency exceeds
        it, the call is carried out, the clock advances by the deadline, and the call raises
        DeadlineExceededError.

        Raises:
            ValueError: the verb does not exist, or `when` is not valid.
            ClockError: the emulator's clock cannot be moved, or not by that much.
        """
        clock = movable_clock(self._emulator)
        usec = duration_usec(by)
        if usec < 0:
            raise ClockError(f"latency is {by}: must be 0 or more")

        def effect(call: QueueCall, call_next: CallNext) -> object:
            result = call_next()
            _advance(clock, usec, call.deadline_usec)
            return result

        return self._set("latency", verb, effect, when, by)

    def empty_leases(self, **when: Unpack[When]) -> Fault:
        """Make leases return no tasks, as when they are requested too often.

        Raises:
            ValueError: `when` is not valid.
        """

        def effect(*_: object) -> object:
            return Lease([], rate_limited=True)

        return self._set("empty_leases", "lease_tasks", effect, when)

    def lapse_leases(
        self, rival: Callable[[], object] | None = None, **when: Unpack[When]
    ) -> Fault:
        """Make leases expire while the worker has them, so that their tasks are delivered twice.

        Before the worker's next call the clock moves to the end of the lease, and `rival`, another
        worker, is called: it can lease the tasks, and delete them before the first worker does.

        Raises:
            ValueError: `when` is not valid.
            ClockError: the emulator's clock cannot be moved.
        """
        lapse = _Lapse(self._emulator, rival)
        fault = self._set("lapse_leases", "lease_tasks", lapse.note_lease, when)
        fault.before_call = lapse.before_call
        return fault

    def clear(self) -> None:
        """Remove all faults that were set here."""
        for fault in self.active:
            fault.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def _set(self, method: str, verb: str, effect: Effect, when: When, *arguments: object) -> Fault:
        if verb not in VERBS:
            raise ValueError(f"there is no call {quoted(verb)}: use one of {', '.join(VERBS)}")
        options: dict[str, object] = dict(when)
        for name in options.keys() - _Selection._fields:
            raise TypeError(
                f"{method}() has no argument `{name}`: use one of {', '.join(_Selection._fields)}"
            )
        if options.get("queue") is not None:
            options["queue"] = queue_of(self._emulator, when["queue"]).name
        selection = _Selection(**options)  # type: ignore[arg-type] # named in When
        selection.check()
        shown = list(map(_shown, [verb, *arguments])) if arguments else []
        shown += [f"{name}={_shown(value)}" for name, value in options.items()]
        verbs = LEASE_VERBS if verb == "lease_tasks" else frozenset({verb})
        fault = Fault(f"{method}({', '.join(shown)})", verbs, selection, effect)
        self._faults.append(fault.set_in(self._emulator))
        return fault


class _Lapse:
    """Makes a lease expire before the next call of the worker that has it."""

    def __init__(self, emulator: Emulator, rival: Callable[[], object] | None) -> None:
        self._clock = movable_clock(emulator)
        self._rival = rival
        self._rival_at_work = False
        self._end: datetime | None = None

    def note_lease(self, _: QueueCall, call_next: CallNext) -> object:
        lease = call_next()
        if isinstance(lease, Lease) and lease.tasks and not self._rival_at_work:
            self._end = from_usec(max(task.eta_usec for task in lease.tasks))
        return lease

    def before_call(self) -> None:
        end, self._end = self._end, None
        if end is None:
            return
        if end > self._clock.now():
            self._clock.move_to(end)
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
        f"a fault makes the call take {usec / USEC_PER_SECOND:g} seconds, and its deadline is "
        f"{deadline_usec / USEC_PER_SECOND:g} seconds"
    )


def make_error(source: object, queue_name: str = "") -> Exception:
    """Return an error, or make one of a class with the attributes that the class needs.

    An error of the SDK becomes pullqueue's of the same name, which every interface can translate;
    one that has none stays as it is.

    Raises:
        TypeError: it is neither pullqueue's nor the SDK's.
    """
    if isinstance(source, PullQueueError):
        return source
    if isinstance(source, type) and issubclass(source, PullQueueError):
        return _instance(source, f"{source.__doc__} (injected by a fault)", queue_name)
    kind = source if isinstance(source, type) else type(source)
    same_name = getattr(errors, kind.__name__, None)
    if not (issubclass(kind, Exception) and kind.__module__.startswith(_SDK)):
        example = "TransientError" if same_name is None else kind.__name__
        raise TypeError(
            f"{kind.__name__} is not an error of pullqueue or of App Engine's SDK: use one of "
            f"them, such as pullqueue.{example}"
        )
    if same_name is None:
        return cast("Exception", source() if isinstance(source, type) else source)
    message = "" if isinstance(source, type) else str(source)
    return _instance(same_name, message or f"{same_name.__doc__} (injected by a fault)", queue_name)


def _instance(kind: type[PullQueueError], message: str, queue_name: str) -> PullQueueError:
    if issubclass(kind, OverQuotaError):
        return kind(message, limit_bytes=0, needed_bytes=0)
    if issubclass(kind, TaskError):
        return kind(message, queue_name=queue_name, task_name="")
    if issubclass(kind, QueueError):
        return kind(message, queue_name=queue_name)
    return kind(message)


def _shown(argument: object) -> str:
    if isinstance(argument, type):
        return argument.__name__
    if isinstance(argument, str):
        return quoted(argument)
    return f"{argument:g}" if isinstance(argument, float) else repr(argument)


def movable_clock(owner: Emulator | Queue) -> MovableClock:
    """Return the clock of an emulator or a queue, if it can be moved.

    Raises:
        ClockError: it is the system's clock, or the process's while time is not frozen.
    """
    clock = owner.clock
    if not isinstance(clock, MovableClock):
        raise ClockError(
            f"cannot move the time of {owner}, whose clock is a {type(clock).__name__}: make the "
            "emulator with clock=ManualClock(), or use the fixtures of the pytest plugin"
        )
    clock.advance(0)
    return clock


def queue_of(emulator: Emulator, queue: Queue | str) -> Queue:
    """Return a queue by its name, or the queue itself.

    Raises:
        UnknownQueueError: the emulator has no queue of this name.
    """
    return queue if isinstance(queue, Queue) else emulator.queue(queue)
