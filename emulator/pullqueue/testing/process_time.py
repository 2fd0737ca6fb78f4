"""The time of the whole process: read as the code under test reads it, frozen, and moved.

freezegun and time-machine replace what `time.time()` answers. The clock here follows whichever of
them is active, and moves it; `freeze` starts freezegun where neither is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from pullqueue.clock import Clock, SystemClock, duration_usec, from_usec, to_usec
from pullqueue.errors import ClockError

_UNPATCHED_MODULES = frozenset({"threading", "queue"})
"""They wait by the real time, or a frozen `Queue.get(timeout=1)` would never end."""

_UNPATCHED_PREFIXES = (
    "six.moves",  # to look at it is to import everything in it
    "django.utils.six.moves",
    "google.gax",
    "multiprocessing.",
    "selenium.",
    "prompt_toolkit.",
    "gi.",
    "_pytest.timing",  # pytest measures how long tests really took
    "xdist.",
    "execnet.",
)

_REAL_TIME_CALLERS = ("multiprocessing.", "selenium.", "prompt_toolkit.", "google.gax")
"""Whoever asks for the time from within these is told the real one.

freezegun's own lists hold `queue`, `threading` and `gi` as bare prefixes: code in a module
`queue_worker` or on the first frames of a thread would never see the frozen time.
"""


class MovableClock(Protocol):
    """A clock that tests can move: a `ManualClock`, or the process's time while it is frozen."""

    def now_usec(self) -> int:
        """Give the current instant in microseconds since the epoch."""

    def now(self) -> datetime:
        """Give the current instant as an aware datetime (UTC)."""

    def advance(self, by: float | timedelta) -> datetime:
        """Move forward by seconds or a timedelta and give the new time."""

    def move_to(self, moment: datetime) -> datetime:
        """Move forward to an aware datetime and give it back."""


class ProcessClock(Clock):
    """The time that the process sees, frozen or not; it can be moved while it is frozen."""

    _lock = threading.Lock()  # of the class: all of them move the one time of the process

    def __init__(self) -> None:
        self._system = SystemClock()

    def now_usec(self) -> int:
        """Give the process's time in microseconds since the epoch."""
        frozen = _freezegun_factory()
        if frozen is None:
            return self._system.now_usec()
        # Asked of freezegun itself, which hides the frozen time from code near a thread's start.
        return to_usec(frozen().replace(tzinfo=UTC))

    def advance(self, by: float | timedelta) -> datetime:
        """Move the frozen time forward by seconds or a timedelta and give the new time.

        Raises:
            ClockError: time is not frozen, or `by` is negative or not finite.
        """
        step_usec = duration_usec(by)
        if step_usec < 0:
            raise ClockError(f"cannot advance by {by!r}: a clock never goes back")
        with self._lock:
            return self._move(self.now_usec() + step_usec)

    def move_to(self, moment: datetime) -> datetime:
        """Move the frozen time forward to an aware datetime and give it back.

        Raises:
            ClockError: time is not frozen, or `moment` is naive or lies before its time.
        """
        target_usec = to_usec(moment)
        with self._lock:
            if target_usec < self.now_usec():
                raise ClockError(
                    f"cannot move to {moment.isoformat()}: the clock stands at "
                    f"{self.now().isoformat()} and never goes back"
                )
            return self._move(target_usec)

    def _move(self, target_usec: int) -> datetime:
        try:
            target = from_usec(target_usec)
        except OverflowError:
            raise ClockError("cannot move past the year 9999") from None
        frozen, traveller = _freezegun_factory(), _time_machine_traveller()
        if frozen is not None:
            step = target - frozen().replace(tzinfo=UTC)
            if step:
                frozen.move_to(target)
        elif traveller is not None:
            traveller.shift(target - self.now())
        else:
            raise ClockError(
                "cannot move the clock: time is not frozen; ask for the fixture pullqueue_clock, "
                "or freeze it with freezegun or time-machine first"
            )
        return target

    def __repr__(self) -> str:
        return f"ProcessClock({self.now().isoformat()})"


def is_frozen() -> bool:
    """Tell whether freezegun or time-machine now decides what time it is."""
    return _freezegun_factory() is not None or _time_machine_traveller() is not None


@contextmanager
def freeze(start: datetime) -> Iterator[None]:
    """Freeze the time of the whole process with freezegun, at `start`, until the block ends.

    Event loops keep the real time, so that `asyncio.sleep` ends. Freezers that are started within
    the block and never stopped are stopped with it.

    Raises:
        ImportError: freezegun is not installed.
    """
    api = _freezegun()
    freezer = api.freeze_time(start)
    freezer.ignore = _UNPATCHED_PREFIXES
    depth = len(api.freeze_factories)
    freezer.start()
    api.ignore_lists[-1] = _REAL_TIME_CALLERS
    for module, attribute, original in freezer.undo_changes:
        if module.__name__ in _UNPATCHED_MODULES:
            setattr(module, attribute, original)
    loops, loop_time = _real_loop_time(api.real_monotonic)
    try:
        yield
    finally:
        loops.time = loop_time
        for stack in (api.freeze_factories, api.ignore_lists, api.tick_flags, api.tz_offsets):
            del stack[depth + 1 :]
        freezer.stop()


def _real_loop_time(real_monotonic: Any) -> tuple[Any, Any]:  # noqa: ANN401 - freezegun's own
    """Let event loops go by the real time; give their class and what to put back.

    freezegun can do this too, but makes an event loop each time, and thereby opens sockets.
    """
    from asyncio.base_events import BaseEventLoop  # noqa: PLC0415 - freezegun has loaded it

    loops: Any = BaseEventLoop
    loop_time = loops.time
    loops.time = lambda _loop: real_monotonic()
    return loops, loop_time


def _freezegun() -> Any:  # noqa: ANN401 - a module that is loaded late
    try:
        from freezegun import api  # noqa: PLC0415 - costs 40 ms, and only some need it
    except ImportError:
        message = "freezing time needs freezegun: pip install 'pullqueue[pytest]'"
        raise ImportError(message) from None
    return api


def _freezegun_factory() -> Any:  # noqa: ANN401 - one of three classes of freezegun
    api = sys.modules.get("freezegun.api")
    factories = getattr(api, "freeze_factories", None)
    return factories[-1] if factories else None


def _time_machine_traveller() -> Any:  # noqa: ANN401 - a class of time-machine
    module = sys.modules.get("time_machine")
    # The second name is that of releases before 3.
    stack = getattr(module, "traveller_stack", None) or getattr(module, "coordinates_stack", None)
    return stack[-1] if stack else None
