"""Running workers and handlers against each other, in every order of their calls."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from pullqueue.clock import movable_clock
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.faults.fault import find_faults
from pullqueue.push.wsgi_sender import environ_restored
from pullqueue.testing import arguments
from pullqueue.testing.arguments import Severity
from pullqueue.testing.exploration.blocking import LastCall
from pullqueue.testing.exploration.handlers import Refusal
from pullqueue.testing.exploration.instances import (
    InstanceLock,
    own_random_numbers,
    raced_locks,
)
from pullqueue.testing.exploration.progress import Stopwatch
from pullqueue.testing.exploration.results import RaceFailure, RaceResult, RaceTestError
from pullqueue.testing.exploration.schedule import Schedule
from pullqueue.testing.exploration.search import SEQUENCES, Outcome, Plan, Search
from pullqueue.testing.exploration.steps import (
    REPLAY_DIFFERS,
    SETS_DIFFER,
    format_replay,
    parse_replay,
    turns_that_write,
)
from pullqueue.testing.exploration.threads import following_threads
from pullqueue.testing.memory import Memory
from pullqueue.testing.place import note_apps
from pullqueue.testing.points import Trial
from pullqueue.testing.points.actors import following_ends
from pullqueue.testing.points.strands import without_orders
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.testing.undeleted import Undeleted
from pullqueue.text import counted, quoted

RaceFunction: TypeAlias = "Callable[[], object] | Callable[[], Awaitable[object]]"
"""What an actor does; a coroutine function runs in an event loop of its own thread."""


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
    seconds: float = 60,
    reduce: bool = True,
    replay: str | None = None,
    copies: int = 1,
    clock: bool = True,
    instances: bool = True,
    services: bool = True,
    errors: Literal["raise", "retry"] = "raise",
    unseen: Severity = "error",
    undeleted: Severity = "warn",
    max_calls: int = 1000,
) -> RaceResult:
    """Check what workers and handlers do to each other, in every order of their calls.

    Each of `actors` is a function without arguments, such as a worker, or a coroutine function;
    `copies` of each run in threads of their own. With `app`, `send` or `deferred`, as in
    `run_tasks`, each push task that is due is an actor, too: of all queues or of `queues`, up to
    `max_concurrent_requests` of its queue at the same time. Time is an actor that moves the clock
    to the next event, so that leases expire while a worker is slow. With `clock=False` it moves
    only where nobody can go on: to the end of a sleep, or to the eta or retry of a push task.

    Only one actor runs at a time. It is stopped before each of its calls to a queue, or, with
    `services`, to a database or another bundled service, as in `crash_test`; then any actor can go
    on. Where a module of the app uses a database, and no call to it was seen, that is an error, or
    a warning, or neither (`unseen`).

    For each such schedule the queues are emptied, `setup` fills them (and resets the app), the
    actors run until all have ended, and `check` is called: it raises, or returns False, if the
    state is wrong. An exception of a handler is status 500. One of a function fails the test; with
    `errors="retry"` its leases expire, and it is called again, as a worker in production.

    First come the schedules without preemptions, then those with one, up to `preemptions`: to take
    the turn from an actor that could go on is one. Time that passes such an actor is one, too, or
    two if it passes the deadline of a handler. Orders that cannot differ are left out, unless
    `reduce` is False; the page *Find races* says which. Where there are more than `schedules`, or
    they take longer than `seconds`, the rest is a sample, drawn with `seed`. The same arguments
    lead to the same schedules, unless the seconds are used up, or an actor has threads of its own
    that race with each other. `replay` repeats a schedule, as a RaceTestError shows it. Where an
    actor draws numbers of `random`, which are the same in each schedule, those with at most one
    preemption are run with 19 other sequences, too; `seed` selects these.

    Actors are `instances` of the app: each has its own locks of its modules. A warning names the
    globals of these modules that actors change, since instances do not share them.

    `time.sleep` and `asyncio.sleep` let others go on until the clock is moved, also in threads that
    an actor starts, which time does not pass; so does `Event.wait(seconds)` in these. A worker that
    loops forever is stopped when it leases in vain and nobody else can go on. An actor that waits
    for a lock of the test, or that reaches no call for two seconds, is blocked; then another goes
    on.

    In the first schedule time passes nobody who could go on. A pull task that is leased in it, and
    is then still leased or exhausted, since no actor has deleted it, leads to a warning, or an
    error, or neither (`undeleted`).

    Each schedule begins at the time at which the test has called, and `check` is called at the time
    at which it has ended. Memcache is empty when `setup` is called. Return the number of schedules,
    with whether these are all, and whose calls were seen.

    Raises:
        AssertionError: `setup` leaves no push task, and there is no other actor; or nothing was
            raced, since there is only one actor, or nobody makes a call; or the app uses a database
            of which no call was seen; or, with `undeleted="error"`, no actor deletes a task.
        RaceTestError: `check` fails after a schedule, an actor raises, all are blocked, or one
            makes more than `max_calls` calls.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a pull queue.
        TypeError: an argument has a wrong type, there is no actor, or one calls `run_tasks`.
        UnknownQueueError: one of `queues` does not exist.
        ValueError: an argument is not valid, or `replay` is of another test.
    """
    arguments.check_is_emulator(emulator, then="actors")
    arguments.check_numbers(1, schedules=schedules, copies=copies, max_calls=max_calls)
    arguments.check_numbers(0, preemptions=preemptions, seed=seed)
    arguments.check_seconds(seconds=seconds)
    arguments.check_choices(("raise", "retry"), errors=errors)
    arguments.check_choices(arguments.SEVERITIES, unseen=unseen, undeleted=undeleted)
    arguments.check_flags(clock=clock, instances=instances, reduce=reduce, services=services)
    sender = Sender(app, send, deferred=deferred)
    if queues is not None and not sender.is_set:
        raise TypeError("queues are those whose push tasks are sent: pass app=, send= or deferred=")
    selected = (
        arguments.select_queues(emulator, queues, modes=(QueueMode.PUSH,))
        if sender.is_set
        else list
    )
    note_apps(*actors, app, send)
    race = _Race(
        emulator=emulator,
        setup=setup,
        check=check,
        memory=Memory([*actors, setup, *([send] if send else [])], check),
        make_schedule=partial(
            Schedule,
            emulator=emulator,
            clock=movable_clock(emulator),
            functions=_name_actors(actors, copies, has_tasks=sender.is_set),
            sender=sender,
            queues=selected,
            moves_time=clock,
            restarts=errors == "retry",
            last_call=LastCall(),
            max_calls=max_calls,
        ),
    )
    planned = None if replay is None else parse_replay(replay)
    with (
        environ_restored(),
        following_threads,
        following_ends,
        race.observing(services=services),
        own_random_numbers,
        raced_locks(race.memory, instances=instances) as race.locks,
    ):
        if planned is not None:
            return race.replay(*planned)
        search = Search(
            run=race.run,
            stopwatch=Stopwatch(),
            preemptions=preemptions,
            schedules=schedules,
            most_seconds=seconds,
            seed=seed,
            reduces=lambda: reduce and not any(find_faults(emulator)),
            moves_time=clock,
        )
        search.explore()
        race.raise_failures(search.failed)
    race.undeleted.report("race_test, in the first order", 'undeleted="ignore"', undeleted)
    not_seen = race.find_unseen("race_test", unseen)
    race.check_raced()
    shared = race.memory.changed_globals if instances else ()
    if shared:
        warnings.warn(
            f"race_test: actors change {', '.join(shared)}, which instances of production do not "
            "share; pass instances=False if the actors are threads of one process",
            stacklevel=2,
        )
    return race.result(search, not_seen, shared)


def _name_actors(
    actors: tuple[RaceFunction, ...], copies: int, *, has_tasks: bool
) -> list[tuple[str, str, Callable[[], object]]]:
    if not actors and not has_tasks:
        raise TypeError(
            "there is no actor: pass functions without arguments, such as workers, or the app that "
            "handles push tasks, as app=, send= or deferred=True"
        )
    for actor in actors:
        arguments.check_actor(actor)
    all_names = [getattr(actor, "__name__", type(actor).__name__) for actor in actors] * copies
    counts, seen = Counter(all_names), Counter[str]()
    named: list[tuple[str, str, Callable[[], object]]] = []
    for name, actor in zip(all_names, actors * copies, strict=True):
        seen[name] += 1
        unique = name if counts[name] == 1 else f"{name} {seen[name]}"
        named.append((unique, name, partial(_act, name, actor)))
    return named


def _act(name: str, actor: RaceFunction) -> None:
    if inspect.iscoroutinefunction(actor):
        asyncio.run(actor())
    else:
        arguments.refuse_lazy(actor(), name)


@dataclass(eq=False, kw_only=True)
class _Race(Trial):
    """Runs schedules, and passes each its points."""

    make_schedule: Callable[..., Schedule]
    """Makes one with the actors and the options of the test."""
    memory: Memory
    count: int = 0
    """Number of schedules that were run."""
    undeleted: Undeleted = field(init=False, repr=False)
    """What is left of the first schedule, in which time passes nobody who could go on."""
    locks: Sequence[InstanceLock] = ()
    failures: list[RaceFailure] = field(default_factory=list)
    """The first failure of each kind."""
    is_unclear: bool = False
    """True if the last run has to be repeated to see who changes what is in memory."""
    unordered: set[str] = field(default_factory=set)
    """Where threads of one actor call what others of it do, in an order that nobody decides."""
    has_points: bool = False
    """True if an actor could have been stopped."""
    most_actors: int = 0
    """Number of actors in one schedule."""

    def replay(self, planned: list[int], sequence: int) -> RaceResult:
        """Run one schedule; raise a ValueError if its choices are of another test."""
        self.count = 1
        made = len(self._run(planned, sequence, is_replay=True).choices)
        self.raise_failures(len(self.failures))
        if made != len(planned):
            raise ValueError(
                f"replay does not fit: it has {counted(len(planned), 'choice')}, and the schedule, "
                f"which did not fail, {made}; {REPLAY_DIFFERS}"
            )
        is_random = os.environ.get("PYTHONHASHSEED") in (None, "", "random")
        return RaceResult(1, is_complete=False, bound=SETS_DIFFER if is_random else "")

    def run(self, plan: Plan) -> Outcome:
        """Run the schedule that begins with the choices of a plan."""
        known = len(self.failures)
        self.count += 1
        schedule = self._run(plan.choices(), plan.sequence)
        writes = turns_that_write(schedule.choices)
        if self.is_unclear and len(self.failures) == known:
            schedule = self._run(plan.choices(), plan.sequence)
        return Outcome(
            tuple(schedule.choices),
            has_failed=schedule.error is not None,
            is_new=len(self.failures) > known,
            is_race=not schedule.is_sequential,
            draws=any(actor.draws for actor in schedule.actors),
            writes=writes | turns_that_write(schedule.choices),
        )

    def _run(self, plan: list[int], sequence: int, *, is_replay: bool = False) -> Schedule:
        self.begin()
        if self.count == 1:
            self.undeleted = Undeleted(self.emulator, lambda: self.emulator.queues)
        self.memory.begin()
        schedule = self.make_schedule(
            plan=plan, is_replay=is_replay, memory=self.memory, sequence=sequence
        )
        self.running = schedule
        try:
            schedule.run()
        finally:
            self.running = None
        if self.count == 1:
            self.undeleted.look()
        self.is_unclear = self.memory.needs_another()
        self.most_actors = max(self.most_actors, len(schedule.actors))
        self.unordered.update(*(actor.strands.unordered for actor in schedule.actors))
        self.has_points |= any(actor.calls for actor in schedule.actors)
        error = schedule.error
        for actor in schedule.actors if error is None else ():
            actor.check_caught("race_test")
        if isinstance(error, Refusal):
            raise error.error
        if error is None and not schedule.choices:
            raise AssertionError(
                "race_test: setup left no push task, so there is nothing to run: add at least one, "
                "or pass functions, such as workers"
            )
        hint = ""
        if error is None and (error := self.verify()) is not None:
            schedule.error = error
            hint = self._hint_at_left()
        if error is not None:
            self._add_failure(schedule, error, hint)
        return schedule

    @bypass_interceptors()
    def _hint_at_left(self) -> str:
        """Return what to do where workers have ended, and have left tasks."""
        left = [
            quoted(queue.name)
            for queue in self.emulator.queues
            if not queue.is_push
            and queue.fetch_statistics().available
            and any(event.kind is EventKind.LEASED for event in queue.events())
        ]
        where = " and ".join(left)
        loop = f"all workers have ended, and tasks are left in queue {where}: pass a loop"
        return f"\n{loop}, which leases again" if left else ""

    def _add_failure(self, schedule: Schedule, error: BaseException, hint: str) -> None:
        cause = schedule.tasks.first_error
        if schedule.is_sequential and cause and not error.__cause__:
            error.__cause__ = cause  # so that its traceback says why a handler fails by itself
        failure = RaceFailure(
            number=self.count,
            schedule=tuple(map(str, schedule.steps)),
            replay=format_replay((each.chosen for each in schedule.choices), schedule.sequence),
            error=error,
            state=self.describe() + hint,
            is_sequential=schedule.is_sequential,
        )
        if failure.kind not in {each.kind for each in self.failures}:
            self.failures.append(failure)
            for log in schedule.held:
                log()

    def raise_failures(self, failed: int) -> None:
        """Raise a RaceTestError if a schedule has failed."""
        if not self.failures:
            return
        first = self.failures[0]
        if self.count > first.number:  # so that the test, and its report, see that state
            self._run(*parse_replay(first.replay))
        own = [lock.name for lock in self.locks if len(lock.users) > 1 and lock.name]
        hints = [
            f"each actor has its own {name}, as instances have; instances=False shares it"
            for name in own
        ]
        if first.is_sequential and self.count > 1:
            hints.append(
                f"{failed} of {self.count} orders that were tried fail: look at setup, at "
                "check, and at what each actor does alone"
            )
        raise RaceTestError(self.failures, hints) from first.error

    def result(self, search: Search, unseen: Iterable[str], shared: Iterable[str]) -> RaceResult:
        """Return the result of a search that has found no failure."""
        bounds = []
        if search.is_bounded:
            bounds.append(f"with at most {counted(search.preemptions, 'preemption')}")
            if search.moves_time:
                bounds[0] += " (time that passes an actor is one, a deadline two)"
        if search.draws:
            most = counted(min(1, search.preemptions), "preemption")
            others = f"{SEQUENCES - 1} other sequences of random numbers"
            bounds.append(f"with {others} at most {most}")
        if search.differs:
            bounds.append("whose calls differ from run to run")
        if self.unordered:
            bounds.append(without_orders(self.unordered))
        if search.only_first:
            where = " and ".join(sorted({str(place) for _, place in search.only_first})[:2])
            bounds.append(f"only the first with calls at {where}: setup may not reset everything")
        result = RaceResult(
            search.count,
            is_complete=search.is_complete and not self.unordered,
            bound=", ".join(bounds),
            estimate=search.estimate,
            seen=self.seen,
            unseen=unseen,
        )
        result.shared, result.not_compared = tuple(shared), tuple(self.memory.not_compared)
        return result

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
