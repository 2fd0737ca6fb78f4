"""The time of the whole process: read as the code under test reads it, frozen, and moved.

freezegun and time-machine decide what `time.time()` returns. The clock here follows whichever of
them is active and moves it; `freeze` starts one of them.

Neither library has a public way to find its active freezer, and freezegun none to ask for the real
time, so this module, and no other, reads `freezegun.api.freeze_factories`, its `real_time` and
`time_machine.traveller_stack`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias, get_args

from pullqueue.clock import Clock, MovableClock, SystemClock, from_usec, to_usec
from pullqueue.errors import ClockError

Freezer: TypeAlias = Literal["freezegun", "time-machine"]
"""The library that freezes time, which is also the name of its distribution."""
FreezerChoice: TypeAlias = Literal["auto", "freezegun", "time-machine"]
"""What a user can ask for: one of them, or time-machine where it is installed, else freezegun."""
FREEZER_CHOICES: Final[tuple[FreezerChoice, ...]] = get_args(FreezerChoice)

_REAL_TIME_MODULES = frozenset({"threading", "queue", "subprocess", "_pytest.timing"})
"""Modules whose timeouts would never end in frozen time, and that of pytest's own durations."""

_REAL_TIME_CALLERS = ("multiprocessing.connection",)
"""Beginnings of the names of more modules that get the real time when they, or code that they call
within five frames, ask for it."""

_TOO_BROAD = frozenset({"threading", "queue", "multiprocessing", "gi"})
"""Beginnings in freezegun's own list that would hide the frozen time from modules with names such
as `queue_worker`, and in the first frames of every thread."""


class ProcessClock(MovableClock):
    """The time of the process; it can be moved while it is frozen."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._frozen_usec: int | None = None

    def now_usec(self) -> int:
        """Return the process's time in microseconds since the epoch."""
        freezer = _freezegun_freezer()
        if freezer is None:
            usec = self._system.now_usec()
            self._frozen_usec = usec if _time_machine_traveller() is not None else None
        else:
            # Of the freezer itself, which hides the frozen time from code near a thread's start.
            usec = self._frozen_usec = to_usec(freezer().replace(tzinfo=UTC))
        return usec

    @property
    def last_frozen(self) -> datetime | None:
        """The time that was last seen here, if it was frozen then and no longer is."""
        if self._frozen_usec is None or is_frozen():
            return None
        return from_usec(self._frozen_usec)

    def _move(self, target_usec: int) -> None:
        target = from_usec(target_usec)
        freezer, traveller = _freezegun_freezer(), _time_machine_traveller()
        if freezer is not None:
            if target != freezer().replace(tzinfo=UTC):
                freezer.move_to(target)
        elif traveller is not None:
            traveller.shift(target - self.now())
        else:
            raise ClockError(
                "cannot move the clock: time is not frozen; use the fixture pullqueue_clock, or "
                "freeze it with freezegun or time-machine first"
            )


def freeze(start: datetime, *, freezer: FreezerChoice = "auto") -> AbstractContextManager[None]:
    """Freeze the time of the whole process, at `start`, until the block ends.

    `freezer` is the library that does it, "freezegun" or "time-machine"; "auto" is time-machine
    where it is installed, else freezegun. What measures or waits keeps the real time:
    `time.perf_counter`, event loops of asyncio and trio, timeouts of threads, queues and
    subprocesses, deadlines of Hypothesis and of gRPC. With time-machine, `time.monotonic` does,
    too, but for sleeps that move the clock. Local time is UTC. Those of the same library that are
    started within the block and not stopped are stopped at its end.

    Raises:
        ValueError: there is no such freezer.
        ClockError: `start` is not an aware datetime.
        ImportError: the library is not installed.
    """
    if freezer not in FREEZER_CHOICES:
        raise ValueError(f'freezer is "{freezer}": use one of {", ".join(FREEZER_CHOICES)}')
    if freezer == "auto":
        # Beside freezegun time-machine does not start.
        suits = find_spec("time_machine") is not None and active_freezer() != "freezegun"
        freezer = "time-machine" if suits else "freezegun"
    try:
        library = import_module(freezer.replace("-", "_"))  # takes 40 ms, and only some need it
    except ImportError:
        raise ImportError(f"freezing time needs {freezer}: pip install {freezer}") from None
    run = _freezegun if freezer == "freezegun" else _time_machine
    return run(library, from_usec(to_usec(start)))


@contextmanager
def _time_machine(library: Any, start: datetime) -> Iterator[None]:  # noqa: ANN401 - a module
    depth = len(_travellers())
    # A number: for a datetime, it would set and delete TZ in an environment that `wrap_wsgi_app`
    # may have replaced in between.
    traveller = library.travel(int(start.timestamp()), tick=False)
    with local_time_is_utc(), real_time_for_grpc():
        running = traveller.start()
        try:
            running.shift(timedelta(microseconds=start.microsecond))
            yield
        finally:
            while len(_travellers()) > depth:
                traveller.stop()


@contextmanager
def local_time_is_utc() -> Iterator[None]:
    """Make UTC the local time, as on App Engine, until the block ends."""
    if sys.platform == "win32":  # cannot change it
        yield
        return
    before = os.environ.get("TZ")
    _set_zone("UTC")
    try:
        yield
    finally:
        _set_zone(before)


def _set_zone(name: str | None) -> None:
    """Set TZ in `os.environ` and, should `wrap_wsgi_app` have replaced that, in the process."""
    if name is None:
        os.environ.pop("TZ", None)
        os.unsetenv("TZ")
    else:
        os.environ["TZ"] = name
        os.putenv("TZ", name)
    time.tzset()


@contextmanager
def _freezegun(library: Any, start: datetime) -> Iterator[None]:  # noqa: ANN401 - a module
    freezer = library.freeze_time(start)
    freezer.ignore = (*(x for x in freezer.ignore if x not in _TOO_BROAD), *_REAL_TIME_CALLERS)
    depth = len(_freezers())
    measuring = (time.perf_counter, time.perf_counter_ns)
    if depth == 0:
        _show_cryptography_the_real_datetime()
    with nullcontext() if depth else _real_loop_time():
        try:
            freezer.start()
            if depth == 0:
                time.perf_counter, time.perf_counter_ns = measuring
                for module, name, original in freezer.undo_changes:
                    if original in measuring or module.__name__ in _REAL_TIME_MODULES:
                        setattr(module, name, original)
            with real_time_for_grpc():
                yield
        finally:
            while len(_freezers()) > depth:
                freezer.stop()


@cache
def _show_cryptography_the_real_datetime() -> None:
    """Make cryptography look up the class `datetime`, which it does once in a process.

    Had it found freezegun's, it would refuse all others, those of certificates of the server too.
    """
    with suppress(ImportError):  # is not installed, or a release that looks it up each time
        from cryptography.x509.verification import PolicyBuilder  # noqa: PLC0415 - slow, optional

        PolicyBuilder().time(datetime.now(UTC))  # needs no key


@contextmanager
def _real_loop_time() -> Iterator[None]:
    """Make event loops use the real time, so that `asyncio.sleep` ends.

    freezegun has an option for that, but it makes an event loop each time, which opens sockets:
    suites that forbid sockets would fail.
    """
    import asyncio  # noqa: PLC0415 - freezegun has loaded it

    loops: Any = asyncio.BaseEventLoop
    loop_time, monotonic = loops.time, time.monotonic
    loops.time = lambda _loop: monotonic()
    try:
        yield
    finally:
        loops.time = loop_time


@contextmanager
def real_time_for_grpc() -> Iterator[None]:
    """Return the real time to modules of gRPC, and to no others, that call `time.time()`.

    They compute deadlines from it, which gRPC's core compares with the machine's clock: in time
    that is frozen in the past each call would fail, and in the future none would ever time out.
    """
    frozen_time = time.time

    def time_of_caller() -> float:
        # Kept in a variable, a frame would keep what its callers use, such as cursors.
        caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented, of CPython
        if str(caller).startswith("grpc."):
            return _real_time()
        return float(frozen_time())

    time.time = time_of_caller
    try:
        yield
    finally:
        if time.time is time_of_caller:
            time.time = frozen_time


def _real_time() -> float:
    time_machine, freezegun = sys.modules.get("time_machine"), sys.modules.get("freezegun.api")
    if time_machine is not None and time_machine.escape_hatch.is_travelling():
        return float(time_machine.escape_hatch.time.time())
    return float(freezegun.real_time() if freezegun is not None else time.time())


def frozen_as_last_seen(clock: Clock) -> AbstractContextManager[None]:
    """Freeze time as a clock has last seen it, after a test whose own decorator has frozen it."""
    last = clock.last_frozen if isinstance(clock, ProcessClock) else None
    return nullcontext() if last is None else freeze(last)


def is_frozen() -> bool:
    """Return whether freezegun or time-machine now decides what time it is."""
    return active_freezer() is not None


def active_freezer() -> Freezer | None:
    """Return the library that now decides what time it is; None: neither of them."""
    if _freezegun_freezer() is not None:
        return "freezegun"
    return None if _time_machine_traveller() is None else "time-machine"


def _freezers() -> list[Any]:
    return getattr(sys.modules.get("freezegun.api"), "freeze_factories", [])


def _freezegun_freezer() -> Any:  # noqa: ANN401 - one of three classes of freezegun
    return next(reversed(_freezers()), None)


def _travellers() -> list[Any]:
    module = sys.modules.get("time_machine")
    # The second name is that of releases before 3.
    return getattr(module, "traveller_stack", None) or getattr(module, "coordinates_stack", [])


def _time_machine_traveller() -> Any:  # noqa: ANN401 - a class of time-machine
    return next(reversed(_travellers()), None)
