"""The time of the whole process: read as the code under test reads it, frozen, and moved.

freezegun and time-machine replace what `time.time()` answers. The clock here follows whichever of
them is active, and moves it; `pullqueue.testing.freezing` starts freezegun where neither is.
"""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from pullqueue.clock import Clock, SystemClock, duration_usec, from_usec, to_usec
from pullqueue.errors import ClockError


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


def _freezegun_factory() -> Any:  # noqa: ANN401 - one of three classes of freezegun
    api = sys.modules.get("freezegun.api")
    factories = getattr(api, "freeze_factories", None)
    return factories[-1] if factories else None


def _time_machine_traveller() -> Any:  # noqa: ANN401 - a class of time-machine
    module = sys.modules.get("time_machine")
    # The second name is that of releases before 3.
    stack = getattr(module, "traveller_stack", None) or getattr(module, "coordinates_stack", None)
    return stack[-1] if stack else None
