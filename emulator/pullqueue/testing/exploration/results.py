"""What `race_test` and `crash_test` have tried, and how schedules have failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Self

from pullqueue.text import counted

WORKER = "the worker"
"""The name of the worker of a `crash_test`."""
_FIRST_STEPS = 20
_STEPS_SHOWN = 100
"""Maximum number of steps in a message; those after the first 20 are left out before the last."""
_OTHERS_SHOWN = 3
_MEMCACHE = re.compile(r"([^:]+): memcache\.(\w+)[^(]* (\([^()]+:\d+ in [^()]+\))")
"""A step in which ndb calls its cache, as it does several times for one entity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFailure:
    """A schedule that leads to a wrong state."""

    number: int
    """Which of the schedules it was, the first being 1."""
    schedule: tuple[str, ...]
    """The steps, in order: who, what, from which line of the app, and the outcome."""
    replay: str
    """Repeats exactly this schedule: `race_test(..., replay=...)`."""
    error: BaseException
    """What `check` or an actor raised, or which actors are blocked."""
    state: str
    """The state of the queues after that, with their events."""
    is_sequential: bool
    """True if the actors ran one after the other."""

    @property
    def kind(self) -> str:
        """What went wrong, in one line; values in further lines differ from run to run."""
        return _error_text(self.error).partition("\n")[0]

    def report(self) -> str:
        """Return the whole schedule, the error, the queues, and how to repeat it."""
        lines = self._shown_steps()
        left_out = len(lines) - _STEPS_SHOWN
        if left_out > 1:
            lines[_FIRST_STEPS : -_STEPS_SHOWN + _FIRST_STEPS] = [f"  ... {left_out} more steps"]
        lines += _error_text(self.error).splitlines()
        lines += self.state.splitlines()
        lines.append(f'repeat this schedule with race_test(..., replay="{self.replay}")')
        if any(step.startswith("time: ends ") for step in self.schedule):
            lines.append("clock=False leaves out that a handler passes its deadline")
        return "\n".join(lines)

    def summary(self) -> str:
        """Return where the schedule switches to another actor, the error, and how to repeat it."""
        switches = [
            line
            for line, step in zip(self._steps(), self.schedule, strict=True)
            if " <- preempts " in step or step.startswith("time:")
        ]
        repeat = f'  repeat it with race_test(..., replay="{self.replay}")'
        return "\n".join([f"schedule {self.number}: {self.kind}", *switches, repeat])

    def _steps(self) -> list[str]:
        return [f"  {number}. {step}" for number, step in enumerate(self.schedule, start=1)]

    def _shown_steps(self) -> list[str]:
        """Return the steps, one line for calls to memcache that a line of the app makes."""
        lines: list[str] = []
        numbered = enumerate(map(_MEMCACHE.fullmatch, self.schedule))
        for made, group in groupby(numbered, key=lambda each: each[1] and each[1].group(1, 3)):
            steps = list(group)
            first, last = steps[0][0], steps[-1][0]
            if made is None or first == last:
                lines += self._steps()[first : last + 1]
            else:
                calls = ", ".join(found[2] for _, found in steps if found)
                lines.append(f"  {first + 1}-{last + 1}. {made[0]}: memcache: {calls} {made[1]}")
        return lines


_NO_RACE = " with the actors one after the other, so their calls do not race"


class RaceTestError(AssertionError):
    """an order of calls leads to a wrong state"""

    __module__ = "pullqueue.testing"  # as tests name it

    def __init__(self, failures: Sequence[RaceFailure], hints: Sequence[str]) -> None:
        first, *others = failures
        self.failures = tuple(failures)
        """The simplest schedule of each way to fail; those in which time moves are last."""
        self.schedule = first.schedule
        """The steps of the first: who, what, from which line of the app, and the outcome."""
        self.replay = first.replay
        """Repeats exactly the first: `race_test(..., replay=...)`."""
        self.error = first.error
        """What `check` or an actor raised in the first, or which actors are blocked."""
        hint = _NO_RACE if first.is_sequential else ""
        parts = [f"race_test: schedule {first.number} leads to a wrong state{hint}", first.report()]
        if others:
            parts.append("\nothers fail in other ways:")
            parts += [other.summary() for other in others[:_OTHERS_SHOWN]]
        super().__init__("\n".join([*parts, *hints]))


class Crash(Enum):
    """What happens to a worker or a handler at one of its calls."""

    BEFORE = "killed before call"
    """The call is not made."""
    AFTER = "killed after call"
    """The call is carried out, and the worker or handler does nothing more."""
    ANSWER_LOST = "answer lost of call"
    """The call is carried out, but the caller gets an error, and may go on."""
    ERROR = "error of call"
    """The call is not carried out, and the caller gets an error, and may go on."""
    RESPONSE_LOST = "response lost"
    """A handler has returned, but its response is lost, so that its task is retried."""
    RESTARTED = "instance restarted after response"
    """A handler has returned, and its instance ends, with what it has in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashFailure:
    """A crash that leads to a wrong state."""

    crash: Crash
    actor: str
    """The worker, or the attempt whose handler it was."""
    call_number: int
    """Which of its calls, the first being 1; 0 where the response is lost."""
    calls: tuple[str, ...]
    """Its calls up to the crash, that one included, with the lines of the app that made them."""
    error: BaseException
    """What `check`, or whatever took over, raised."""
    state: str
    """The state of the queues after that, with their events."""

    def __str__(self) -> str:
        return self.report()

    @property
    def title(self) -> str:
        """What happened, and at which call."""
        at = f" {self.call_number}, {self.calls[-1]}" if self.call_number else ""
        return f"{self.crash.value}{at}"

    def has_cause_of(self, other: CrashFailure) -> bool:
        """Return whether another crash, at the same call or the one before, has the same result."""
        if not (self.call_number and other.call_number and self.actor == other.actor):
            return False
        is_near = 0 <= self.call_number - other.call_number <= 1
        # Below the first line pytest shows values, such as ids, which differ from run to run.
        first, second = (_error_text(each.error).partition("\n")[0] for each in (self, other))
        return is_near and first == second

    def report(self, others: Sequence[CrashFailure] = ()) -> str:
        """Return the crash as text; `others` are those that have the same cause."""
        lines = [f"{self.title}, in {self.actor}:" if self.actor != WORKER else f"{self.title}:"]
        lines.append("  calls until then:" if self.calls else "  it has made no calls")
        lines += [f"    {n}. {call}" for n, call in enumerate(self.calls, start=1)]
        lines += _indented(_error_text(self.error))
        if others:
            lines.append("  the same error after:")
            lines += [f"    {other.title}" for other in others]
        return "\n".join([*lines, *_indented(self.state)])


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _by_cause(failures: Iterable[CrashFailure]) -> list[list[CrashFailure]]:
    """Return the failures, those of crashes at neighbouring calls that have one cause together."""
    groups: list[list[CrashFailure]] = []
    for failure in failures:
        if groups and failure.has_cause_of(groups[-1][-1]):
            groups[-1].append(failure)
        else:
            groups.append([failure])
    return groups


class CrashTestError(AssertionError):
    """crashes of the worker or of a handler lead to a wrong state; `.failures` has them"""

    __module__ = "pullqueue.testing"  # as tests name it

    def __init__(self, failures: list[CrashFailure], crashes: int) -> None:
        self.failures = failures
        count = f"{len(failures)} of {crashes} crash{'' if crashes == 1 else 'es'}"
        head = f"crash_test: {count} {'leads' if len(failures) == 1 else 'lead'} to a wrong state"
        reports = [first.report(others) for first, *others in _by_cause(failures)]
        super().__init__("\n\n".join([head, *reports]))


class _Result(int):
    """How much was tried, whether that is all, and whose calls were points."""

    is_complete: bool
    bound: str
    """What limits what there is to try; empty: nothing."""
    estimate: int
    seen: tuple[str, ...]
    """Whose calls were points: services, databases, `queues` and `point()`."""
    unseen: tuple[str, ...]
    """The databases that the app uses, and of which no call was seen; the subprocesses that actors
    started, their connections to servers whose calls are not points, their requests that mocks
    answered, and their threads that `crash_test` could not follow."""

    def __new__(
        cls,
        count: int,
        *,
        is_complete: bool = False,
        bound: str = "",
        estimate: int = 0,
        seen: Iterable[str] = (),
        unseen: Iterable[str] = (),
    ) -> Self:
        """Make the result of some runs."""
        result = super().__new__(cls, count)
        result.is_complete, result.bound = is_complete, bound
        result.estimate = max(count, estimate)
        result.seen, result.unseen = tuple(seen), tuple(unseen)
        return result

    def __repr__(self) -> str:
        calls = f" of calls to {', '.join(self.seen)}" if self.seen else ""
        not_seen = f", not of {', '.join(self.unseen)}" if self.unseen else ""
        bound = f", {self.bound}" if self.bound else ""
        return f"{self._tried()}{calls}{not_seen}{bound}"

    def _tried(self) -> str:
        return str(int(self))

    __str__ = __repr__


class CrashResult(_Result):
    """How many crashes there were, whether these are all, and at whose calls."""

    is_complete: bool
    """True if all were made; False: later runs had other calls than the first."""
    estimate: int
    """How many there are, by the calls of the first run."""

    def _tried(self) -> str:
        of = f"all {int(self):,}" if self.is_complete else f"{int(self):,} of {self.estimate:,}"
        return f"{of} crash{'' if self == 1 else 'es'}"


class RaceResult(_Result):
    """How many schedules were run, whether these are all orders that can differ, and of what."""

    is_complete: bool
    """True if no order is left that can differ, up to `bound`; False: it was a sample."""
    estimate: int
    """About how many there are."""
    shared: tuple[str, ...] = ()
    """The globals of the app's modules that actors have changed, which instances do not share."""
    not_compared: tuple[str, ...] = ()
    """What could have changed in memory, unseen, at each call, so that all orders can differ."""

    def _tried(self) -> str:
        if self.is_complete:
            return f"all {counted(int(self), 'order')} that can differ"
        orders = f"{self.estimate:,} order{'' if self.estimate == 1 else 's'}"
        return f"{int(self):,} of about {orders}, a sample"
