"""Threads and tasks of asyncio that actors of `race_test` start: time ends their sleeps.

From its first sleep on, such a thread is an actor. So a thread that renews leases does that while
its worker sleeps, and another worker can go on before each renewal.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps

from pullqueue.testing.clock import asleep, sleeping
from pullqueue.testing.exploration.steps import RacingActor
from pullqueue.testing.interrupt import current_task
from pullqueue.testing.patching import Patches
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import Awaited, current_actor

_NAMED_BY_TARGET = re.compile(r"Thread-\d+(?: \((.*)\))?")
"""The name of a thread to which the app has given none; its number differs from run to run."""


class ThreadActor(RacingActor):
    """A thread that an actor has started; before its first sleep its calls are the actor's.

    Time does not pass it, as it passes an actor that is slow: it renews leases in time.
    """

    is_thread = True

    def __init__(self, owner: RacingActor, thread: threading.Thread) -> None:
        found = _NAMED_BY_TARGET.fullmatch(thread.name)
        name = f"thread {found[1] or ''}".strip() if found else thread.name
        super().__init__(
            f"{owner.name}, {name}", 0, lambda: None, owner.schedule, key=f"{owner.key}, {name}"
        )
        self.thread = thread
        self._owner = owner
        self._has_turns = threading.Event()
        """Set from its first sleep on, and where it has ended without one."""

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the sleeps in the block, which is what the thread does."""
        try:
            with sleeping(self.schedule.clock, self._sleep):
                yield
        finally:
            self.schedule.leave(self)
            if not self.number:
                self._owner.pass_on()
            self.settled.set()
            self._has_turns.set()

    def _sleep(self, seconds: float) -> None:
        self._begin()
        self.schedule.sleep(self, seconds)

    def await_event(self, event: threading.Event, seconds: float) -> bool:
        """Wait in the thread until an event is set; return False if the time is over."""
        self._begin()
        return self.schedule.wait(self, Awaited(event.is_set, "an event"), max(0, seconds))

    def _begin(self) -> None:
        self.idle_steps += 1
        if not self.number:
            self.schedule.add_thread(self)
            self._has_turns.set()

    def await_end(self, seconds: float) -> bool:
        """Wait in another thread of its actor until it ends; return False if the time is over."""
        if seconds < 0:
            self._has_turns.wait()
        ended = Awaited(lambda: self.is_over, self.name)
        return self.is_over or not self.number or self._owner.wait_for(ended, seconds)


_main_task: ContextVar[object] = ContextVar("main_task", default=None)
"""The task of asyncio that makes the first call; those that it starts later copy its context."""


def is_beside_main_task() -> bool:
    """Return whether this is a task of asyncio that sleeps time and again while its main one does.

    It counts as a thread does: one that renews leases is in time.
    """
    task, main = current_task(), _main_task.get()
    if main is None:
        _main_task.set(task)
        return False
    return task is not main and task in asleep and asleep.get(main, False)


def _followed(thread: threading.Thread) -> ThreadActor | None:
    owner = current_actor()
    found = owner.threads.get(thread) if isinstance(owner, RacingActor) else None
    return found if isinstance(found, ThreadActor) else None


@Patches
def following_threads(patches: Patches) -> None:
    """Makes waits of actors' threads, and for them, end by the clock of the test, in a block."""
    patches.decorate(threading.Thread, "join", _joining)
    patches.decorate(threading.Condition, "wait", _settling)
    patches.decorate(threading.Event, "wait", _waiting)


def _joining(join: Callable[..., None]) -> Callable[..., None]:
    @wraps(join)
    def join_thread(thread: threading.Thread, timeout: float | None = None) -> None:
        found = _followed(thread)
        if found is None or found.await_end(-1 if timeout is None else max(0, timeout)):
            join(thread, timeout)

    return join_thread


def _settling(wait: Callable[..., bool]) -> Callable[..., bool]:
    """Note that a thread waits for its actor, such as at the `get` of a queue."""

    @wraps(wait)
    def wait_for_others(condition: threading.Condition, timeout: float | None = None) -> bool:
        if (found := _followed(threading.current_thread())) is not None:
            found.settled.set()
        return wait(condition, timeout)

    return wait_for_others


def _waiting(wait: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(wait)
    def wait_for_event(event: threading.Event, timeout: float | None = None) -> bool:
        found = None if timeout is None else _followed(threading.current_thread())
        frame = sys._getframe(1)  # noqa: SLF001 - documented, of CPython
        of_app = is_frame_of_app(frame) or frame.f_code is threading.Timer.run.__code__
        if timeout is None or found is None or event.is_set() or not of_app:
            return wait(event, timeout)
        return found.await_event(event, timeout)

    return wait_for_event
