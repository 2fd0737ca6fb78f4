"""The points at which tests can stop an actor: its calls to queues and services, and `point`.

An actor is a worker, the handler of an attempt, or a function of a test. A call is a point through
whichever interface it is made; what a service calls to carry it out is part of it, such as the adds
of tasks by a commit of the datastore.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from pullqueue.clock import movable_clock
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall, current_caller
from pullqueue.engine.store import random_names
from pullqueue.faults.fault import Fault, find_faults
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.arguments import Severity, refuse_lazy
from pullqueue.testing.clock import sleeping
from pullqueue.testing.describing import describe, describe_call
from pullqueue.testing.interrupt import interruptible
from pullqueue.testing.place import Place, calling_place
from pullqueue.testing.points import actors
from pullqueue.testing.points.changes import following_changes
from pullqueue.testing.points.databases import DATABASES, Database, find_unseen
from pullqueue.testing.points.databases.calls import DatabaseCall, observers, passed_to
from pullqueue.testing.points.footprint import EVERYTHING, Footprint, footprint_of_queue_call
from pullqueue.testing.points.responses import following_responses
from pullqueue.testing.points.services import ServiceFootprints
from pullqueue.testing.record import records_of
from pullqueue.text import shorten

if TYPE_CHECKING:
    from pullqueue.sdk.rpcs import ServiceCall

Call: TypeAlias = "QueueCall | ServiceCall | DatabaseCall | str"
"""A call to a queue, a service or a database, or what the code under test passes to `point`."""


class Point(NamedTuple):
    """One call of an actor."""

    actor: actors.Actor
    call: Call
    place: Place | None
    footprint: Footprint
    """What the call reads and writes."""
    is_late: bool = False
    """True if the response was sent before."""

    @property
    def is_of_queue(self) -> bool:
        """True if a queue is called, and not another service."""
        return isinstance(self.call, QueueCall)

    @property
    def is_lease(self) -> bool:
        """True if tasks are leased, which can be repeated in vain."""
        return isinstance(self.call, QueueCall) and self.call.verb in LEASE_VERBS

    @property
    def what(self) -> str:
        """What is called, wherever that is."""
        return describe_call(self.call) if isinstance(self.call, QueueCall) else str(self.call)

    def __str__(self) -> str:
        late = ", after the response" if self.is_late else ""
        return f"{self.what} ({self.place}){late}" if self.place else f"{self.what}{late}"


class Run(Protocol):
    """One run of what a test tries; gets the points."""

    @property
    def current(self) -> actors.Actor | None:
        """Who makes a call of which neither the thread nor the client is known.

        Clients that do not send by sockets of Python, such as those of gRPC, are not known.
        """

    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Carry out a call, or not, and return its result."""

    def at_attempt(
        self, request: PushRequest, call_next: Callable[[], PushResponse]
    ) -> PushResponse:
        """Send the request of a push task, or not, and return the response."""


@dataclass(eq=False, kw_only=True)
class Trial:
    """Runs what a test has passed, time and again from the same state."""

    emulator: Emulator
    setup: Callable[[], object]
    check: Callable[[], object]
    running: Run | None = None
    """Gets the points now; None: calls are carried out, but for those of the dead."""
    seen: dict[str, None] = field(default_factory=dict)
    """Whose calls by actors were points: services, databases, `queues` and `point()`."""
    _others: dict[str, int] = field(default_factory=dict)
    """What actors used that has no points, with the port of a connection."""
    _timeless: dict[str, None] = field(default_factory=dict)
    """Those of them that would change with the time, and do not follow the clock."""
    _expires_from: int | None = None
    """When a call was made after which something expires, in microseconds."""
    _faults: dict[Fault, Callable[[], None]] = field(default_factory=dict)
    """Those with which each run begins, and what makes them select calls as at first."""
    _calls: ExitStack = field(default_factory=ExitStack)
    """Ends that calls to queues are points."""
    _start_usec: int = 0
    """The time at which each run begins."""
    _footprints: ServiceFootprints = field(default_factory=ServiceFootprints)
    _following: ExitStack = field(default_factory=ExitStack)
    _not_followed: list[Database] = field(default_factory=list)
    """The databases whose calls are to be points, once their packages are loaded."""

    @contextmanager
    def observing(self, *, services: bool) -> Iterator[None]:
        """Pass the points in the block to what is running, and let sleeps move the clock.

        With `services`, calls to databases are points, and to bundled services, if App Engine's
        SDK uses the emulator. Threads of actors that have ended can outlive the block; their calls
        fail after it, too.
        """
        emulator = self.emulator
        clock, names, earlier = movable_clock(emulator), emulator.names, {*actors.threads}
        self._start_usec, drawn = clock.now_usec(), random.getstate()
        self._faults = {fault: fault.rewinder() for fault in find_faults(emulator)}
        try:
            with (
                sleeping(clock, clock.advance),
                interruptible,
                ExitStack() as stack,
            ):
                stack.enter_context(actors.following_actors)
                stack.enter_context(following_changes)
                stack.enter_context(following_responses)
                stack.enter_context(self._calls)
                if services and emulator_of_sdk() is emulator:
                    stack.enter_context(loaded_rpcs().intercepted(self.at_point))
                stack.enter_context(passed_to(self))
                self._following = stack
                self._not_followed = [each for each in DATABASES if services and each.is_followed]
                try:
                    yield
                finally:
                    actors.close_after_dead(stack.pop_all(), earlier)
        finally:
            emulator.names = names
            random.setstate(drawn)

    def begin(self) -> None:
        """Make the state with which each run begins, at the time at which `observing` began."""
        random.seed(0)
        movable_clock(self.emulator).return_to_usec(self._start_usec)
        self.emulator.reset()
        for record in records_of(self.emulator):
            record.clear()
        self.emulator.names = random_names(0)
        if rpcs := loaded_rpcs():
            rpcs.flush_memcache()
        self._footprints, self._expires_from = ServiceFootprints(), None
        for database in [each for each in self._not_followed if each.is_loaded]:
            self._not_followed.remove(database)
            self._following.enter_context(database.follow())
        for fault in find_faults(self.emulator):
            self._faults.get(fault, fault.remove)()
        refuse_lazy(self.setup(), "setup")
        # Installed again, so that calls are points on which a fault triggers that setup has set.
        earlier = self._calls.pop_all()
        self._calls.enter_context(self.emulator.interceptors.installed(self._intercept))
        earlier.close()
        if rpcs:
            rpcs.finish_calls()
            # Which entities `setup` deletes can depend on the run before.
            rpcs.flush_memcache(only_locks=True)

    def verify(self) -> BaseException | None:
        """Return why the state after a run is wrong, if it is.

        That is an exception, also that of `pytest.fail`, or an AssertionError if `check` returns
        something that is false, other than None.
        """
        if rpcs := loaded_rpcs():
            rpcs.clear_cache()
        pytest = sys.modules.get("pytest")
        failed = (Exception,) if pytest is None else (Exception, pytest.fail.Exception)
        try:
            result = self.check()
            is_wrong = result is not None and not result  # as numpy's False, too
        except failed as error:
            return error
        refuse_lazy(result, "check")
        return AssertionError(f"check returned {shorten(repr(result))}") if is_wrong else None

    def find_unseen(self, who: str, unseen: Severity) -> tuple[str, ...]:
        """Return what was used and not seen: databases, subprocesses and connections to others.

        Raises:
            AssertionError: a module of the app uses such a database, and `unseen` is "error".
        """
        found = find_unseen(self.seen, getattr(self.check, "__module__", ""))
        for database, module in found.items():
            text = (
                f"{who}: {module} uses {database.name}, and no call to it was seen, so nothing was "
                f'tried there: {database.advice}; if it is not called here, pass unseen="ignore"'
            )
            if unseen == "error":
                raise AssertionError(text)
            if unseen == "warn":
                warnings.warn(text, stacklevel=3)
        others = [name for name, port in self._others.items() if port not in actors.served]
        return (*(database.name for database in found), *others)

    def note_seen(self, name: str) -> None:
        """Note that calls of the current actor to a database or service are points."""
        if self.running is not None and actors.current_actor() is not None:
            self.seen[name] = None

    def note_unseen(self, name: str, port: int) -> None:
        """Note what the current actor uses that has no points, and to which port it connects."""
        if self.running is not None:
            self._others[name] = port

    def describe(self) -> str:
        """Return the state of the queues, and what of a database does not follow the clock."""
        hints = [f"moving the clock does not change {name}" for name in self._timeless]
        return "\n".join([describe(self.emulator), *hints])

    def note_expiry(self, name: str, *, begins: bool) -> None:
        """Note what does not expire when the clock moves; `begins`: from now on."""
        now_usec = movable_clock(self.emulator).now_usec()
        if self._expires_from not in (None, now_usec) and self.running is not None:
            self.note_unseen(name, 0)
            self._timeless[name] = None
        if begins:
            self._expires_from = now_usec

    def at_point(self, call: Call, call_next: Callable[[], object]) -> object:
        """Pass a call on, unless it is part of another, its actor has ended, or nothing runs."""
        if actors.is_carried_out():
            if isinstance(call, QueueCall) and (part_of := actors.current_actor()) is not None:
                part_of.note(footprint_of_queue_call(call))
            return call_next()
        actor, place = actors.caller(getattr(current_caller(), "port", None))
        if actor is not None and actor.has_ended and getattr(call, "undoes", False):
            return call_next()
        if actor is not None:
            actor.check_alive()
        run = self.running
        if run is not None and actor is None and (actor := run.current) is not None:
            place = calling_place(sys._current_frames().get(actor.thread_id))  # noqa: SLF001 - documented
        if run is None or actor is None:
            return call_next()
        self.seen[_name_of(call)] = None
        place = place or calling_place(is_hook=isinstance(call, str))
        point = Point(actor, call, place, self._footprint_of(call))
        actor.note_call(point.footprint, str(place or actor.name))
        return run.at_point(point, partial(actor.carry_out, call, call_next))

    def _footprint_of(self, call: Call) -> Footprint:
        if isinstance(call, str):
            return EVERYTHING
        if isinstance(call, QueueCall):
            return footprint_of_queue_call(call)
        return call.footprint if isinstance(call, DatabaseCall) else self._footprints.of(call)

    def _intercept(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb != "attempt":
            return self.at_point(call, call_next)
        if rpcs := loaded_rpcs():
            rpcs.clear_cache()
        run = self.running
        if run is None:
            return call_next()
        send = cast("Callable[[], PushResponse]", call_next)
        return run.at_attempt(call.arguments[0], send)


def _name_of(call: Call) -> str:
    if isinstance(call, str):
        return "point()"
    name: str = getattr(call, "service", "") or getattr(call, "database", "queues")
    return name


def point(name: str) -> None:
    """Let `crash_test` and `race_test` stop the code here; do nothing outside of them.

    They see calls to queues and to the services of App Engine's SDK by themselves. Call this before
    each statement or commit of a database of your own, in a hook of the test: whoever calls it can
    be killed there, and, once it was killed, cannot go past it; or another actor can go on. For a
    crash after a commit call it after that, too.

    `name` is what their reports show, with the place from which the hook was called.
    """
    for observer in [*observers]:
        observer.at_point(name, lambda: None)


def emulator_of_sdk() -> Emulator | None:
    """Return the emulator that App Engine's SDK uses, if any."""
    installation: Any = sys.modules.get("pullqueue.sdk.installation")
    emulator: Emulator | None = installation and installation.emulator_in_use()
    return emulator


def loaded_rpcs() -> Any:  # noqa: ANN401 - a module
    """Return `pullqueue.sdk.rpcs`; None: App Engine's SDK was not used."""
    return sys.modules.get("pullqueue.sdk.rpcs")
