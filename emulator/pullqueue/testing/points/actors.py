"""Actors, and which threads and connections are theirs."""

from __future__ import annotations

import atexit
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial, wraps
from io import StringIO
from typing import Any, NamedTuple, NoReturn, cast

from pullqueue.push.request import PushResponse
from pullqueue.testing.interrupt import Interrupter, WorkerInterrupt
from pullqueue.testing.patching import Patches
from pullqueue.testing.place import Place, calling_place, is_frame_of_app
from pullqueue.testing.points.footprint import EVERYTHING, Footprint
from pullqueue.testing.points.strands import (
    Strand,
    Strands,
    acting_as,
    current_strand,
    name_strand,
    note_end,
    note_shutdown,
)

_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a call is carried out."""
_of_thread = threading.local()
"""`starters` are the ids of the threads that have started this one, or submitted what it does; code
that it runs can have the context of another one."""


class Awaited(NamedTuple):
    """What an actor waits for, such as a lock."""

    is_there: Callable[[], bool]
    """Returns whether the actor can go on."""
    name: str = "a lock"
    is_patient: bool = False
    """True if the time to wait for it passes only where nobody else can go on."""


class Actor(Interrupter):
    """One that makes calls."""

    can_wait = False
    """True if others can go on while it waits for a lock."""

    def __init__(self, name: str, interrupt: type[WorkerInterrupt]) -> None:
        super().__init__(interrupt)
        self.name = name
        self.has_ended = False
        """True once it was ended, after which none of its calls is carried out."""
        self.strands = Strands()
        self.waits: list[threading.Condition] = []
        """What its threads wait for, in code of the app."""
        self.thread_id = 0
        """Of the last thread that has begun to act for it."""
        self.held: list[Callable[[], None]] | None = None
        """What of its log is printed where its run fails; None: that is printed at once."""
        self.response: PushResponse | None = None
        """What it has sent, so that its task is not retried if it ends after that."""
        self.hides_response = False
        """True if it is not known when it has sent one, but where its request ends."""
        self.noted = 0
        """How many calls and connections it has made."""
        self._carrying_out = threading.RLock()

    def end(self) -> NoReturn:
        """End the actor at its current call, and at each that it still makes.

        Calls that its other threads have begun are carried out first.
        """
        with self._carrying_out:
            self.has_ended = True
        for condition in [*self.waits]:
            _wake(condition)
        super().end()

    def check_alive(self) -> None:
        """End the actor once more if it has ended."""
        if self.has_ended:
            self.end()

    def note(self, footprint: Footprint) -> None:
        """Note what it reads and writes beside its calls."""

    def note_call(self, footprint: Footprint, place: str) -> None:
        """Note a call that it makes, and where; a crash shows which of two writes was first."""
        if footprint.writes:
            self.strands.note(EVERYTHING, place)

    def wait_for(self, awaited: Awaited, seconds: float) -> bool:  # noqa: ARG002 - of those that can
        """Return when that is there; False: the time is over; less than 0 is forever."""
        return awaited.is_there()

    def follow(self, thread: threading.Thread) -> AbstractContextManager[None]:  # noqa: ARG002 - of those that have turns
        """Return a context manager that follows a thread which it starts."""
        return nullcontext()

    def await_thread(self, thread: threading.Thread) -> None:
        """Return when a thread that it has started waits or has ended."""

    def pass_on(self) -> None:
        """Pass the turn to its other threads: this one has ended, or waits for one of them."""

    def settle(self) -> None:
        """Note that this thread waits, if the actor has started it."""

    @property
    def is_calling(self) -> bool:
        """True if another of its threads carries a call out."""
        if self._carrying_out.acquire(blocking=False):
            self._carrying_out.release()
            return False
        return True

    def carry_out(self, call: object, call_next: Callable[[], object]) -> object:
        """Carry a call out, unless the actor has ended, which waits until the call is made.

        A fetch from the web does not keep the actor from ending: it can lead to another call.
        """
        is_of_web = getattr(call, "service", None) == "urlfetch"
        with nullcontext() if is_of_web else self._carrying_out:
            self.check_alive()
            self.noted += 1
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


def current_actor() -> Actor | None:
    """Return the actor whose thread this is, if any."""
    return _actor.get()


def started_by() -> tuple[int, ...]:
    """Return the ids of the actor's threads that have led to this one, one starting the next."""
    starters: tuple[int, ...] = getattr(_of_thread, "starters", ())
    return starters


def is_carried_out() -> bool:
    """Return whether this is part of a call that is carried out."""
    return _inside.get()


def caller(port: str | None) -> tuple[Actor | None, Place | None]:
    """Return whose thread this is, or who has last sent something from a port, and where."""
    actor = _actor.get()
    if actor is not None or port not in _clients:
        return actor, None
    actor, place, server = _clients[port]
    served.add(server)
    return actor, place


def _wake(condition: threading.Condition) -> None:
    """Wake who waits, in a thread, since this one, or another that goes on, can have the lock."""

    def notify() -> None:
        with condition:
            condition.notify_all()

    with _acting(None):
        threading.Thread(target=notify, daemon=True).start()


_SUBMITTING = frozenset({"asyncio.base_events", "concurrent.futures._base"})
"""Modules that submit calls to pools for the app: `to_thread`, and `map`."""
_lock = threading.RLock()
threads: dict[object, Actor] = {}
"""Who has started the threads, and the calls of thread pools, that have not ended."""
begun: dict[object, list[int]] = {}
"""Those of them that the app has started itself, and calls of pools, with the id of the thread."""
_clients: dict[str | None, tuple[Actor, Place | None, int]] = {}
"""Who has last sent something from a port, where, and to which port."""
served: set[int] = set()
"""The ports of servers of this process, at which calls of actors are points."""
_left: list[tuple[set[object], ExitStack]] = []
"""What is over, but for these threads of actors that have ended."""


def close_after_dead(stack: ExitStack, earlier: set[object]) -> None:
    """Close what is over when the last thread of an actor that has ended has ended, too.

    `earlier` are the threads that had begun before it.
    """
    with _lock:
        dead = {thread for thread, actor in threads.items() if actor.has_ended}
        _left.append((dead - earlier, stack))
        _close_left()


@atexit.register
def _close_at_exit() -> None:
    """Close what is left while there still are the modules that it needs."""
    with _lock:
        for left, _ in _left:
            left.clear()
        _close_left()


def _close_left() -> None:
    for left in [each for each in _left if not each[0]]:
        _left.remove(left)
        left[1].close()


def _begins(thread_or_future: object, actor: Actor) -> None:
    with _lock:
        threads[thread_or_future] = actor
        if actor.has_ended:
            for left, _ in _left:
                left.add(thread_or_future)


def _has_ended(thread_or_future: object) -> None:
    with _lock:
        threads.pop(thread_or_future, None)
        begun.pop(thread_or_future, None)
        for left, _ in _left:
            left.discard(thread_or_future)
        _close_left()


@Patches
def following_actors(patches: Patches) -> None:
    """Notes, in a block, whose threads and connections make calls."""
    patches.at_end(_clients.clear)
    patches.decorate(threading.Thread, "start", _starting)
    patches.decorate(ThreadPoolExecutor, "submit", _submitting)
    for name in ("send", "sendall"):
        patches.decorate(socket.socket, name, _noting)
    patches.decorate(logging.Handler, "handle", _of_living)


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def start_thread(thread: threading.Thread) -> None:
        actor, run = _actor.get(), thread.run
        if actor is None:
            start(thread)
            return
        of_app = is_frame_of_app(sys._getframe(1))  # noqa: SLF001 - documented, of CPython
        following = actor.follow(thread) if of_app else nullcontext()
        starters, idents = (*started_by(), threading.get_ident()), list[int]()
        if of_app:
            begun[thread] = idents
            name_strand(strand := actor.strands.begin(), thread)
        else:
            strand = None

        def run_as_actor() -> None:
            _of_thread.starters = starters
            idents.append(threading.get_ident())
            try:
                with actor.acting(), acting_as(strand), following:
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
        actor.await_thread(thread)

    return start_thread


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(submit)
    def submit_call(
        pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: object, **kwargs: object
    ) -> Future[Any]:
        actor = _actor.get()
        idents: list[int] = []
        frame = sys._getframe(1)  # noqa: SLF001 - documented, of CPython
        is_new = is_frame_of_app(frame) or frame.f_globals.get("__name__") in _SUBMITTING
        strand = actor.strands.begin() if actor and is_new else current_strand()
        with _acting(None):  # threads of the pool are nobody's
            future = submit(pool, _of(actor, function, idents, strand), *args, **kwargs)
        if is_new and strand is not None:
            name_strand(strand, future, pool)
        if actor is not None:
            begun[future] = idents
            _begins(future, actor)
            future.add_done_callback(_has_ended)
        return future

    return submit_call


def _noting(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    def noted(connection: socket.socket, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        actor = _actor.get()
        if actor is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            actor.settle()
            server = connection.getpeername()[1]
            _clients[str(connection.getsockname()[1])] = actor, calling_place(), server
        return send(connection, *args, **kwargs)

    return noted


def _of_living(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Drop what the dead log, such as where a framework logs each exception with its traceback."""

    @wraps(handle)
    def handle_record(handler: logging.Handler, record: logging.LogRecord) -> Any:  # noqa: ANN401 - as the method
        actor = _actor.get()
        if actor is not None and actor.has_ended:
            return False
        if actor is None or actor.held is None:
            return handle(handler, record)
        if record.exc_info and record.exc_info[1]:  # whose frames keep connections open
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = cast("Any", (record.exc_info[0], None, None))
        if not _is_printing(handler):
            return handle(handler, record)
        actor.held.append(partial(handle, handler, record))
        return record

    return handle_record


def _is_printing(handler: logging.Handler) -> bool:
    """Return whether a handler only shows records, so that the test does not read them from it."""
    if not isinstance(handler, logging.StreamHandler) or isinstance(handler, logging.FileHandler):
        return False
    if type(handler).__module__ == "_pytest.logging":
        return handler.name != "caplog"  # which the plugin sets
    return not isinstance(handler.stream, StringIO)


@Patches
def following_ends(patches: Patches) -> None:
    """Notes, in a block, who waits for the end of a thread or of a pool, and passes its turn on."""
    patches.decorate(threading.Thread, "join", _awaiting)
    patches.decorate(Future, "result", _awaiting)
    patches.decorate(Future, "exception", _awaiting)
    patches.decorate(ThreadPoolExecutor, "shutdown", _shutting_down)


def _awaiting(await_end: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(await_end)
    def await_noted(
        awaited: threading.Thread | Future[Any],
        timeout: float | None = None,
    ) -> Any:  # noqa: ANN401 - as the method
        if awaited in begun:
            _pass_on()
        try:
            return await_end(awaited, timeout)
        finally:
            if awaited.done() if isinstance(awaited, Future) else not awaited.is_alive():
                note_end(awaited)

    return await_noted


def _shutting_down(shutdown: Callable[..., None]) -> Callable[..., None]:
    @wraps(shutdown)
    def shut_down(pool: ThreadPoolExecutor, wait: bool = True, **options: bool) -> None:  # noqa: FBT001, FBT002 - as the method
        if wait:
            _pass_on()
        shutdown(pool, wait, **options)
        if wait:
            note_shutdown(pool)

    return shut_down


def _pass_on() -> None:
    if (actor := _actor.get()) is not None:
        actor.pass_on()


def _of(
    actor: Actor | None,
    function: Callable[..., Any],
    idents: list[int],
    strand: Strand | None,
) -> Callable[..., Any]:
    starters = *started_by(), threading.get_ident()

    def run(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - as the function
        _of_thread.starters, before = starters, started_by()
        idents.append(threading.get_ident())
        try:
            with _acting(actor), acting_as(strand):
                try:
                    return function(*args, **kwargs)
                finally:
                    if actor is not None:
                        actor.pass_on()
                        if actor.has_ended:
                            _drop_requests()
        finally:
            _of_thread.starters = before

    return run


def _drop_requests() -> None:
    """Drop what ndb keeps in this thread of a pool, which goes on with other calls."""
    if rpcs := sys.modules.get("pullqueue.sdk.rpcs"):
        rpcs.drop_requests()
