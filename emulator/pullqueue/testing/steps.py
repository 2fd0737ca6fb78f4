"""What a schedule of `race_test` consists of: actors, choices of who goes on, and their steps."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import NamedTuple

from pullqueue.engine.store import Insertion, Lease
from pullqueue.tasks import DeleteResult
from pullqueue.testing.interrupt import IDLE_STEPS, HandlerKilled
from pullqueue.testing.points import Actor, Point
from pullqueue.text import quoted

TIME = 0
"""The number of the actor that moves the clock."""

REPLAY_DIFFERS = (
    "setup, the actors or the code under test have changed, or setup does not reset everything "
    "(memcache, entities, caches)"
)
"""Why a replay does not fit."""


class Choice(NamedTuple):
    """Who could go on at one time, and who did."""

    options: tuple[int, ...]
    chosen: int
    current: int | None
    """Who reached a point, and can go on; None: who ran before has ended, or waits."""

    def preempts(self, option: int) -> bool:
        """Return whether an option takes the turn from an actor that could go on."""
        return self.current in self.options and option not in (self.current, TIME)


class RacingActor(Actor):
    """An actor with a thread of its own, which waits for its turn."""

    def __init__(
        self,
        name: str,
        number: int,
        work: Callable[[], object],
        *,
        beginning: str = "begins",
    ) -> None:
        super().__init__(name, HandlerKilled)
        self.number = number
        self.work = work
        self.beginning = beginning
        """Its first step."""
        self.is_task = False
        """True if it is the handler of a push task."""
        self.thread: threading.Thread | None = None
        """None: it has not begun."""
        self.is_over = False
        """True once its function has returned."""
        self.gates: deque[threading.Lock] = deque()
        """What its threads wait for that have reached points."""
        self.calls = 0
        self.wakes_usec: int | None = None
        """When its sleep ends."""
        self.next_call = ""
        """What it does when it gets the turn."""
        self.idle_at: dict[str, int] = {}
        """By call, such as a lease in vain or a sleep of no time: the number of changes then."""
        self.idle_steps = 0

    @property
    def is_blocked(self) -> bool:
        """True if it has begun, and is neither over nor at a point."""
        return self.thread is not None and not self.is_over and not self.gates

    def waits_for_change(self, changes: int) -> bool:
        """Return whether it would lease in vain again, or polls."""
        polls = self.idle_steps > IDLE_STEPS and changes in self.idle_at.values()
        return polls or self.idle_at.get(self.next_call) == changes


class Step(NamedTuple):
    """What an actor has done with its turn."""

    actor: str
    what: Point | str
    result: object = None
    preempted: str | None = None
    """From whom it took the turn."""

    def __str__(self) -> str:
        text = f"{self.actor}: {self.what}{_describe_result(self.result)}"
        return f"{text}   <- preempts {self.preempted}" if self.preempted else text


def _describe_result(result: object) -> str:
    if isinstance(result, Exception):
        return f" raises {type(result).__name__}"
    if isinstance(result, Lease):
        return f" -> {', '.join(quoted(task.name) for task in result.tasks) or 'no tasks'}"
    if isinstance(result, Insertion):
        refused = [f"{quoted(name)} {why.__name__}" for name, why in result.refused.items()]
        return f" -> {', '.join([*(quoted(task.name) for task in result.added), *refused])}"
    if isinstance(result, list) and result and isinstance(result[0], DeleteResult):
        return f" -> {', '.join(each.value for each in result)}"
    return ""


_MOST_CHOICES = 100_000
_RUN = re.compile(r"(\d+)(?:x(\d+))?")


def format_replay(choices: Iterable[Choice]) -> str:
    """Return the choices of a schedule as text, such as `1x3 2 0 1x2`."""
    runs = [(number, len(list(run))) for number, run in groupby(each.chosen for each in choices)]
    return " ".join(f"{number}x{count}" if count > 1 else str(number) for number, count in runs)


def parse_replay(text: object) -> list[int]:
    """Return the choices of a schedule; raise a TypeError or ValueError if it is none."""
    if not isinstance(text, str):
        raise TypeError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
    choices: list[int] = []
    for part in text.split():
        found = _RUN.fullmatch(part)
        if found is None or int(found[2] or 1) > _MOST_CHOICES:
            raise ValueError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
        choices += [int(found[1])] * int(found[2] or 1)
    return choices
