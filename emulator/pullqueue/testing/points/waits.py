"""What the threads of an actor wait for, in code of the app."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from time import monotonic
from typing import NamedTuple, Protocol

CHECK_SECONDS = 0.01
"""How often a thread that waits, and that nobody can wake, looks whether it was ended."""


class Remaining:
    """What is left of a wait, in steps; it is counted, too, as freezegun stops the clock."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self._left = seconds

    def next(self) -> float:
        """Return how long the next step is; 0: the wait is over."""
        step = max(0.0, min(CHECK_SECONDS, self._left, self._end - monotonic()))
        self._left -= step
        return step


class Wait(NamedTuple):
    """What one thread waits for."""

    ident: int
    """Of the thread."""
    condition: threading.Condition | None
    """None: it looks by itself whether it was ended."""
    is_timed: bool
    """True if it goes on by itself."""
    needs_signal: bool = False
    """True if only a signal ends it."""


class Waits:
    """Those of one actor."""

    def __init__(self) -> None:
        self._all: list[Wait] = []

    @contextmanager
    def entered(
        self,
        condition: threading.Condition | None = None,
        *,
        is_timed: bool,
        needs_signal: bool = False,
    ) -> Iterator[None]:
        """Note that this thread waits in the block."""
        wait = Wait(threading.get_ident(), condition, is_timed, needs_signal)
        self._all.append(wait)
        try:
            yield
        finally:
            self._all.remove(wait)

    def outermost(self) -> dict[int, Wait]:
        """Return for what each thread waits, by its id; a wait can consist of others."""
        return {each.ident: each for each in reversed([*self._all])}

    def wake(self) -> None:
        """Wake all, each of which looks then whether it was ended."""
        for wait in [*self._all]:
            if wait.condition is not None:
                _wake(wait.condition)


def _wake(condition: threading.Condition) -> None:
    """Wake who waits, in a thread, since this one, or another that goes on, can have the lock."""

    def notify() -> None:
        with condition:
            condition.notify_all()

    # Nobody's thread, as an empty context has no actor.
    Context().run(threading.Thread(target=notify, daemon=True).start)


class StoppableThreads(Protocol):
    """The threads of an actor that can be stopped, and not only killed."""

    def check(self) -> None:
        """Stop this thread if it has to end."""

    def note_wait(self) -> None:
        """Note that this thread waits."""

    def skips(self) -> bool:
        """Return whether a wait of this thread is over since nothing else goes on meanwhile."""

    def following(self) -> AbstractContextManager[None]:
        """Return a context manager that follows what a thread does."""
