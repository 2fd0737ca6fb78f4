"""The points at which tests can stop an actor: its calls to queues and to bundled services.

An actor is a worker, the handler of an attempt, or a function of a test. A call is a point through
whichever interface it is made; what a service calls to carry it out is part of it, such as the adds
of tasks by a commit of the datastore.
"""

from __future__ import annotations

import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, cast
from unittest.mock import patch

from pullqueue.clock import movable_clock
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall, current_caller
from pullqueue.engine.name_source import random_names
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.arguments import refuse_lazy, verify
from pullqueue.testing.clock import sleeping
from pullqueue.testing.describing import describe_call
from pullqueue.testing.interrupt import Interrupter, WorkerInterrupt, interruptible

if TYPE_CHECKING:
    from pullqueue.sdk.rpcs import ServiceCall

__tracebackhide__ = True  # a failed test is shown at its own line

_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a call is carried out."""


class Actor:
    """One that makes calls."""

    def __init__(self, name: str, interrupt: type[WorkerInterrupt]) -> None:
        self.name = name
        self.interrupter = Interrupter(interrupt)
        """Ends it, with this exception."""
        self.has_ended = False
        """True once it was ended, after which none of its calls is carried out."""

    def end(self) -> NoReturn:
        """End the actor at its current call, and at each that it still makes.

        Raises:
            WorkerInterrupt: this is the thread of the call.
            ConnectionCut: this thread carries the call out for a client.
        """
        self.has_ended = True
        self.interrupter.end()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Make the calls in the block those of this actor, and those of threads it starts."""
        token = _actor.set(self)
        try:
            yield
        finally:
            _actor.reset(token)


class Point:
    """One call of an actor."""

    __slots__ = ("actor", "call")

    def __init__(self, actor: Actor, call: QueueCall | ServiceCall) -> None:
        self.actor = actor
        self.call = call

    @property
    def is_of_queue(self) -> bool:
        """True if a queue is called, and not another service."""
        return isinstance(self.call, QueueCall)

    def __str__(self) -> str:
        return describe_call(self.call) if isinstance(self.call, QueueCall) else str(self.call)


class Trial(ABC):
    """Runs what a test has passed, time and again from the same state, and gets the points."""

    def __init__(
        self, emulator: Emulator, *, setup: Callable[[], object], check: Callable[[], object]
    ) -> None:
        self._emulator = emulator
        self._setup = setup
        self._check = check

    @contextmanager
    def observing(self, *, services: bool) -> Iterator[None]:
        """Get the points in the block, and let sleeps move the clock.

        With `services`, calls to bundled services are points, if App Engine's SDK uses the
        emulator.
        """
        emulator = self._emulator
        clock, names = movable_clock(emulator), emulator.names
        try:
            with (
                sleeping(clock, clock.advance),
                interruptible(),
                _points_passed(emulator, self, services=services),
            ):
                yield
        finally:
            emulator.names = names

    def begin(self) -> None:
        """Make the state with which each run begins."""
        self._emulator.reset()
        self._emulator.names = random_names(0)
        refuse_lazy(self._setup(), "setup")

    def verify(self) -> BaseException | None:
        """Return why the state after a run is wrong, if it is."""
        clear_cache()
        return verify(self._check)

    @abstractmethod
    def current(self) -> Actor:
        """Return who makes a call of which neither the thread nor the client is known.

        Clients that do not send by sockets of Python, such as those of gRPC, are not known.
        """

    @abstractmethod
    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Carry out a call, or not, and return its result."""

    @abstractmethod
    def at_attempt(
        self, request: PushRequest, call_next: Callable[[], PushResponse]
    ) -> PushResponse:
        """Send the request of a push task, or not, and return the response."""


def current_actor() -> Actor | None:
    """Return the actor whose thread this is, if any."""
    return _actor.get()


@contextmanager
def _points_passed(emulator: Emulator, trial: Trial, *, services: bool) -> Iterator[None]:
    """Pass the points of a block, and the attempts to send push tasks, to a trial."""
    clients: dict[str | None, Actor] = {}

    def at_point(call: QueueCall | ServiceCall, call_next: Callable[[], object]) -> object:
        if _inside.get():
            return call_next()

        def carry_out() -> object:
            token = _inside.set(True)
            try:
                return call_next()
            finally:
                _inside.reset(token)

        actor = _actor.get() or clients.get(_port_of_client()) or trial.current()
        return trial.at_point(Point(actor, call), carry_out)

    def intercept(call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb != "attempt":
            return at_point(call, call_next)
        send = cast("Callable[[], PushResponse]", call_next)
        return trial.at_attempt(cast("PushRequest", call.arguments[0]), send)

    with ExitStack() as stack:
        stack.enter_context(_threads_of_actors())
        stack.enter_context(_ports_of_actors(clients))
        stack.enter_context(emulator.interceptors.installed(intercept))
        if services and _uses_sdk(emulator):
            from pullqueue.sdk.rpcs import intercepted  # noqa: PLC0415 - the SDK is loaded

            stack.enter_context(intercepted(at_point))
        yield


def _uses_sdk(emulator: Emulator) -> bool:
    installation = sys.modules.get("pullqueue.sdk.installation")
    return installation is not None and installation.emulator_in_use() is emulator


def drop_requests() -> None:
    """Drop what libraries keep in this thread of a request that was killed."""
    if "pullqueue.sdk.rpcs" in sys.modules:
        from pullqueue.sdk import rpcs  # noqa: PLC0415 - is loaded

        rpcs.drop_requests()


def clear_cache() -> None:
    """Clear what libraries have cached in this thread: neither a request nor a check sees it."""
    if "pullqueue.sdk.rpcs" in sys.modules:
        from pullqueue.sdk import rpcs  # noqa: PLC0415 - is loaded

        rpcs.clear_cache()


@contextmanager
def _threads_of_actors() -> Iterator[None]:
    """Make the calls of threads, in the block, those of the actor that has started them."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_thread(thread: threading.Thread) -> None:
        actor = _actor.get()
        if actor is not None:
            setattr(thread, "run", _of(actor, thread.run))  # noqa: B010 - a method, to mypy
        start(thread)

    def submit_call(
        pool: ThreadPoolExecutor,
        function: Callable[..., Any],
        /,
        *args: object,
        **kwargs: object,
    ) -> Future[Any]:
        actor = _actor.get()
        run = function if actor is None else _of(actor, function)
        return submit(pool, run, *args, **kwargs)

    with (
        patch.object(threading.Thread, "start", start_thread),
        patch.object(ThreadPoolExecutor, "submit", submit_call),
    ):
        yield


def _port_of_client() -> str | None:
    caller = current_caller()
    return None if caller is None else caller.port


@contextmanager
def _ports_of_actors(clients: dict[str | None, Actor]) -> Iterator[None]:
    """Keep, in the block, which actor has last sent something from a port."""

    def noting(send: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(send)
        def noted(connection: socket.socket, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            actor = _actor.get()
            if actor is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
                clients[str(connection.getsockname()[1])] = actor
            return send(connection, *args, **kwargs)

        return noted

    with ExitStack() as stack:
        for name in ("send", "sendall"):
            stack.enter_context(
                patch.object(socket.socket, name, noting(getattr(socket.socket, name)))
            )
        yield


def _of(actor: Actor, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - as the function
        with actor.acting():
            return function(*args, **kwargs)

    return run
