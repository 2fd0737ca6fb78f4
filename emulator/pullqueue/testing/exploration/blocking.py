"""Actors of `race_test` that are blocked outside their points, such as by a lock of a library."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from time import monotonic, process_time

from pullqueue.testing.exploration.steps import RacingActor
from pullqueue.testing.points import Point
from pullqueue.testing.points.databases.calls import DatabaseCall

_CHECK_SECONDS = 0.05
_BLOCKED_CHECKS = 40
"""An actor that reaches no point during this many checks is blocked."""
_LOCKED_CHECKS = 6
"""The same after a call to a database, in which it waits for a lock of another actor."""
_LEAST_LOCKED_CHECKS = 2
_LOCKED_FACTOR = 10
"""The same after a call that was made before: at least the first, and the second times as long as
it took then."""
_STUCK_FACTOR = 5
"""How much longer it may wait there if nobody else can go on; then the database is only slow."""
_IDLE_CPU_SECONDS = 0.001
_BUSY_CPU_SECONDS = 10.0
"""If nobody else can go on, an actor is stuck if the process uses less CPU time than the first
between checks, or if the actor has used more than the second."""


def wait_for_end(
    ended: threading.Event,
    progress: Callable[[], tuple[int, int]],
    go_on: Callable[[int, bool], None],
) -> None:
    """Wait until a schedule has ended, and call `go_on` where nothing makes progress.

    `progress` returns a number that increases, and after how many checks an actor is blocked that
    has called a database; 0: it has not. `go_on` gets the number, and whether the actor can be
    stuck.
    """
    before, cpu_seconds = -1, 0.0
    quiet = in_time = idle = 0
    busy_seconds = 0.0
    checked = monotonic()
    while not ended.wait(_CHECK_SECONDS):
        is_late = monotonic() - checked > 2 * _CHECK_SECONDS
        checked = monotonic()
        used, cpu_seconds = process_time() - cpu_seconds, process_time()
        number, locked_checks = progress()
        is_quiet, before = before == number, number
        quiet = quiet + 1 if is_quiet else 0
        in_time = in_time + (not is_late) if is_quiet else 0
        if used >= _IDLE_CPU_SECONDS or not is_quiet:
            idle = 0
        elif not is_late:  # or else the machine is too busy to run this process
            idle += 1
        busy_seconds = busy_seconds + used if is_quiet else 0.0
        is_locked = locked_checks and not is_late and in_time == idle == locked_checks
        if is_locked or (quiet and quiet % _BLOCKED_CHECKS == 0):
            most = _BLOCKED_CHECKS * (_STUCK_FACTOR if locked_checks else 1)
            go_on(before, idle >= most or busy_seconds > _BUSY_CPU_SECONDS)


class LastCall:
    """The last call to a database, and how long earlier ones have taken."""

    def __init__(self) -> None:
        self._call: DatabaseCall | None = None
        self._key: object = None  # of a call of which the time is not known yet
        self._begun = 0.0
        self._took: dict[object, float] = {}

    def begin(self, point: Point) -> None:
        """Note a call that is to be made, which need not be to a database."""
        self._call = point.call if isinstance(point.call, DatabaseCall) else None
        self._key, self._begun = self._call and (point.place, point.what), monotonic()

    @property
    def checks(self) -> int:
        """After how many checks who has made it is blocked; 0: it was not to a database."""
        if self._call is None:
            return 0
        checks = ceil(self._took.get(self._key, 1) * _LOCKED_FACTOR / _CHECK_SECONDS)
        return min(max(checks, _LEAST_LOCKED_CHECKS), _LOCKED_CHECKS)

    def end(self, actors: Sequence[RacingActor]) -> None:
        """Return when an actor goes on that it has released, so that each run has it.

        Whether one will is not known: it gets as long as it takes to see that an actor is blocked.
        """
        if self._call is None or self._key is None:
            return
        self._took[self._key], self._key = monotonic() - self._begun, None
        if not self._call.releases:
            return

        def number() -> int:
            return sum(actor.is_blocked for actor in actors)

        pause = threading.Lock()
        pause.acquire()
        before, end = number(), monotonic() + _CHECK_SECONDS * _LOCKED_CHECKS
        while before > 1 and number() == before and monotonic() < end:  # one is who has called
            pause.acquire(timeout=0.001)


def stacks(actors: Iterable[RacingActor]) -> Iterator[str]:
    """Yield where the actors are that are not over."""
    frames = sys._current_frames()  # noqa: SLF001 - documented
    for actor in actors:
        frame = frames.get(actor.thread.ident or 0) if actor.thread else None
        if not actor.is_over and frame is not None:
            stack = "".join(traceback.format_stack(frame)).rstrip().splitlines()
            yield f"{actor.name} is blocked:"
            yield from (f"  {line}" for line in stack)
