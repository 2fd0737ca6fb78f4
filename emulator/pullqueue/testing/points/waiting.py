"""Waits of the app, which end where what would have ended them was killed or stopped."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import wraps
from traceback import walk_stack
from types import FrameType
from typing import Any

from pullqueue.testing.patching import Patches
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import Actor, begun, current_actor
from pullqueue.testing.points.waits import CHECK_SECONDS, Remaining


@Patches
def ending_waits(patches: Patches) -> None:
    """Ends waits of the app, in a block, where what would have ended them was killed or stopped."""
    patches.decorate(threading.Condition, "wait", _waiting)
    patches.decorate(threading.Event, "wait", _waiting_in_steps)
    patches.decorate(threading.Thread, "join", _joining)
    patches.decorate(Future, "result", _awaiting)
    patches.decorate(Future, "exception", _awaiting)
    for name, decorate in (("pause", _pausing), ("sigwait", _awaiting_signal)):
        if hasattr(signal, name):  # not of Windows
            patches.decorate(signal, name, decorate)


def _waiting_actor() -> Actor | None:
    """Return whose thread waits, if the app waits, by an event or a pool, too, and no library."""
    actor = current_actor()
    return actor if actor and _is_called_by_app(sys._getframe(2)) else None  # noqa: SLF001 - documented, of CPython


def _begin(actor: Actor) -> None:
    """Note that this thread waits, unless it was ended."""
    actor.check_alive()
    if actor.worker_threads is not None:
        actor.worker_threads.note_wait()


def _is_called_by_app(frame: FrameType) -> bool:
    """Return whether the app waits; not where it starts a thread, which is not for long."""
    callers = (each for each, _ in walk_stack(frame))
    caller = next((each for each in callers if not _is_between(each)), None)
    return caller is not None and is_frame_of_app(caller)


def _is_between(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    is_block_of_pool = frame.f_code is Executor.__exit__.__code__
    if name == "threading" and frame.f_code.co_name == "start":
        return False
    return name in _BETWEEN or name.startswith(_POINTS) or is_block_of_pool


_BETWEEN = ("concurrent.futures.thread", "queue", "threading")
"""Modules through which the app waits."""
_SKIP_CHECKS = 3
"""How many checks more than one find that a wait is over, as a library can have just begun."""
_POINTS = __name__.rpartition(".")[0]


def _waiting(wait: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(wait)
    def wait_of_living(condition: threading.Condition, timeout: float | None = None) -> bool:
        actor = _waiting_actor()
        if actor is None:
            return wait(condition, timeout)
        with actor.waits.entered(condition, is_timed=timeout is not None):
            _begin(actor)
            is_there = wait(condition, timeout)
        actor.check_alive()
        return is_there

    return wait_of_living


def _waiting_in_steps(wait: Callable[..., bool]) -> Callable[..., bool]:
    """End a wait for an event where its actor skips the time."""

    @wraps(wait)
    def wait_for_event(event: threading.Event, timeout: float | None = None) -> bool:
        actor = None if timeout is None else _waiting_actor()
        if timeout is None or actor is None:
            return wait(event, timeout)
        with actor.waits.entered(is_timed=True):
            _begin(actor)
            checks, remaining = 0, Remaining(timeout)
            while not event.is_set() and (left := remaining.next()) > 0:
                skips = actor.worker_threads is not None and actor.worker_threads.skips()
                checks = checks + 1 if skips else 0
                if checks > _SKIP_CHECKS:
                    break
                wait(event, left)
                actor.check_alive()
        return event.is_set()

    return wait_for_event


def _joining(join: Callable[..., None]) -> Callable[..., None]:
    @wraps(join)
    def join_thread(thread: threading.Thread, timeout: float | None = None) -> None:
        actor = _waiting_actor()
        if actor is None:
            join(thread, timeout)
            return
        with actor.waits.entered(is_timed=timeout is not None):
            _begin(actor)
            join(thread, CHECK_SECONDS if timeout is None else timeout)
            while timeout is None and thread.is_alive():
                actor.check_alive()
                join(thread, CHECK_SECONDS)
        actor.check_alive()

    return join_thread


def _awaiting(await_end: Callable[..., Any]) -> Callable[..., Any]:
    """Note a wait for a call of a pool, which is ended itself."""

    @wraps(await_end)
    def await_call(future: Future[Any], timeout: float | None = None) -> Any:  # noqa: ANN401 - as the method
        actor = _waiting_actor() if future in begun else None
        if actor is None:
            return await_end(future, timeout)
        with actor.waits.entered(is_timed=timeout is not None):
            _begin(actor)
            return await_end(future, timeout)

    return await_call


def _pausing(pause: Callable[[], None]) -> Callable[[], None]:
    @wraps(pause)
    def pause_until_signal() -> None:
        if (actor := _waiting_actor()) is None:
            pause()
            return
        with actor.waits.entered(is_timed=False, needs_signal=True):
            _begin(actor)
            pause()

    return pause_until_signal


def _awaiting_signal(sigwait: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(sigwait)
    def await_signal(signals: Any) -> Any:  # noqa: ANN401 - as the function
        actor = _waiting_actor()
        if actor is None:
            return sigwait(signals)
        with actor.waits.entered(is_timed=False):
            _begin(actor)
            pause = threading.Lock()
            pause.acquire()
            while not signal.sigpending() & {*signals}:
                actor.check_alive()
                pause.acquire(timeout=CHECK_SECONDS)
        return sigwait(signals)

    return await_signal
