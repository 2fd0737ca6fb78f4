"""What a schedule of `race_test` consists of: actors, choices of who goes on, and their steps."""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from random import Random
from typing import NamedTuple, Protocol

from pullqueue.clock import MovableClock, duration_usec
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.store import Insertion, Lease
from pullqueue.tasks import DeleteResult
from pullqueue.testing.interrupt import IDLE_STEPS, HandlerKilled
from pullqueue.testing.points import Point
from pullqueue.testing.points.actors import Actor, Awaited
from pullqueue.testing.points.footprint import NOTHING, READ, TIME_MOVES, Footprint
from pullqueue.text import quoted

TIME = 0
TIME_KEY = "time"
"""The number and the key of the actor that moves the clock."""

_READS = frozenset({"fetch_statistics", "get_task", "list_tasks"})

REPLAY_DIFFERS = (
    "setup, the actors or the code under test have changed, or setup does not reset everything "
    "(memcache, entities, caches)"
)
"""Why a replay does not fit."""

SETS_DIFFER = "where sets of strings have another order in each process: PYTHONHASHSEED is not set"
"""Why a replay that does not fail may say nothing."""


_SETTLE_SECONDS = 1.0
"""How long an actor waits for a thread that it has started, and that neither calls nor waits."""


class Pending(NamedTuple):
    """The next call of an actor that waits before it."""

    key: str
    """Of the actor."""
    place: object
    """Where the call is made; its calls there have the same effects beside the call itself."""
    footprint: Footprint


@dataclass(eq=False, slots=True)
class Choice:
    """Who could go on at one time, who did, and what that has read and written."""

    options: dict[int, str]
    """The actors that could go on, by number, with their keys."""
    current: int | None
    """Who reached a point, and can go on; None: who ran before has ended, or waits."""
    pending: dict[int, Pending]
    """The next calls of the actors that wait, as far as they are known."""
    others: frozenset[str]
    """The keys of those that are not over, without the current one."""
    known: frozenset[str]
    """The keys of all that are, or were, there."""
    is_waiting: bool
    """True if an actor sleeps, or is blocked, so that others can make it go on."""
    tasks: frozenset[int] = frozenset()
    """The tasks that are due, and have not begun."""
    ready: frozenset[int] | None = None
    """Who could go on before time has moved, directly before this choice; None: it has not."""
    overtaken: int | None = None
    """Who of these had the turn."""
    passed: int = 0
    """What that has counted, since it last made somebody go on."""
    ends_attempts: bool = False
    """True if the next move of time is to the deadline of an attempt."""
    chosen: int = TIME
    calls: Footprint = READ
    """What the chosen actor has called until the next choice."""
    effects: Footprint = NOTHING
    """What it has read and written beside that: an attempt has ended, or the memory is changed."""

    @classmethod
    def among(
        cls,
        options: dict[int, RacingActor | None],
        actors: Iterable[RacingActor],
        before: int | None,
        ready: frozenset[int] | None,
        passed: int,
    ) -> Choice:
        """Return the choice of these options; `actors` have begun, and `before` had the turn."""
        there = {a.number: a for a in (*actors, *options.values()) if a is not None}
        alive = [a for a in there.values() if not a.is_over]
        current = before if ready is None and before in options else None
        return cls(
            {number: actor.key if actor else TIME_KEY for number, actor in options.items()},
            current,
            {a.number: a.pending for a in alive if a.gates and a.pending},
            frozenset(a.key for a in alive if a.number != current),
            frozenset(a.key for a in there.values()),
            is_waiting=any(a.number not in options for a in alive),
            tasks=frozenset(a.number for a in there.values() if a.is_task and a.thread is None),
            ready=ready,
            passed=passed,
            overtaken=before if ready and before in ready else None,
        )

    def preempts(self, option: int) -> bool:
        """Return whether an option takes the turn from an actor that could go on.

        After time has moved, that is not so for those that it makes go on, or go on otherwise.
        """
        if self.current is not None:
            return option not in (self.current, TIME)
        if self.overtaken not in self.options or option in (self.overtaken, TIME):
            return False
        if self.is_new(option):
            return False
        if option in self.tasks:
            return True
        call = self.pending.get(option)
        return call is not None and not call.footprint.conflicts_with(TIME_MOVES)

    def passes(self, option: int) -> int:
        """Return how much an option counts that lets time pass an actor that could go on.

        The deadline of a handler counts as two, all else as one, until somebody else can go on
        because of it.
        """
        if option != TIME or len(self.options) == 1:
            return 0
        passed = 0 if any(map(self.is_new, self.options)) else self.passed
        return max(0, 1 + self.ends_attempts - passed)

    def after_move(self) -> tuple[frozenset[int], int]:
        """Return `ready` and `passed` of the choice after this one, which moves time."""
        if self.ready is None or any(map(self.is_new, self.options)):
            return frozenset(self.options), self.passes(TIME)
        return self.ready, self.passed + self.passes(TIME)

    def default(self, before: int | None) -> int:
        """Return who goes on where nothing is planned; `before` is who had the turn.

        After time has moved, those go on for which it has.
        """
        if self.overtaken is None:
            return before if before in self.options else next(iter(self.options))
        actors = [o for o in self.options if o not in (self.overtaken, TIME)]
        free = sorted((o for o in actors if not self.preempts(o)), key=self.is_new, reverse=True)
        if not free and TIME in self.options and not self.passes(TIME):
            return TIME
        if not free and self.overtaken in self.options:
            return self.overtaken
        return next(iter(free or self.options))

    def is_new(self, option: int) -> bool:
        """Return whether an actor can go on because time has just moved."""
        return self.ready is not None and option not in self.ready

    @property
    def turn(self) -> tuple[str, object]:
        """Who goes on, and from which call of the app; the first call is made as it begins."""
        pending = self.pending.get(self.chosen)
        return self.options[self.chosen], pending and pending.place

    @property
    def footprint(self) -> Footprint:
        """All that the chosen actor has read and written."""
        return self.calls | self.effects


def turns_that_write(choices: Iterable[Choice]) -> frozenset[tuple[str, object]]:
    """Return who has made calls that write, and where."""
    turns = ((choice.turn, choice.calls.writes) for choice in choices)
    return frozenset(turn for turn, written in turns if turn[1] and written)


class Turns(Protocol):
    """What decides whose turn it is."""

    actors: list[RacingActor]
    clock: MovableClock
    current: RacingActor | None
    held: list[Callable[[], None]]
    is_replay: bool
    sequence: int

    def note(self, footprint: Footprint) -> None:
        """Note what the current turn reads and writes beside its call."""

    def wait(self, actor: RacingActor, awaited: Awaited, seconds: float) -> bool:
        """Let others go on until something is there; return False if the time is over."""

    def follow(self, owner: RacingActor, thread: threading.Thread) -> AbstractContextManager[None]:
        """Return a context manager that follows a thread which an actor starts."""

    def add_thread(self, actor: RacingActor) -> None:
        """Start to schedule a thread of an actor by itself."""

    def leave(self, actor: RacingActor, *, is_over: bool = True) -> None:
        """Pass on the turn of an actor that has ended, or to its other threads."""

    def sleep(self, actor: RacingActor, seconds: float) -> None:
        """Let others go on until the clock has reached the end of a sleep."""


class RacingActor(Actor):
    """An actor with a thread of its own, which waits for its turn."""

    can_wait = True
    is_thread = False
    """True if it is a thread that another one has started."""

    def __init__(
        self,
        name: str,
        number: int,
        work: Callable[[], object],
        schedule: Turns,
        *,
        key: str = "",
        request: str = "",
    ) -> None:
        super().__init__(name, HandlerKilled)
        self.number = number
        self.work = work
        self.key = key or name
        """What its attempts, or the copies of a function, have in common."""
        self.threads: dict[threading.Thread, RacingActor] = {}
        """Those that it has started."""
        self.holders: defaultdict[int, RacingActor] = defaultdict(lambda: self)
        """By the id of a lock that it does not share: which of its threads has acquired it last."""
        self.settled = threading.Event()
        """Set once it waits, or has ended, if it is a thread."""
        self.request = request
        """What its first step shows beside the call: the request that is handled."""
        self.schedule = schedule
        self.held = None if schedule.is_replay else schedule.held
        self.awaited: Awaited | None = None
        """What it waits for."""
        self.wait_seconds = -1.0
        """How long; less than 0 is forever."""
        self.is_in_time = False
        """True if time does not pass its next call."""
        self.is_task = False
        """True if it is the handler of a push task."""
        self.preempts: str | None = None
        """From whom it has just taken the turn."""
        self.thread: threading.Thread | None = None
        """None: it has not begun."""
        self.is_over = False
        """True once its function has returned."""
        self.gates: deque[threading.Lock] = deque()
        """What its threads wait for that have reached points."""
        self.calls = 0
        self.wakes_usec: int | None = None
        """When its sleep ends."""
        self.lease_end_usec = 0
        """When its last lease ends."""
        self.next_call = ""
        """What it does when it gets the turn."""
        self.pending: Pending | None = None
        """The same, if it is a call."""
        self.idle_at: dict[str, int] = {}
        """By call, such as a lease in vain or a sleep of no time: the number of changes then."""
        self.idle_steps = 0

    def note_result(self, point: Point, result: object, changes: int) -> bool:
        """Note what a call returned; return False if it was a read, or a lease in vain."""
        if isinstance(point.call, QueueCall) and point.call.verb in _READS:
            return False
        if point.is_lease and isinstance(result, Lease) and not result.tasks:
            self.idle_at[self.next_call] = changes
            self.idle_steps += 1
            return False
        if isinstance(result, Lease):
            self.lease_end_usec = max(task.eta_usec for task in result.tasks)
        if point.is_of_queue:
            self.idle_at, self.idle_steps = {}, 0
            for other in self.schedule.actors:  # may find a task, or else is idle again
                other.idle_steps = min(other.idle_steps, IDLE_STEPS)
        return True

    def note(self, footprint: Footprint) -> None:
        """Note what it reads and writes beside its calls."""
        if self.schedule.current is self.here:
            self.schedule.note(footprint)

    def note_call(self, footprint: Footprint, place: str) -> None:
        """Note a call that it makes, and where; those of threads with turns are ordered."""
        if self.here is self:
            self.strands.note(footprint, place)

    @cached_property
    def random(self) -> Random:
        """What its code draws random numbers from."""
        return Random(f"{self.schedule.sequence} {self.name}")  # noqa: S311 - repeatable

    @property
    def draws(self) -> bool:
        """True if its code has drawn random numbers."""
        return "random" in vars(self)

    @property
    def here(self) -> RacingActor:
        """Who has the turns of this thread: the thread, once it has slept, or this actor."""
        found = self.threads.get(threading.current_thread(), self)
        return found if found.number else self

    def follow(self, thread: threading.Thread) -> AbstractContextManager[None]:
        """Return a context manager that follows a thread which it starts."""
        return self.schedule.follow(self, thread)

    def pass_on(self) -> None:
        """Pass the turn to its other threads: this one has ended, or waits for one of them."""
        self.schedule.leave(self.here, is_over=False)

    def settle(self) -> None:
        """Note that this thread waits."""
        self.threads.get(threading.current_thread(), self).settled.set()

    def await_thread(self, thread: threading.Thread) -> None:
        """Return when a thread that it has started waits or has ended, so that each run has it."""
        if thread in self.threads:
            self.threads[thread].settled.wait(_SETTLE_SECONDS)

    def wait_for(self, awaited: Awaited, seconds: float) -> bool:
        """Return when that is there; False: the time is over; less than 0 is forever."""
        return self.schedule.wait(self.here, awaited, seconds)

    @property
    def is_blocked(self) -> bool:
        """True if it has begun, and is neither over nor at a point."""
        return self.thread is not None and not self.is_over and not self.gates

    @property
    def is_patient(self) -> bool:
        """True if it waits for something, and the time until that is over does not run."""
        return bool(self.awaited) and self.wait_seconds >= 0 and self.wakes_usec is None

    def limit_wait(self, clock: MovableClock) -> None:
        """Begin the time of its wait."""
        self.wakes_usec = clock.now_usec() + duration_usec(self.wait_seconds)

    def is_asleep(self, now_usec: int) -> bool:
        """Return whether it sleeps, or waits for what is not there."""
        if self.awaited is not None and self.awaited.is_there():
            return False
        if self.wakes_usec is None:
            return self.awaited is not None
        return self.wakes_usec > now_usec

    def waits_for_change(self, changes: int) -> bool:
        """Return whether it would lease in vain again, or polls."""
        polls = self.idle_steps > IDLE_STEPS and changes in self.idle_at.values()
        return polls or self.idle_at.get(self.next_call) == changes


class Step(NamedTuple):
    """What an actor has done with its turn."""

    actor: str
    what: Point | str
    result: object = None
    """What the call has returned, or the class of the exception that it has raised."""
    preempted: str | None = None
    """From whom it took the turn."""
    request: str = ""
    """What it handles, in its first step."""

    def __str__(self) -> str:
        what = f"{self.request}: {self.what}" if self.request else self.what
        text = f"{self.actor}: {what}{_describe_result(self.result)}"
        return f"{text}   <- preempts {self.preempted}" if self.preempted else text


def _describe_result(result: object) -> str:
    if isinstance(result, type):
        return f" raises {result.__name__}"
    if isinstance(result, Lease):
        return f" -> {', '.join(quoted(task.name) for task in result.tasks) or 'no tasks'}"
    if isinstance(result, Insertion):
        refused = [f"{quoted(name)} {why.__name__}" for name, why in result.refused.items()]
        return f" -> {', '.join([*(quoted(task.name) for task in result.added), *refused])}"
    if isinstance(result, list) and result and isinstance(result[0], DeleteResult):
        return f" -> {', '.join(each.value for each in result)}"
    return ""


_MOST_CHOICES = 100_000
_SEQUENCE = re.compile(r"r(\d{1,99}) ")
_RUN = re.compile(r"(\d+)(?:x(\d+))?")


def format_replay(choices: Iterable[int], sequence: int) -> str:
    """Return the choices of a schedule as text, such as `1x3 2 0 1x2`.

    Where the random numbers are not those of the first sequence, it begins with theirs, as `r7`.
    """
    runs = [(number, len(list(run))) for number, run in groupby(choices)]
    parts = [f"{number}x{count}" if count > 1 else str(number) for number, count in runs]
    return " ".join([f"r{sequence}", *parts] if sequence else parts)


def parse_replay(text: object) -> tuple[list[int], int]:
    """Return the choices of a schedule, and the sequence of random numbers.

    Raises:
        TypeError or ValueError: the text is not that of a schedule.
    """
    if not isinstance(text, str):
        raise TypeError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
    choices: list[int] = []
    begins = _SEQUENCE.match(text)
    for part in text[begins.end() if begins else 0 :].split():
        found = _RUN.fullmatch(part)
        if found is None or int(found[2] or 1) > _MOST_CHOICES:
            raise ValueError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
        choices += [int(found[1])] * int(found[2] or 1)
    return choices, int(begins[1]) if begins else 0
