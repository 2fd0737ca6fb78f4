"""The threads of a worker that `drain` or `crash_test` runs, and when nothing of it goes on.

A worker can start threads that poll, and wait for a signal that comes in production only. Where the
threads that poll were stopped, and all others wait, it is stopped, too.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from time import process_time
from types import CodeType
from typing import NamedTuple, NoReturn

from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec
from pullqueue.errors import ClockError
from pullqueue.testing.clock import sleeping
from pullqueue.testing.interrupt import IDLE_STEPS, WorkerInterrupt
from pullqueue.testing.place import calling_place
from pullqueue.testing.points.actors import Actor, begun, threads
from pullqueue.testing.points.waits import CHECK_SECONDS, Remaining

_CHECKS = 10
"""How many checks in a row find that nothing of a worker goes on, until it is stopped; threads of
libraries, and those that were just woken, have their turns meanwhile."""
_CHECKS_OF_MAIN = 3
"""The same of its first thread, which was just woken, while another begins a sleep."""
_CHECKS_BESIDE_LIBRARIES = 200
"""The same while a library's thread is in a call, which can end what the worker waits for, and
where a thread has failed."""
_STUCK_CHECKS = 1000
"""The same where its first thread is in a call of which it is not known whether it waits."""
_END_CHECKS = 200
"""How many checks threads that were stopped are waited for."""
_LATE_CHECKS = 50
"""How many checks a sleep of the worker waits for threads that sleep, or have just begun."""
_MOST_MOVES = 100
"""To how many ends of sleeps in a row it moves the clock while threads change nothing."""
_IDLE_CPU_SECONDS = 0.001
"""What the process may use between two checks where nothing goes on."""
_OF_POOLS = "concurrent.futures.thread"
_WAITING = (_OF_POOLS, "queue", "threading")
"""Modules in whose calls threads wait for others."""
_TESTING = __name__.removesuffix(".points.worker_threads")
_SIGNAL: int = getattr(signal, "SIGURG", 0)
"""Interrupts what Python's first thread waits for; it is ignored where nobody handles it. 0: there
is none, as on Windows."""


class WorkerThreads:
    """The threads that an actor has started, beside the one that runs it."""

    def __init__(
        self,
        actor: Actor,
        clock: MovableClock,
        stop: Callable[[], NoReturn],
        has_nothing_to_do: Callable[[], bool],
    ) -> None:
        """`stop` raises what stops a worker."""
        self.in_vain = Counter[int]()
        """How often each thread, by its id, has waited for some time, since the last change."""
        self.stuck = ""
        """Why the worker could only be interrupted."""
        self._actor = actor
        self._clock = clock
        self._stop = stop
        self._has_nothing_to_do = has_nothing_to_do
        self._main = 0
        self._callers: set[object] = set()
        """Threads and calls of pools that have called queues."""
        self._stopped: set[object] = set()
        self._has_stopped = False
        """True once a thread was stopped, or has failed."""
        self._is_stopping = False
        """The same, of one that the worker has started, and since the worker was called."""
        self._has_failed = False
        """True if a thread has failed, which perhaps did not poll, since the worker was called."""
        self._watcher: threading.Thread | None = None
        self._ends = threading.Event()
        self._wakes_usec: dict[int, int] = {}
        """When the sleeps of threads end, by their ids."""
        self._late: set[object] = set()
        """Threads that were waited for in vain, until they wait."""
        self._moves = 0
        """How often the clock was moved to the end of a sleep, since a thread changed something."""
        self._places: dict[int, _ThreadPlace] = {}
        """Where all threads of the process were when the worker was called, by their ids."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the worker in the block, in this thread."""
        self._main = threading.get_ident()
        self._is_stopping = self._has_failed = False
        self._stopped.discard(self._main)
        self._ends = threading.Event()
        self._places = _places()
        is_handled = _SIGNAL and threading.current_thread() is threading.main_thread()
        handler = signal.signal(_SIGNAL, lambda *_: self.check()) if is_handled else None
        try:
            yield
        finally:
            self._stopped.discard(self._main)
            self._ends.set()
            if is_handled:
                signal.signal(_SIGNAL, handler)
            if self._watcher is not None:
                self._watcher.join()
                self._watcher = None

    # -- what its threads call ---------------------------------------------------------------------

    def check(self) -> None:
        """Stop this thread if it has to end."""
        if self._stopped and self._here() in self._stopped:
            self._stop()

    def note_call(self) -> None:
        """Note that this thread calls a queue, and stop it if it has to end."""
        if threading.get_ident() != self._main:
            self.check()
            self._callers.add(self._here())

    def note_change(self) -> None:
        """Note that this thread has changed something."""
        self.in_vain.clear()
        if threading.get_ident() != self._main:
            self._moves = 0

    def note_stop(self) -> None:
        """Note that this thread is stopped; the others have nothing more to do then."""
        self._has_stopped = True
        if threading.get_ident() != self._main and not self._is_stopping:
            self._is_stopping = True
            watcher = threading.Thread(target=self._watch, args=(self._ends,), daemon=True)
            Context().run(watcher.start)
            self._watcher = watcher

    def note_wait(self) -> None:
        """Note that this thread waits."""
        self.in_vain[threading.get_ident()] += 1

    def skips(self) -> bool:
        """Return whether a wait of this thread is over since nothing else goes on meanwhile."""
        return self._is_stopping and self._is_idle_time()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what a thread does in the block."""
        try:
            with sleeping(self._clock, self._sleep, in_tasks=False):
                yield
        except BaseException as error:
            self._has_failed |= not isinstance(error, WorkerInterrupt)
            self.note_stop()
            raise

    def _sleep(self, seconds: float) -> None:
        """Sleep, for real where another thread works, or waits for some time otherwise."""
        ident, remaining = threading.get_ident(), Remaining(seconds)
        self._wakes_usec[ident] = wakes_usec = self._clock.now_usec() + duration_usec(seconds)
        try:
            with self._actor.waits.entered(is_timed=True):
                self._actor.check_alive()
                self.note_wait()
                checks = 0
                while (left := remaining.next()) > 0 and self._clock.now_usec() < wakes_usec:
                    checks = checks + 1 if self._is_next(ident) else 0
                    if checks > self._checks_of_sleep():
                        self._move_to(wakes_usec)
                    if self._is_idle_time():
                        break
                    _pause(left)
                    self._actor.check_alive()
        finally:
            del self._wakes_usec[ident]

    def _is_next(self, ident: int) -> bool:
        """Return whether this sleep ends next: all wait, and other threads sleep at most."""
        waits, wakes_usec = self._actor.waits.outermost(), {**self._wakes_usec}
        others = {*self._running().values()}
        if not {self._main, *others} <= waits.keys():
            return False
        if wakes_usec[ident] != min(wakes_usec.values()) or self._libraries_go_on():
            return False
        return {each for each in others if waits[each].is_timed} <= wakes_usec.keys()

    def _checks_of_sleep(self) -> int:
        """Return how many checks the clock is not moved, as a thread can just have been woken."""
        waits = self._actor.waits.outermost()
        if any(each in waits and waits[each].condition for each in self._running().values()):
            return _CHECKS
        main = waits.get(self._main)
        is_beside_library = any(each.module != _OF_POOLS for each in self._places_of_libraries())
        return _CHECKS_OF_MAIN if is_beside_library or (main and main.condition) else 0

    def sleep_of_main(self, seconds: float) -> None:
        """Move the clock to the end of a sleep of the worker, past those of its threads."""
        end_usec = self._clock.now_usec() + duration_usec(seconds)
        while self._others() and self._moves < _MOST_MOVES:
            self._await_others()
            next_usec = min({**self._wakes_usec}.values(), default=end_usec)
            if next_usec >= end_usec:
                break
            self._moves += 1
            self._move_to(next_usec)
        self._clock.advance(
            min(seconds, max(0, end_usec - self._clock.now_usec()) / USEC_PER_SECOND)
        )

    def _move_to(self, target_usec: int) -> None:
        with suppress(ClockError):  # another thread has moved it further
            self._clock.move_to_usec(target_usec)

    def _await_others(self) -> None:
        """Return when all threads wait, or when one of them has not done so for some time."""
        for _ in range(_LATE_CHECKS):
            waits, now_usec = self._actor.waits.outermost(), self._clock.now_usec()
            late = {
                each
                for each, ident in self._others().items()
                if ident not in waits or self._wakes_usec.get(ident, now_usec + 1) <= now_usec
            }
            self._late &= late
            if late == self._late:
                return
            _pause(CHECK_SECONDS)
        self._late = late

    # -- who goes on -------------------------------------------------------------------------------

    def _running(self) -> dict[object, int]:
        """Return its threads, and calls of pools, that have begun, with the ids of the threads."""
        found = {each: idents for each, idents in [*begun.items()] if idents}
        return {
            each: idents[0] for each, idents in found.items() if threads.get(each) is self._actor
        }

    def _left(self) -> set[object]:
        """Return its threads, and calls of pools, that have not ended; some have not begun."""
        return {each for each in [*begun] if threads.get(each) is self._actor}

    def _others(self) -> dict[object, int]:
        """Return those but this thread."""
        here = threading.get_ident()
        return {each: ident for each, ident in self._running().items() if ident != here}

    def _libraries_go_on(self) -> bool:
        """Return whether a thread that is not the app's is in a call that it has begun since."""
        return any(place.module not in _WAITING for place in self._places_of_libraries())

    def _places_of_libraries(self) -> list[_ThreadPlace]:
        """Return where threads are that are not the app's, and were elsewhere before."""
        known = {threading.get_ident(), self._main, *self._running().values()}
        return [
            place
            for ident, place in _places().items()
            if ident not in known
            and place != self._places.get(ident)
            and not place.module.startswith(_TESTING)
        ]

    def _here(self) -> object:
        ident = threading.get_ident()
        return next((each for each, other in self._running().items() if other == ident), ident)

    def _is_idle_time(self) -> bool:
        """Return whether nothing else goes on while this thread waits, which is often enough."""
        if self.in_vain[threading.get_ident()] > IDLE_STEPS:
            return False
        waits, running = self._actor.waits.outermost(), self._running()
        are_waiting = all(ident in waits for ident in (self._main, *running.values()))
        if not are_waiting or (running and not self._has_nothing_to_do()):
            return False
        return not self._libraries_go_on()

    def _goes_on(self, *, without_main: bool = False) -> bool:
        """Return whether any of its threads can still do something."""
        others = {*self._running().values()}
        idents = others if without_main else {*others, self._main}
        waits = self._actor.waits.outermost()
        if not all(ident in waits for ident in idents):
            return True
        timed = [ident for ident in idents if waits[ident].is_timed]
        are_idle = all(self.in_vain[ident] > IDLE_STEPS for ident in timed)
        return bool(timed) and not (are_idle and (not others or self._has_nothing_to_do()))

    def _watch(self, ends: threading.Event) -> None:
        """Stop the worker, in a thread, when nothing of it goes on."""
        quiet, stuck = 0.0, 0
        place: object = None
        cpu_seconds = 0.0
        while not ends.wait(CHECK_SECONDS):
            is_patient = self._has_failed or self._libraries_go_on()
            checks = _CHECKS_BESIDE_LIBRARIES if is_patient else _CHECKS
            was_quiet, quiet = quiet >= 1, 0.0 if self._goes_on() else quiet + 1 / checks
            if quiet >= 1 and not was_quiet:
                self._end_waits()
            frame = sys._current_frames().get(self._main)  # noqa: SLF001 - documented
            before, place = place, frame and (id(frame), frame.f_lasti)
            used, cpu_seconds = process_time() - cpu_seconds, process_time()
            is_stuck = place == before and used < _IDLE_CPU_SECONDS
            stuck = stuck + 1 if is_stuck and not self._goes_on(without_main=True) else 0
            if stuck == _STUCK_CHECKS:
                self.stuck = (
                    f"the worker waits ({calling_place(frame)}), and its threads have ended: call "
                    "the function of its threads instead"
                )
                self._end_waits()

    def _end_waits(self) -> None:
        wait = self._actor.waits.outermost().get(self._main)
        self._end({self._main})
        is_interruptible = _SIGNAL and self._main == threading.main_thread().ident
        if is_interruptible and (wait is None or wait.needs_signal):
            signal.pthread_kill(self._main, _SIGNAL)

    def _end(self, more: set[object]) -> None:
        """End threads that call queues, or that Python would wait for at its exit."""
        found = self._left()
        is_daemon = {each for each in found if isinstance(each, threading.Thread) and each.daemon}
        self._stopped |= more | (found - is_daemon) | (found & self._callers)
        self._actor.waits.wake()

    def finish(self) -> set[object]:
        """End those that are left of a worker that was stopped; return those that go on."""
        if self._has_stopped:
            self._end(set())
        for _ in range(_END_CHECKS):
            if not (left := self._stopped & self._left()):
                return set()
            _pause(CHECK_SECONDS)
        return left


class _ThreadPlace(NamedTuple):
    """Where a thread is."""

    module: str
    code: CodeType
    instruction: int


def _places() -> dict[int, _ThreadPlace]:
    return {
        ident: _ThreadPlace(str(frame.f_globals.get("__name__")), frame.f_code, frame.f_lasti)
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - documented
    }


def _pause(seconds: float) -> None:
    pause = threading.Lock()
    pause.acquire()
    pause.acquire(timeout=seconds)
