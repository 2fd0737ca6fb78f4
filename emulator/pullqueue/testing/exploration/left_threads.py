"""Threads that a handler of `crash_test` starts, and may leave behind when it responds.

What they do while nobody waits for them is done after the response, so that the order is the same
in each run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import wraps
from traceback import walk_stack
from types import FrameType

from pullqueue.testing.patching import Patches
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import Actor, begun, current_actor, started_by, threads
from pullqueue.testing.points.responses import is_handling

_CHECK_SECONDS = 0.001
_MOST_CHECKS = 1000
"""How many checks a thread is waited for that goes on, or whose handler does: a second, or more
where the machine is busy, so that those have their turns meanwhile."""
_WAITS = 20
"""How many checks in a row find who has started a thread waiting, until it waits for that one."""
_IDLES = 100
"""How many checks find all threads of a handler waiting, as for work, until that is over; threads
of libraries that they wait for, as of the SDK, have their turns meanwhile."""
_AWAITING = {each.__code__ for each in (threading.Thread.join, Future.result, Future.exception)}
"""What waits for the end of `self`, of a thread or future."""


def await_response(actor: Actor) -> None:
    """In a thread that an actor has started: return when it has responded, or waits for this one.

    For this one by `join` or `result`; or else many times in a row at the same place: a loop waits
    for threads of libraries, too.
    """
    starters, waits = started_by(), dict[object, int]()
    own = {each for each, idents in [*begun.items()] if threading.get_ident() in idents}
    if is_handling() and not own:
        return  # this thread is to respond
    own.add(threading.current_thread())
    for _ in range(_MOST_CHECKS if starters else 0):
        if actor.response is not None or actor.has_ended:
            return
        if len(starters) == 1 and _is_awaiting(starters[0], own):
            return
        is_calling = actor.is_calling  # it waits for that
        places = [] if is_calling else [_waiting_at(each, is_of_app=True) for each in starters]
        waits = {place: waits.get(place, 0) + 1 for place in places if place}
        if _WAITS in waits.values():
            return
        _pause()


def await_threads(actor: Actor) -> bool:
    """Return when the threads of an actor have ended; False: they go on, or wait for something."""
    before: list[object] = []
    idle = 0
    for _ in range(_MOST_CHECKS):
        left = [idents for each, idents in [*begun.items()] if threads.get(each) is actor]
        if not left:
            return True
        places = [ids and _waiting_at(ids[0]) for ids in left]
        idle = idle + 1 if all(places) and places == before else 0
        before = [*places]
        if idle == _IDLES:
            break
        _pause()
    return False


def _is_awaiting(ident: int, awaited: Collection[object]) -> bool:
    """Return whether a thread waits for the end of a thread or future of these, however long."""
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - documented
    frames = [each for each, _ in walk_stack(frame)] if frame else []
    found = [each.f_locals for each in frames if each.f_code in _AWAITING]
    return any(each["timeout"] is None and each["self"] in awaited for each in found)


@Patches
def ending_waits(patches: Patches) -> None:
    """Ends waits of the app, in a block, where a thread was killed that would have ended them."""
    patches.decorate(threading.Condition, "wait", _ending)


def _ending(wait: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(wait)
    def wait_of_living(condition: threading.Condition, timeout: float | None = None) -> bool:
        actor = current_actor()
        if actor is None or not _is_called_by_app(sys._getframe(1)):  # noqa: SLF001 - documented, of CPython
            return wait(condition, timeout)
        actor.waits.append(condition)
        try:
            actor.check_alive()
            is_there = wait(condition, timeout)
        finally:
            actor.waits.remove(condition)
        actor.check_alive()
        return is_there

    return wait_of_living


def _is_called_by_app(frame: FrameType) -> bool:
    """Return whether the app waits, by an event or a queue, too, and not a library."""
    callers = (each for each, _ in walk_stack(frame))
    modules = ("queue", "threading")
    caller = next((each for each in callers if each.f_globals.get("__name__") not in modules), None)
    return caller is not None and is_frame_of_app(caller)


def _pause() -> None:
    threading.Event().wait(_CHECK_SECONDS)


def _waiting_at(ident: int, *, is_of_app: bool = False) -> tuple[int, int] | None:
    """Return where a thread waits for others, if it does, and code of the app with `is_of_app`.

    A loop of asyncio that waits has code of the app that is not on its stack.
    """
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - documented
    if frame is None:
        return None
    place, module = (id(frame), frame.f_lasti), frame.f_globals.get("__name__")
    if module == "selectors":
        return None if frame.f_locals.get("timeout") == 0 else place
    if module != "threading":
        return None
    frames = [each for each, _ in walk_stack(frame)]
    calls = [(each.f_globals.get("__name__"), each.f_code.co_name) for each in frames]
    if ("threading", "start") in calls:
        return None  # it waits for the thread to begin
    return place if not is_of_app or any(map(is_frame_of_app, frames)) else None
