"""Running workers and handlers against each other, in every order of their calls."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from pullqueue.clock import duration_usec, movable_clock
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.push.dispatcher import Dispatcher, RunningAttempt
from pullqueue.push.request import PushResponse
from pullqueue.push.wsgi_sender import environ_restored
from pullqueue.tasks import Task
from pullqueue.testing.arguments import (
    SelectQueues,
    check_actor,
    check_flag,
    check_is_emulator,
    check_maximum,
    refuse_lazy,
    selected_queues,
)
from pullqueue.testing.describing import describe, describe_request
from pullqueue.testing.points import Trial
from pullqueue.testing.schedule import DueTask, Refusal, Schedule
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.testing.steps import REPLAY_DIFFERS, Choice, format_replay, parse_replay
from pullqueue.text import counted, shorten

__tracebackhide__ = True  # a failed test is shown at its own line

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
        """The steps, in order: who, what, and the outcome."""
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

    Memcache is empty when `setup` is called. Return the number of schedules.

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
        emulator,
        _named(actors, copies, has_tasks=sender.is_set),
        setup=setup,
        check=check,
        make_tasks=lambda: _PushTasks(emulator, sender, selected),
        options={"moves_time": clock, "max_calls": max_calls},
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
    """Return each copy of each function, by a name of its own.

    Raises:
        TypeError: one cannot be called, or there is none.
    """
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


class _Race(Trial):
    """Runs schedules, and passes each its points."""

    def __init__(
        self,
        emulator: Emulator,
        actors: list[tuple[str, Callable[[], object]]],
        *,
        setup: Callable[[], object],
        check: Callable[[], object],
        make_tasks: Callable[[], _PushTasks],
        options: dict[str, Any],
    ) -> None:
        super().__init__(emulator, setup=setup, check=check)
        self.count = 0
        """Number of schedules that were run."""
        self._actors = actors
        self._make_tasks = make_tasks
        self._options = options
        self._has_points = False
        """True if an actor could have been stopped."""
        self._most_actors = 0
        """Number of actors in one schedule."""

    def replay(self, planned: list[int]) -> None:
        """Run one schedule, which consists of these choices.

        Raises:
            RaceTestError: it fails.
            ValueError: it is of another test.
        """
        made = len(self.run(planned, is_replay=True))
        if made != len(planned):
            raise ValueError(
                f"replay does not fit: it has {counted(len(planned), 'choice')}, and the schedule, "
                f"which did not fail, {made}; {REPLAY_DIFFERS}"
            )

    def run(self, plan: list[int], *, is_replay: bool = False) -> tuple[Choice, ...]:
        """Run the schedule that begins with some choices, and return all of its choices.

        Raises:
            RaceTestError: it fails.
        """
        emulator = self._emulator
        self.begin()
        self.count += 1
        clock = movable_clock(emulator)
        tasks = self._make_tasks()
        schedule = Schedule(emulator, clock, tasks, plan=plan, is_replay=is_replay, **self._options)
        for name, work in self._actors:
            schedule.add_actor(name, work)
        self._running = schedule
        try:
            schedule.run()
        finally:
            self._running = None
        self._most_actors = max(self._most_actors, len(schedule.actors))
        self._has_points |= any(actor.calls for actor in schedule.actors)
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
        raise RaceTestError(
            map(str, schedule.steps),
            format_replay(schedule.choices),
            error,
            number=self.count,
            state=describe(emulator),
            hint=_NO_RACE + tasks.first_error if schedule.is_sequential else "",
        ) from error

    def check_raced(self) -> None:
        """Raise if there was nothing to interleave.

        Raises:
            AssertionError: there was not.
        """
        if not self._has_points:
            raise AssertionError(
                "race_test: no actor makes a call to a queue or a service, so none was stopped: "
                "call pullqueue.testing.point() before each use of a database of your own"
            )
        if self.count == 1 and self._most_actors == 1:
            raise AssertionError(
                "race_test: there is only one actor, and one schedule, so nothing was raced: pass "
                "two actors, or copies=2, or add two push tasks in setup"
            )


_NO_RACE = " with the actors one after the other, so their calls do not race"


class _PushTasks:
    """The push tasks of a schedule; each attempt is an actor."""

    def __init__(self, emulator: Emulator, sender: Sender, queues: SelectQueues) -> None:
        self._emulator = emulator
        self._sender = sender
        self._queues = queues
        self._dispatcher = Dispatcher(emulator, rates=False)
        self._running: dict[RunningAttempt, int] = {}
        """Those that have started and whose deadline, in microseconds, has not passed."""
        self.first_error = ""
        """The first exception of a handler, as a line of a report."""

    def due(self) -> Iterator[DueTask]:
        """Yield those that can start now."""
        running = self._dispatcher.counts
        for queue in self._queues():
            slots = queue.settings.effective_concurrent_requests - running[queue.name]
            for task in self._dispatcher.startable(queue, slots):
                attempt = task.retry_count + 1
                name = f'task "{task.name}"' + (f", attempt {attempt}" if attempt > 1 else "")
                key = queue.name, task.name, attempt
                beginning = f"begins: {describe_request(task.request, task.payload)}"
                yield DueTask(key, name, partial(self._attempt, task), beginning)

    def next_usec(self) -> int | None:
        """Return when time alone makes one due."""
        times = (self._dispatcher.next_usec(queue) for queue in self._queues())
        return min((usec for usec in times if usec is not None), default=None)

    def end_overdue(self) -> Iterator[str]:
        """End the attempts whose deadline has passed; their handlers go on, as in production."""
        now_usec = self._emulator.now_usec()
        for running, deadline_usec in list(self._running.items()):
            if now_usec >= deadline_usec:
                del self._running[running]
                reason = running.request.late
                ended = self._dispatcher.finish(running, PushResponse(None, reason=reason))
                yield f'ends task "{running.task.name}": {reason}, {ended.outcome}'

    def _attempt(self, task: Task) -> str:
        try:
            self._sender.check(task, self._emulator.queue(task.queue_name).settings)
        except ValueError as error:
            raise Refusal(error) from None
        running = self._dispatcher.start(task)
        if running is None:
            return "is gone"
        deadline_usec = duration_usec(running.request.deadline_seconds)
        self._running[running] = self._emulator.now_usec() + deadline_usec
        response = self._dispatcher.send(running, self._sender)
        if self._running.pop(running, None) is None:
            return "responds after its deadline"
        attempt = self._dispatcher.finish(running, response)
        status = attempt.reason if attempt.status is None else f"status {attempt.status}"
        raised = ""
        if attempt.error is not None:
            text = shorten(f"{type(attempt.error).__name__}: {attempt.error}", limit=100)
            raised = f" ({text})"
            self.first_error = self.first_error or f'\ntask "{task.name}" has raised {text}'
        return f"responds: {status}{raised}, {attempt.outcome}"
