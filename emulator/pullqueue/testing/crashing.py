"""Killing a worker at each of its calls, to see whether another can take over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.names import random_names
from pullqueue.errors import DeadlineExceededError
from pullqueue.testing.describing import describe
from pullqueue.testing.driving import Worker, drain
from pullqueue.testing.interception import Leash, WorkerInterrupt, describe_call
from pullqueue.testing.moving import expire_leases


class WorkerKilled(WorkerInterrupt):
    """ends a worker as a crash of its machine would; `crash_test` swallows it"""


class Crash(Enum):
    """What happens to a worker at one of its calls."""

    BEFORE = "killed before call"
    """The call is not made."""
    AFTER = "killed after call"
    """The call is done, and the worker is gone before it does anything else."""
    ANSWER_LOST = "answer lost of call"
    """The call is done, but the worker gets a DeadlineExceededError, and may live on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashFailure:
    """A crash that the worker did not survive well."""

    crash: Crash
    call_number: int
    """Which of the worker's calls, the first being 1."""
    calls: tuple[str, ...]
    """The calls of the worker up to the crash, that one included."""
    error: BaseException
    """What `check` or the worker that took over raised."""
    state: str
    """The queues after that, and what had happened in them."""

    def __str__(self) -> str:
        number = self.call_number
        lines = [f"{self.crash.value} {number}, {self.calls[-1]}:"]
        lines += _indented(f"{type(self.error).__name__}: {self.error}", 2)
        lines.append("  calls until then:")
        lines += [f"    {n}. {call}" for n, call in enumerate(self.calls, start=1)]
        return "\n".join([*lines, *_indented(self.state, 2)])


class CrashTestError(AssertionError):
    """crashes of the worker leave a wrong state behind; `.failures` has them"""

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
    max_calls: int = 1000,
) -> int:
    """Prove that a worker survives a crash at any of its calls, and every redelivery.

    Again and again the queues are emptied, `setup` fills them (and puts the app back to its start),
    and the worker runs as in `drain`. Each time it is killed at another of its calls: before it,
    after it, or with the answer lost. Its leases run out, a fresh worker does the rest, and `check`
    must hold: it raises, or gives False, if the state is wrong. Once the worker runs unharmed.

    Gives the number of crashes survived. The calls of a killed worker have no effect any more, so
    that what it does while it goes down (`finally`) makes no difference to the queues.

    Raises:
        CrashTestError: after some crashes `check` fails, or the worker that takes over does.
        AssertionError: `check` fails without any crash, or the worker makes no call.
        ClockError: the clock cannot be moved.
    """
    __tracebackhide__ = True
    trial = _Trial(emulator, worker, setup, check, max_calls)
    names = emulator.names
    try:
        trial.unharmed()
        failures = [failure for failure in trial.crashes() if failure is not None]
    finally:
        emulator.names = names
    if failures:
        raise CrashTestError(failures, trial.points) from failures[0].error
    return trial.points


class _Trial:
    """One run of `crash_test`."""

    def __init__(
        self,
        emulator: Emulator,
        worker: Worker,
        setup: Callable[[], object],
        check: Callable[[], object],
        max_calls: int,
    ) -> None:
        self.points = 0
        """How many crashes there were."""
        self._emulator = emulator
        self._worker = worker
        self._setup = setup
        self._check = check
        self._max_calls = max_calls

    def unharmed(self) -> None:
        """Let the worker run without a crash."""
        __tracebackhide__ = True
        self._begin()
        counter = _Killer(Crash.BEFORE, call_number=0)
        with self._emulator.interceptors.installed(counter):
            self._run()
        if not counter.calls:
            raise AssertionError("crash_test: the worker makes no call to a queue")
        self._verify()

    def crashes(self) -> Iterator[CrashFailure | None]:
        """Let it crash at each of its calls, in each way; give what comes of it."""
        number = 1
        while True:
            for crash in Crash:
                killer = _Killer(crash, call_number=number)
                error = self._crash(killer)
                if not killer.struck:
                    return
                self.points += 1
                yield self._failure(killer, error)
            number += 1

    def _crash(self, killer: _Killer) -> Exception | None:
        self._begin()
        try:
            self._first_life(killer)
            if killer.struck:
                expire_leases(self._emulator)
                self._run()
                self._verify()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
            return error
        return None

    def _first_life(self, killer: _Killer) -> None:
        try:
            with suppress(WorkerKilled):
                try:
                    with self._emulator.interceptors.installed(killer):
                        self._run()
                finally:
                    killer.leash.release()
        except Exception:
            # A lost answer is an error to the worker, which may end it like a crash.
            if not (killer.struck and killer.crash is Crash.ANSWER_LOST):
                raise

    def _begin(self) -> None:
        self._emulator.reset()
        self._emulator.names = random_names(0)
        self._setup()

    def _run(self) -> None:
        drain(self._emulator, self._worker, max_calls=self._max_calls)

    def _verify(self) -> None:
        __tracebackhide__ = True
        if self._check() is False:
            raise AssertionError("check gives False")

    def _failure(self, killer: _Killer, error: Exception | None) -> CrashFailure | None:
        if error is None:
            return None
        return CrashFailure(
            crash=killer.crash,
            call_number=killer.call_number,
            calls=tuple(killer.calls),
            error=error,
            state=describe(self._emulator),
        )


class _Killer:
    """Kills the worker at one of its calls."""

    def __init__(self, crash: Crash, *, call_number: int) -> None:
        self.crash = crash
        self.call_number = call_number
        self.calls: list[str] = []
        self.struck = False
        self.leash = Leash()
        self._dead = False

    def __call__(self, call: QueueCall, proceed: Callable[[], object]) -> object:
        """Let a call through, or let it be the last."""
        if self._dead:
            return self.leash.end(WorkerKilled)
        if not self.struck:
            self.calls.append(describe_call(call))
        if self.struck or len(self.calls) != self.call_number:
            return proceed()
        self.struck = True
        self._dead = self.crash is not Crash.ANSWER_LOST
        if self.crash is Crash.BEFORE:
            return self.leash.end(WorkerKilled)
        answer = proceed()
        if self.crash is Crash.AFTER:
            return self.leash.end(WorkerKilled, answer)
        raise DeadlineExceededError(f"the answer to {self.calls[-1]} is lost")


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.splitlines()]
