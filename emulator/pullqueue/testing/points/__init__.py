"""The points at which tests can stop an actor: its calls to queues and services, and `point`.

An actor is a worker, the handler of an attempt, or a function of a test. A call is a point through
whichever interface it is made; what a service calls to carry it out is part of it, such as the adds
of tasks by a commit of the datastore.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias, cast

from pullqueue.clock import movable_clock
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall, current_caller
from pullqueue.engine.name_source import random_names
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.arguments import refuse_lazy
from pullqueue.testing.clock import sleeping
from pullqueue.testing.describing import describe_call
from pullqueue.testing.interrupt import Interrupter, WorkerInterrupt, interruptible
from pullqueue.testing.patching import Patches
from pullqueue.testing.points.footprint import EVERYTHING, Footprint, footprint_of_queue_call
from pullqueue.testing.record import records_of

if TYPE_CHECKING:
    from pullqueue.sdk.rpcs import ServiceCall

_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a call is carried out."""


class Actor(Interrupter):
    """One that makes calls."""

    def __init__(self, name: str, interrupt: type[WorkerInterrupt]) -> None:
        super().__init__(interrupt)
        self.name = name
        self.has_ended = False
        """True once it was ended, after which none of its calls is carried out."""
        self.thread_id = 0
        """Of the last thread that has begun to act for it."""
        self._carrying_out = threading.RLock()

    def end(self) -> NoReturn:
        """End the actor at its current call, and at each that it still makes.

        Calls that its other threads have begun are carried out first.
        """
        with self._carrying_out:
            self.has_ended = True
        super().end()

    def check_alive(self) -> None:
        """End the actor once more if it has ended."""
        if self.has_ended:
            self.end()

    def carry_out(self, point: Point, call_next: Callable[[], object]) -> object:
        """Carry a call out, unless the actor has ended, which waits until the call is made.

        A fetch from the web does not keep the actor from ending: it can lead to another call.
        """
        is_of_web = getattr(point.call, "service", None) == "urlfetch"
        with nullcontext() if is_of_web else self._carrying_out:
            self.check_alive()
            token = _inside.set(True)
            try:
                return call_next()
            finally:
                _inside.reset(token)

    def acting(self) -> AbstractContextManager[None]:
        """Make the calls in the block those of this actor, and those of threads it starts."""
        self.thread_id = threading.get_ident()
        return _acting(self)


@contextmanager
def _acting(actor: Actor | None) -> Iterator[None]:
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


Call: TypeAlias = "QueueCall | ServiceCall | str"
"""A call to a queue or to a service, or what the code under test has passed to `point`."""


class Place(NamedTuple):
    """Where the app's code makes a call."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        path, folder = Path(self.file), Path.cwd()
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        return f"{shown}:{self.line} in {self.function}"


class Point(NamedTuple):
    """One call of an actor."""

    actor: Actor
    call: Call
    place: Place | None

    @property
    def is_of_queue(self) -> bool:
        """True if a queue is called, and not another service."""
        return isinstance(self.call, QueueCall)

    @property
    def footprint(self) -> Footprint:
        """What the call reads and writes."""
        if isinstance(self.call, QueueCall):
            return footprint_of_queue_call(self.call)
        return EVERYTHING

    @property
    def what(self) -> str:
        """What is called, wherever that is."""
        return describe_call(self.call) if isinstance(self.call, QueueCall) else str(self.call)

    def __str__(self) -> str:
        return f"{self.what} ({self.place})" if self.place else self.what


class Run(Protocol):
    """One run of what a test tries; gets the points."""

    @property
    def current(self) -> Actor | None:
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
    _start_usec: int = 0
    """The time at which each run begins."""

    @contextmanager
    def observing(self, *, services: bool) -> Iterator[None]:
        """Pass the points in the block to what is running, and let sleeps move the clock.

        With `services`, calls to bundled services are points, if App Engine's SDK uses the
        emulator. Threads of actors that have ended can outlive the block; their calls fail after
        it, too.
        """
        emulator = self.emulator
        clock, names, earlier = movable_clock(emulator), emulator.names, {*_threads}
        self._start_usec = clock.now_usec()
        try:
            with sleeping(clock, clock.advance), interruptible, ExitStack() as stack:
                stack.enter_context(_following_actors)
                stack.enter_context(emulator.interceptors.installed(self._intercept))
                _trials.append(self)
                stack.callback(_trials.remove, self)
                if services and emulator_of_sdk() is emulator:
                    stack.enter_context(loaded_rpcs().intercepted(self.at_point))
                try:
                    yield
                finally:
                    _close_after_dead(stack.pop_all(), earlier)
        finally:
            emulator.names = names

    def begin(self) -> None:
        """Make the state with which each run begins, at the time at which `observing` began."""
        movable_clock(self.emulator).return_to_usec(self._start_usec)
        self.emulator.reset()
        for record in records_of(self.emulator):
            record.clear()
        self.emulator.names = random_names(0)
        if rpcs := loaded_rpcs():
            rpcs.flush_memcache()
        refuse_lazy(self.setup(), "setup")

    def verify(self) -> BaseException | None:
        """Return why the state after a run is wrong, if it is.

        That is an exception, also that of `pytest.fail`, or an AssertionError if `check` returns
        False.
        """
        if rpcs := loaded_rpcs():
            rpcs.clear_cache()
        pytest = sys.modules.get("pytest")
        failed = (Exception,) if pytest is None else (Exception, pytest.fail.Exception)
        try:
            result = self.check()
        except failed as error:
            return error
        refuse_lazy(result, "check")
        return AssertionError("check returned False") if result is False else None

    def at_point(self, call: Call, call_next: Callable[[], object]) -> object:
        """Pass a call on, unless it is part of another, its actor has ended, or nothing runs."""
        if _inside.get():
            return call_next()
        actor, place = _actor.get(), None
        if actor is None:
            port = getattr(current_caller(), "port", None)
            actor, place = _clients.get(port, (None, None))
        if actor is not None:
            actor.check_alive()
        run = self.running
        if run is not None and actor is None and (actor := run.current) is not None:
            place = _calling_place(sys._current_frames().get(actor.thread_id))  # noqa: SLF001 - documented
        if run is None or actor is None:
            return call_next()
        point = Point(actor, call, place or _calling_place(is_hook=isinstance(call, str)))
        return run.at_point(point, partial(actor.carry_out, point, call_next))

    def _intercept(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb != "attempt":
            return self.at_point(call, call_next)
        if rpcs := loaded_rpcs():
            rpcs.clear_cache()
        run = self.running
        if run is None:
            return call_next()
        send = cast("Callable[[], PushResponse]", call_next)
        return run.at_attempt(cast("PushRequest", call.arguments[0]), send)


_trials: list[Trial] = []


def current_actor() -> Actor | None:
    """Return the actor whose thread this is, if any."""
    return _actor.get()


def point(name: str) -> None:
    """Let `crash_test` and `race_test` stop the code here; do nothing outside of them.

    They see calls to queues and to the services of App Engine's SDK by themselves. Call this before
    each statement or commit of a database of your own, in a hook of the test: whoever calls it can
    be killed there, and, once it was killed, cannot go past it; or another actor can go on.

    `name` is what their reports show, with the place from which the hook was called.
    """
    for trial in tuple(_trials):
        trial.at_point(name, lambda: None)


def emulator_of_sdk() -> Emulator | None:
    """Return the emulator that App Engine's SDK uses, if any."""
    installation: Any = sys.modules.get("pullqueue.sdk.installation")
    emulator: Emulator | None = installation and installation.emulator_in_use()
    return emulator


def loaded_rpcs() -> Any:  # noqa: ANN401 - a module
    """Return `pullqueue.sdk.rpcs`; None: App Engine's SDK was not used."""
    return sys.modules.get("pullqueue.sdk.rpcs")


def _calling_place(frame: FrameType | None = None, *, is_hook: bool = False) -> Place | None:
    """Return where the app makes the current call: its innermost frame, if it has one.

    `frame` is the innermost one of the thread that calls; None: of this thread.

    With `is_hook` that is a hook of the test, and the place is where the app has called the hook.
    """
    place = None
    frame = frame or sys._getframe(1)  # noqa: SLF001 - documented, of CPython
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if module == "pullqueue.testing.crash":
            break  # it runs the actor, in the thread of the test
        if is_of_app(code.co_filename, module):
            place = Place(code.co_filename, frame.f_lineno, code.co_name)
            if not is_hook:
                break
            is_hook = False
        frame = frame.f_back
    return place


@cache
def is_of_app(file: str, module: str) -> bool:
    """Return whether a module is neither of a library nor of Python, by its file and its name."""
    path = Path(file)
    return not (
        module.partition(".")[0] in ("google", "pullqueue", "pytest_pullqueue")
        or path.is_relative_to(Path(os.__file__).parent)  # the standard library
        or {"site-packages", "dist-packages"} & {*path.parts}
    )


_lock = threading.RLock()
_threads: dict[object, Actor] = {}
"""Who has started the threads, and the calls of thread pools, that have not ended."""
_clients: dict[str | None, tuple[Actor, Place | None]] = {}
"""Who has last sent something from a port, and where."""
_left: list[tuple[set[object], ExitStack]] = []
"""What is over, but for these threads of actors that have ended."""


def _close_after_dead(stack: ExitStack, earlier: set[object]) -> None:
    """Close what is over when the last thread of an actor that has ended has ended, too.

    `earlier` are the threads that had begun before it.
    """
    with _lock:
        dead = {thread for thread, actor in _threads.items() if actor.has_ended}
        _left.append((dead - earlier, stack))
        _close_left()


def _close_left() -> None:
    for left in [each for each in _left if not each[0]]:
        _left.remove(left)
        left[1].close()


def _begins(thread_or_future: object, actor: Actor) -> None:
    with _lock:
        _threads[thread_or_future] = actor
        if actor.has_ended:
            for threads, _ in _left:
                threads.add(thread_or_future)


def _has_ended(thread_or_future: object) -> None:
    with _lock:
        _threads.pop(thread_or_future, None)
        for threads, _ in _left:
            threads.discard(thread_or_future)
        _close_left()


def _follow(patches: Patches) -> None:
    patches.at_end(_clients.clear)
    patches.decorate(threading.Thread, "start", _starting)
    patches.decorate(ThreadPoolExecutor, "submit", _submitting)
    for name in ("send", "sendall"):
        patches.decorate(socket.socket, name, _noting)
    patches.decorate(logging.Logger, "handle", _of_living)


_following_actors = Patches(_follow)
"""Notes, in a block, whose threads and connections make calls."""


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def start_thread(thread: threading.Thread) -> None:
        actor, run = _actor.get(), thread.run
        if actor is None:
            start(thread)
            return

        def run_as_actor() -> None:
            try:
                with actor.acting():
                    run()
            except BaseException:
                if not actor.has_ended:
                    raise
            finally:
                _has_ended(thread)

        _begins(thread, actor)
        setattr(thread, "run", run_as_actor)  # noqa: B010 - a method, to mypy
        try:
            start(thread)
        except RuntimeError:
            _has_ended(thread)
            raise

    return start_thread


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(submit)
    def submit_call(
        pool: ThreadPoolExecutor,
        function: Callable[..., Any],
        /,
        *args: object,
        **kwargs: object,
    ) -> Future[Any]:
        actor = _actor.get()
        with _acting(None):  # threads of the pool are nobody's
            future = submit(pool, _of(actor, function), *args, **kwargs)
        if actor is not None:
            _begins(future, actor)
            future.add_done_callback(_has_ended)
        return future

    return submit_call


def _noting(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    def noted(connection: socket.socket, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        actor = _actor.get()
        if actor is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            _clients[str(connection.getsockname()[1])] = actor, _calling_place()
        return send(connection, *args, **kwargs)

    return noted


def _of_living(handle: Callable[..., None]) -> Callable[..., None]:
    """Drop what the dead log, such as where a framework logs each exception with its traceback."""

    @wraps(handle)
    def handle_record(logger: logging.Logger, record: logging.LogRecord) -> None:
        actor = _actor.get()
        if actor is None or not actor.has_ended:
            handle(logger, record)

    return handle_record


def _of(actor: Actor | None, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - as the function
        with _acting(actor):
            return function(*args, **kwargs)

    return run
