"""Running workers and handlers against each other, in every order of their calls."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple, TypeAlias

from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.push.wsgi_sender import environ_restored
from pullqueue.testing.arguments import (
    check_actor,
    check_flag,
    check_is_emulator,
    check_maximum,
    refuse_lazy,
    selected_queues,
)
from pullqueue.testing.describing import describe
from pullqueue.testing.points import Trial
from pullqueue.testing.schedule import Refusal, Schedule
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.testing.steps import REPLAY_DIFFERS, Choice, format_replay, parse_replay
from pullqueue.text import counted

RaceFunction: TypeAlias = "Callable[[], object] | Callable[[], Awaitable[object]]"
"""What an actor does; a coroutine function runs in an event loop of its own thread."""


_FIRST_STEPS = 20
_STEPS_SHOWN = 100
"""Maximum number of steps in a message; those after the first 20 are left out before the last."""


class RaceTestError(AssertionError):
    """an order of calls leads to a wrong state"""

    def __init__(
        self,
        schedule: Iterable[str],
        replay: str,
        error: BaseException,
        *,
        number: int = 1,
        state: str = "",
        hint: str = "",
    ) -> None:
        self.schedule = tuple(schedule)
        """The steps, in order: who, what, from which line of the app, and the outcome."""
        self.replay = replay
        """Repeats exactly this schedule: `race_test(..., replay=...)`."""
        self.error = error
        """What `check` or an actor raised, or which actors are blocked."""
        lines = [f"race_test: schedule {number} leads to a wrong state{hint}"]
        steps = [f"  {n}. {step}" for n, step in enumerate(self.schedule, start=1)]
        left_out = len(steps) - _STEPS_SHOWN
        if left_out > 1:
            steps[_FIRST_STEPS : -_STEPS_SHOWN + _FIRST_STEPS] = [f"  ... {left_out} more steps"]
        lines += steps
        lines += f"{type(error).__name__}: {error}".splitlines()
        lines += state.splitlines()
        lines.append(f'repeat this schedule with race_test(..., replay="{replay}")')
        if any(step.startswith("time: ends ") for step in self.schedule):
            lines.append("clock=False leaves out that a handler passes its deadline")
        super().__init__("\n".join(lines))


def race_test(
    emulator: Emulator,
    *actors: RaceFunction,
    setup: Callable[[], object],
    check: Callable[[], object],
    app: App | None = None,
    send: SendFunction | None = None,
    deferred: bool = False,
    queues: Iterable[Queue | str] | None = None,
    preemptions: int = 2,
    schedules: int = 1000,
    seed: int = 0,
    replay: str | None = None,
    copies: int = 1,
    clock: bool = True,
    services: bool = True,
    max_calls: int = 1000,
) -> int:
    """Check what workers and handlers do to each other, in every order of their calls.

    Each of `actors` is a function without arguments, such as a worker, or a coroutine function;
    `copies` of each run in threads of their own. With `app`, `send` or `deferred`, as in
    `run_tasks`, each push task that is due is an actor, too: of all queues or of `queues`, up to
    `max_concurrent_requests` of its queue at the same time. Time is an actor that moves the clock
    to the next event, so that leases expire while a worker is slow. With `clock=False` it moves
    only where nobody can go on: to the end of a sleep, or to the eta or retry of a push task.

    Only one actor runs at a time. It is stopped before each of its calls to a queue, or, with
    `services`, to another bundled service if App Engine's SDK uses the emulator; then any actor can
    go on. For each such schedule the queues are emptied, `setup` fills them (and resets the app),
    the actors run until all have ended, and `check` is called: it raises, or returns False, if the
    state is wrong. An exception of a function fails the test; one of a handler is status 500.

    First come all schedules without preemptions, then those with one, up to `preemptions`; to take
    the turn from an actor that could go on is one. Where one of these steps would need more than
    half of the `schedules` that are left, it is a sample, drawn with `seed`. The same arguments
    lead to the same schedules, unless an actor has threads of its own that race with each other.
    `replay` repeats a schedule, as a RaceTestError shows it.

    `time.sleep` and `asyncio.sleep` let others go on until the clock is moved. A worker that loops
    forever is stopped when it leases in vain and nobody else can go on. An actor that reaches no
    call for two seconds, as it waits for a lock, is blocked until it does; then another goes on.

    Each schedule begins at the time at which the test has called, and `check` is called at the time
    at which it has ended. Memcache is empty when `setup` is called. Return the number of schedules.

    Raises:
        AssertionError: `setup` leaves no push task, and there is no other actor; or nothing was
            raced, since there is only one actor, or nobody makes a call.
        RaceTestError: `check` fails after a schedule, an actor raises, all are blocked, or one
            makes more than `max_calls` calls.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a pull queue.
        TypeError: an argument has a wrong type, there is no actor, or one calls `run_tasks`.
        UnknownQueueError: one of `queues` does not exist.
        ValueError: an argument is not valid, or `replay` is of another test.
    """
    check_is_emulator(emulator, then="actors")
    for name, value in (("schedules", schedules), ("copies", copies), ("max_calls", max_calls)):
        check_maximum(value, name)
    check_maximum(preemptions, "preemptions", least=0)
    check_maximum(seed, "seed", least=0)
    check_flag(clock, "clock")
    check_flag(services, "services")
    sender = Sender(app, send, deferred=deferred)
    if queues is not None and not sender.is_set:
        raise TypeError("queues are those whose push tasks are sent: pass app=, send= or deferred=")
    selected = selected_queues(emulator, queues, modes=(QueueMode.PUSH,)) if sender.is_set else list
    race = _Race(
        emulator=emulator,
        setup=setup,
        check=check,
        make_schedule=partial(
            Schedule,
            emulator=emulator,
            clock=movable_clock(emulator),
            functions=_named(actors, copies, has_tasks=sender.is_set),
            sender=sender,
            queues=selected,
            moves_time=clock,
            max_calls=max_calls,
        ),
    )
    planned = None if replay is None else parse_replay(replay)
    with environ_restored(), race.observing(services=services):
        if planned is not None:
            race.replay(planned)
        else:
            _explore(race, preemptions=preemptions, schedules=schedules, seed=seed)
            race.check_raced()
    return race.count


def _named(
    actors: tuple[RaceFunction, ...], copies: int, *, has_tasks: bool
) -> list[tuple[str, Callable[[], object]]]:
    """Return each copy of each function, by a name of its own."""
    if not actors and not has_tasks:
        raise TypeError(
            "there is no actor: pass functions without arguments, such as workers, or the app that "
            "handles push tasks, as app=, send= or deferred=True"
        )
    for actor in actors:
        check_actor(actor)
    all_names = [getattr(actor, "__name__", type(actor).__name__) for actor in actors] * copies
    counts, seen = Counter(all_names), Counter[str]()
    named: list[tuple[str, Callable[[], object]]] = []
    for name, actor in zip(all_names, actors * copies, strict=True):
        seen[name] += 1
        unique = name if counts[name] == 1 else f"{name} {seen[name]}"
        named.append((unique, partial(_act, name, actor)))
    return named


def _act(name: str, actor: RaceFunction) -> None:
    if inspect.iscoroutinefunction(actor):
        asyncio.run(actor())
    else:
        refuse_lazy(actor(), name)


def _explore(race: _Race, *, preemptions: int, schedules: int, seed: int) -> None:
    """Run the schedules by the number of their preemptions (iterative context bounding).

    Each run follows a plan to its end, and then avoids preemptions; whoever could have gone on
    instead, from there on, begins another plan. (M. Musuvathi and S. Qadeer, PLDI 2007)
    """
    random = Random(seed)  # noqa: S311 - nothing secret
    levels: list[deque[_Plan]] = [deque() for _ in range(preemptions + 1)]
    levels[0].append(_Plan((), 0, 0))
    while race.count < schedules and any(levels):
        for level, plans in enumerate(levels):
            left = schedules - race.count
            end = race.count + (left if plans is levels[-1] else -(-left // 2))
            while plans and race.count < end:
                if race.count + len(plans) > end:  # a sample
                    plans.rotate(-random.randrange(len(plans)))
                plan = plans.popleft()
                for needed, other in _others(plan, race.run(plan.choices()), level):
                    if needed < len(levels):
                        levels[needed].append(other)


def _others(plan: _Plan, choices: tuple[Choice, ...], level: int) -> Iterator[tuple[int, _Plan]]:
    """Yield how else a schedule could have gone on after its plan, by preemptions."""
    for index in reversed(range(plan.length, len(choices))):
        choice = choices[index]
        for option in choice.options:
            if option != choice.chosen:
                yield level + choice.preempts(option), _Plan(choices, index + 1, option)


class _Plan(NamedTuple):
    """How a schedule begins: as an earlier one, but for its last choice."""

    earlier: tuple[Choice, ...]
    length: int
    last: int

    def choices(self) -> list[int]:
        """Return its choices."""
        if not self.length:
            return []
        return [*(choice.chosen for choice in self.earlier[: self.length - 1]), self.last]


_NO_RACE = " with the actors one after the other, so their calls do not race"


@dataclass(eq=False, kw_only=True)
class _Race(Trial):
    """Runs schedules, and passes each its points."""

    make_schedule: Callable[..., Schedule]
    """Makes one with the actors and the options of the test."""
    count: int = 0
    """Number of schedules that were run."""
    has_points: bool = False
    """True if an actor could have been stopped."""
    most_actors: int = 0
    """Number of actors in one schedule."""

    def replay(self, planned: list[int]) -> None:
        """Run one schedule; raise a ValueError if its choices are of another test."""
        made = len(self.run(planned, is_replay=True))
        if made != len(planned):
            raise ValueError(
                f"replay does not fit: it has {counted(len(planned), 'choice')}, and the schedule, "
                f"which did not fail, {made}; {REPLAY_DIFFERS}"
            )

    def run(self, plan: list[int], *, is_replay: bool = False) -> tuple[Choice, ...]:
        """Run the schedule that begins with some choices, and return all of its choices.

        Raises a RaceTestError if it fails.
        """
        self.begin()
        self.count += 1
        schedule = self.make_schedule(plan=plan, is_replay=is_replay)
        self.running = schedule
        try:
            schedule.run()
        finally:
            self.running = None
        self.most_actors = max(self.most_actors, len(schedule.actors))
        self.has_points |= any(actor.calls for actor in schedule.actors)
        error = schedule.error
        if isinstance(error, Refusal):
            raise error.error
        if error is None and not schedule.steps:
            raise AssertionError(
                "race_test: setup left no push task, so there is nothing to run: add at least one, "
                "or pass functions, such as workers"
            )
        if error is None:
            error = self.verify()
        if error is None:
            return tuple(schedule.choices)
        cause = schedule.tasks.first_error
        if schedule.is_sequential and cause and not error.__cause__:
            error.__cause__ = cause  # so that its traceback says why a handler fails by itself
        raise RaceTestError(
            map(str, schedule.steps),
            format_replay(schedule.choices),
            error,
            number=self.count,
            state=describe(self.emulator),
            hint=_NO_RACE if schedule.is_sequential else "",
        ) from error

    def check_raced(self) -> None:
        """Raise an AssertionError if there was nothing to interleave."""
        if not self.has_points:
            raise AssertionError(
                "race_test: no actor makes a call to a queue or a service, so none was stopped: "
                "call pullqueue.testing.point() before each use of a database of your own"
            )
        if self.count == 1 and self.most_actors == 1:
            raise AssertionError(
                "race_test: there is only one actor, and one schedule, so nothing was raced: pass "
                "two actors, or copies=2, or add two push tasks in setup"
            )
