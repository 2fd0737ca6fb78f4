"""Actors of `race_test` that are blocked outside their points, such as by a lock of a library."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic, process_time

from pullqueue.testing.exploration.steps import RacingActor

_CHECK_SECONDS = 0.1
_BLOCKED_CHECKS = 20
"""An actor that reaches no point during this many checks is blocked."""
_LOCKED_CHECKS = 3
"""The same after a call to a database, in which it waits for a lock of another actor."""
_STUCK_FACTOR = 5
"""How much longer it may wait there if nobody else can go on; then the database is only slow."""
_IDLE_CPU_SECONDS = 0.002
_BUSY_CPU_SECONDS = 10.0
"""If nobody else can go on, an actor is stuck if the process uses less CPU time than the first
between checks, or if the actor has used more than the second."""


def wait_for_end(
    ended: threading.Event,
    progress: Callable[[], tuple[int, bool]],
    go_on: Callable[[int, bool], None],
) -> None:
    """Wait until a schedule has ended, and call `go_on` where nothing makes progress.

    `progress` returns a number that increases, and whether the actor has called a database.
    `go_on` gets the number, and whether the actor can be stuck.
    """
    before, cpu_seconds = -1, 0.0
    quiet = idle = 0
    busy_seconds = 0.0
    checked = monotonic()
    while not ended.wait(_CHECK_SECONDS):
        is_late = monotonic() - checked > 2 * _CHECK_SECONDS
        checked = monotonic()
        used, cpu_seconds = process_time() - cpu_seconds, process_time()
        number, in_database = progress()
        is_quiet, before = before == number, number
        quiet = quiet + 1 if is_quiet else 0
        if used >= _IDLE_CPU_SECONDS:
            idle = 0
        elif not is_late:  # or else the machine is too busy to run this process
            idle += 1
        busy_seconds = busy_seconds + used if is_quiet else 0.0
        is_locked = in_database and quiet == idle == _LOCKED_CHECKS
        if is_locked or (quiet and quiet % _BLOCKED_CHECKS == 0):
            most = _BLOCKED_CHECKS * (_STUCK_FACTOR if in_database else 1)
            go_on(before, idle >= most or busy_seconds > _BUSY_CPU_SECONDS)


def await_released(actors: Sequence[RacingActor]) -> None:
    """Return when an actor goes on that the last call has released, so that each run has it.

    Whether one will is not known: it gets as long as it takes to see that an actor is blocked.
    """

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
