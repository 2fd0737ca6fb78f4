"""Ending a worker at each of its calls, to see whether another can take over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

from pullqueue.clock import movable_clock
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.name_source import random_names
from pullqueue.errors import DeadlineExceededError
from pullqueue.testing.arguments import check_is_emulator, refuse_lazy
from pullqueue.testing.clock import expire_leases, sleeping
from pullqueue.testing.describing import describe, describe_call
from pullqueue.testing.drain import Worker, drain
from pullqueue.testing.interrupt import Interrupter, WorkerKilled, interruptible
from pullqueue.testing.run_tasks import App, SendFunction

__tracebackhide__ = True  # a failed test is shown at its own line


class Crash(Enum):
    """What happens to a worker at one of its calls."""

    BEFORE = "killed before call"
    """The call is not made."""
    AFTER = "killed after call"
    """The call is carried out, and the worker does nothing more."""
    ANSWER_LOST = "answer lost of call"
    """The call is carried out, but the worker gets a DeadlineExceededError, and may go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashFailure:
    """A crash that leads to a wrong state."""

    crash: Crash
    call_number: int
    """Which of the worker's calls, the first being 1."""
    calls: tuple[str, ...]
    """The calls of the worker up to the crash, that one included."""
    error: BaseException
    """What `check` or the worker that took over raised."""
    state: str
    """The state of the queues after that, with their events."""

    def __str__(self) -> str:
        number = self.call_number
        lines = [f"{self.crash.value} {number}, {self.calls[-1]}:"]
        lines += _indented(f"{type(self.error).__name__}: {self.error}")
        lines.append("  calls until then:")
        lines += [f"    {n}. {call}" for n, call in enumerate(self.calls, start=1)]
        return "\n".join([*lines, *_indented(self.state)])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


class CrashTestError(AssertionError):
    """crashes of the worker lead to a wrong state; `.failures` has them"""

    def __init__(self, failures: list[CrashFailure], points: int) -> None:
        self.failures = failures
        head = f"crash_test: the worker does not survive {len(failures)} of {points} crashes"
        super().__init__("\n\n".join([head, *map(str, failures)]))


def crash_test(
    emulator: Emulator,
    worker: Worker,
    *,
    setup: Callable[[], object],
    check: Callable[[], object],
    app: App | None = None,
    send: SendFunction | None = None,
    deferred: bool = False,
    max_calls: int = 1000,
) -> int:
    """Check that a worker survives a crash at any of its calls, and every redelivery.

    For each crash the queues are emptied, `setup` fills them (and resets the app), and the worker
    runs as in `drain`. Each time it is killed at another of its calls: before it, after it, or with
    the response lost. Its leases expire, a new worker does the rest, and `check` is called: it
    raises, or returns False, if the state is wrong. The first run is without a crash.

    With `app`, `send` or `deferred`, as in `run_tasks`, push tasks are sent as well, before and
    after the crash. The worker is killed at its adds of push tasks, too, but not in a handler.

    Return the number of crashes. Calls of a killed worker have no effect, so what it does
    while it ends (`finally`) does not change the queues.

    Raises:
        CrashTestError: after some crashes `check` fails, or the worker that takes over does.
        AssertionError: `check` fails without any crash, `setup` leaves no task, or the worker
            makes no call.
        ClockError: the clock cannot be moved.
        TypeError: `emulator` is not one, or one of the functions is asynchronous or a generator.
    """
    check_is_emulator(emulator)
    run = partial(drain, emulator, app=app, send=send, deferred=deferred, max_calls=max_calls)
    trial = _Trial(emulator=emulator, worker=worker, setup=setup, check=check, run=run)
    clock, names = movable_clock(emulator), emulator.names
    try:
        with interruptible(), sleeping(clock, clock.advance):
            trial.without_crash()
            failures = [failure for failure in trial.crashes() if failure is not None]
    finally:
        emulator.names = names
    if failures:
        raise CrashTestError(failures, trial.points) from failures[0].error
    return trial.points


@dataclass(kw_only=True, slots=True)
class _Trial:
    """One run of `crash_test`."""

    emulator: Emulator
    worker: Worker
    setup: Callable[[], object]
    check: Callable[[], object]
    run: Callable[[Worker], int]
    """`drain`, with the options of the test."""
    points: int = 0
    """Number of crashes."""

    def without_crash(self) -> None:
        """Run the worker without a crash."""
        self._begin()
        counter = _CrashInjector(Crash.BEFORE, call_number=0)
        with self.emulator.interceptors.installed(counter):
            runs = self._run()
        if not runs:
            raise AssertionError(
                "crash_test: setup left no task in a pull queue, so the worker was not called: "
                "add at least one, since the worker runs until the queues are empty"
            )
        if not counter.calls:
            raise AssertionError("crash_test: the worker makes no call to a queue")
        self._verify()

    def crashes(self) -> Iterator[CrashFailure | None]:
        """Crash it at each of its calls, in each way; yield the failure of each, if any."""
        number = 1
        while True:
            for crash in Crash:
                injector = _CrashInjector(crash, call_number=number)
                error = self._crash(injector)
                if not injector.triggered:
                    return
                self.points += 1
                yield self._failure(injector, error)
            number += 1

    def _crash(self, injector: _CrashInjector) -> Exception | None:
        self._begin()
        try:
            self._run_first_worker(injector)
            if injector.triggered:
                expire_leases(self.emulator)
                self._run()
                self._verify()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a failure
            return error
        return None

    def _run_first_worker(self, injector: _CrashInjector) -> None:
        try:
            with injector.interrupter.ending(), self.emulator.interceptors.installed(injector):
                self._run(injector)
        except Exception:
            # A lost response is an error to the worker, which may end it like a crash.
            if not (injector.triggered and injector.crash is Crash.ANSWER_LOST):
                raise

    def _begin(self) -> None:
        self.emulator.reset()
        self.emulator.names = random_names(0)
        refuse_lazy(self.setup(), "setup")

    def _run(self, injector: _CrashInjector | None = None) -> int:
        def work() -> object:
            if injector is not None:
                injector.check_alive()
            return self.worker()

        return self.run(work)

    def _verify(self) -> None:
        result = self.check()
        refuse_lazy(result, "check")
        if result is False:
            raise AssertionError("check returned False")

    def _failure(self, injector: _CrashInjector, error: Exception | None) -> CrashFailure | None:
        if error is None:
            return None
        return CrashFailure(
            crash=injector.crash,
            call_number=injector.call_number,
            calls=tuple(injector.calls),
            error=error,
            state=describe(self.emulator),
        )


class _CrashInjector:
    """An interceptor that ends the worker at one of its calls."""

    def __init__(self, crash: Crash, *, call_number: int) -> None:
        self.crash = crash
        self.call_number = call_number
        self.calls: list[str] = []
        self.triggered = False
        self.interrupter = Interrupter(WorkerKilled)
        self._dead = False
        self._in_handler = False

    def check_alive(self) -> None:
        """Raise if the worker was killed, also if that ended only a thread that it started.

        Raises:
            WorkerKilled: it is.
        """
        if self._dead:
            raise WorkerKilled

    def __call__(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb == "attempt":
            return self._pass_on(call_next)
        if self._in_handler:
            return call_next()
        if self._dead:
            self.interrupter.end()
        if not self.triggered:
            self.calls.append(describe_call(call))
        if self.triggered or len(self.calls) != self.call_number:
            return call_next()
        self.triggered = True
        self._dead = self.crash is not Crash.ANSWER_LOST
        if self.crash is not Crash.BEFORE:
            call_next()
        if self._dead:
            self.interrupter.end()
        raise DeadlineExceededError(f"the response to {self.calls[-1]} is lost")

    def _pass_on(self, call_next: Callable[[], object]) -> object:
        """Send a push task: the calls of its handler are not those of the worker."""
        self._in_handler = True
        try:
            return call_next()
        finally:
            self._in_handler = False
