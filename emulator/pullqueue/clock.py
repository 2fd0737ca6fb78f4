"""Time: the only module that may ask the machine what time it is.

Internally a time is an integer number of microseconds since the Unix epoch; in the public API it is
an aware `datetime`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pullqueue.errors import ClockError, PullQueueError, is_expected_error
from pullqueue.text import is_number, quoted

__tracebackhide__ = is_expected_error

USEC_PER_SECOND = 1_000_000

_EXAMPLE = "datetime(2026, 1, 1, tzinfo=UTC)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_USEC = timedelta(microseconds=1)
FIRST_USEC = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _ONE_USEC
"""The first time that a datetime can represent, at the beginning of the year 1."""
LAST_USEC = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _ONE_USEC
"""The last time that a datetime can represent, at the end of the year 9999."""


def to_usec(value: object) -> int:
    """Return the microseconds since the epoch of an aware datetime.

    Raises:
        ClockError: `value` is not a datetime, or is naive, or is outside the years 1 to 9999 in
            UTC. A naive datetime is a different time on every machine, so none is accepted.
    """
    if not isinstance(value, datetime):
        raise ClockError(
            f"{quoted(value)} is not a datetime: pass an aware one, such as {_EXAMPLE}"
        )
    if value.utcoffset() is None:
        raise ClockError(
            f"{value.isoformat()} has no time zone: pass an aware one, such as {_EXAMPLE}"
        )
    usec = (value - _EPOCH) // _ONE_USEC
    if not FIRST_USEC <= usec <= LAST_USEC:
        raise ClockError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC")
    return usec


def from_usec(usec: int) -> datetime:
    """Return the aware datetime (UTC) of a number of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=usec)


def parse_time(value: object, field_name: str, error: type[PullQueueError]) -> datetime:
    """Return an aware datetime, given as it is or as text of ISO 8601.

    Raises:
        PullQueueError: `error`, if it is not a time, or has no time zone.
    """
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        time = None
    if isinstance(time, datetime) and time.utcoffset() is not None:
        return time
    what = "has no time zone" if isinstance(time, datetime) else "is not a valid time"
    raise error(
        f"{field_name} is {quoted(value)}, which {what}: use one such as 2026-01-01T00:00:00Z"
    )


class Clock(ABC):
    """The source of time of an emulator, passed to it when it is created."""

    @abstractmethod
    def now_usec(self) -> int:
        """Return the current time in microseconds since the epoch."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime (UTC)."""
        return from_usec(self.now_usec())


class MovableClock(Clock):
    """A clock that is moved, such as a `ManualClock`; while an emulator runs, only forward."""

    _lock = threading.RLock()  # one for all: several of them may share one time

    def advance(self, by: float | timedelta) -> datetime:
        """Move forward by seconds or a timedelta and return the new time.

        Raises:
            ClockError: `by` is negative, not a finite number of seconds, or passes the year 9999;
                or the clock cannot be moved now.
        """
        step_usec = duration_usec(by)
        if step_usec < 0:
            raise ClockError(f"cannot advance by {quoted(by)}: a clock never goes back")
        with self._lock:
            return self._checked_move(self.now_usec() + step_usec)

    def move_to(self, target: datetime) -> datetime:
        """Move forward to an aware datetime and return it.

        Raises:
            ClockError: `target` is not an aware datetime, or is before the clock's time; or the
                clock cannot be moved now.
        """
        return self.move_to_usec(to_usec(target))

    def move_to_usec(self, target_usec: int) -> datetime:
        """Move forward like `move_to`, to microseconds since the epoch."""
        with self._lock:
            if target_usec < self.now_usec():
                raise ClockError(
                    f"cannot move to {from_usec(target_usec).isoformat()}: the clock is at "
                    f"{self.now().isoformat()} and never goes back"
                )
            return self._checked_move(target_usec)

    def return_to_usec(self, target_usec: int) -> None:
        """Move to a time that may be past, for a test that runs time and again from the same time.

        Whatever the emulator has stored since then has to be deleted.
        """
        with self._lock:
            self._checked_move(target_usec)

    def _checked_move(self, target_usec: int) -> datetime:
        if target_usec > LAST_USEC:
            raise ClockError("cannot move past the year 9999")
        self._move(target_usec)
        return from_usec(target_usec)

    @abstractmethod
    def _move(self, target_usec: int) -> None:
        """Set the time."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.now().isoformat()})"


class HasClock(Protocol):
    """An emulator, or a queue."""

    @property
    def clock(self) -> Clock:
        """The source of its time."""


def movable_clock(owner: HasClock) -> MovableClock:
    """Return the clock of an emulator or a queue, if it can be moved.

    Raises:
        ClockError: it is the system's clock, or the process's while time is not frozen.
    """
    clock = owner.clock
    if not isinstance(clock, MovableClock):
        raise ClockError(
            f"cannot move the time of {owner}, whose clock is a {type(clock).__name__}: make the "
            "emulator with clock=ManualClock(), or use the fixtures of the pytest plugin"
        )
    clock.advance(0)
    return clock


class SystemClock(Clock):
    """The machine's own time.

    `time.time()` is looked up again at each call, so that libraries which replace it (freezegun,
    time-machine) work.
    """

    def now_usec(self) -> int:
        """Return the machine's current time in microseconds since the epoch."""
        return round(time.time() * USEC_PER_SECOND)


class ManualClock(MovableClock):
    """A clock that moves only by `advance` and `move_to`, and never goes back."""

    DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        """Start at an aware datetime, 2026-01-01T00:00:00Z by default.

        Raises:
            ClockError: `start` is not an aware datetime.
        """
        self._now_usec = to_usec(start)

    def now_usec(self) -> int:
        """Return the time of the clock in microseconds since the epoch."""
        return self._now_usec

    def _move(self, target_usec: int) -> None:
        self._now_usec = target_usec


def duration_usec(duration: float | timedelta) -> int:
    """Return a duration (seconds or a timedelta) in whole microseconds, rounded.

    Raises:
        ClockError: `duration` is not a number of seconds, not finite, or too large for a timedelta.
    """
    if isinstance(duration, timedelta):
        return duration // _ONE_USEC
    if not is_number(duration):
        raise ClockError(f"{quoted(duration)} is not a valid duration: pass seconds or a timedelta")
    try:
        return timedelta(seconds=duration) // _ONE_USEC
    except (OverflowError, ValueError):
        raise ClockError(
            f"{quoted(duration)} is not a valid duration: pass a finite number of seconds"
        ) from None
