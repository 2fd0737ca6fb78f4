"""One schedule of `race_test`: actors in threads, of which one runs at a time.

An actor waits before each of its calls until it gets the turn. Whoever has it decides, before it
goes on, who is next; so the scheduler has no thread of its own, and a call without a switch makes
no thread wait for another.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from time import monotonic, process_time
from typing import NamedTuple, Protocol

from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall
from pullqueue.engine.store import Lease
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.clock import sleeping
from pullqueue.testing.interrupt import IDLE_STEPS, HandlerKilled, WorkerInterrupt
from pullqueue.testing.points import Actor, Point, current_actor
from pullqueue.testing.steps import REPLAY_DIFFERS, TIME, Choice, Step

__tracebackhide__ = True  # a failed test is shown at its own line

_CHECK_SECONDS = 0.5
_BLOCKED_CHECKS = 4
"""An actor that reaches no point during this many checks is blocked."""
_IDLE_CPU_SECONDS = 0.002
_BUSY_CPU_SECONDS = 10.0
"""If nobody else can go on, an actor is stuck if the process uses less CPU time than the first
between checks, or if the actor has used more than the second."""

_END_SECONDS = 5.0
"""How long a schedule that has failed waits for the threads of its actors to end."""

_READS = frozenset({"fetch_statistics", "get_task", "list_tasks"})


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


class Refusal(BaseException):
    """what the test has passed is wrong; `.error` says why"""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class DueTask(NamedTuple):
    """A push task that can start now."""

    key: object
    """Identifies the attempt."""
    name: str
    work: Callable[[], object]
    beginning: str
    """Its first step."""


class TaskSource(Protocol):
    """Where the push tasks come from that are actors, too."""

    def due(self) -> Iterable[DueTask]:
        """Return those that can start now."""

    def next_usec(self) -> int | None:
        """Return when time alone makes one due."""

    def end_overdue(self) -> Iterable[str]:
        """End the attempts whose deadline has passed, and return what is recorded of them."""


class Schedule:
    """One run of all actors."""

    def __init__(
        self,
        emulator: Emulator,
        clock: MovableClock,
        tasks: TaskSource,
        *,
        plan: Sequence[int],
        is_replay: bool,
        moves_time: bool,
        max_calls: int,
    ) -> None:
        """Prepare a run that begins with the choices of `plan`."""
        self.choices: list[Choice] = []
        self.steps: list[Step] = []
        self.error: BaseException | None = None
        """What an actor has raised, or why the schedule was ended."""
        self.actors: list[RacingActor] = []
        """Those that can begin, or have begun; of the tasks only these."""
        self._emulator = emulator
        self._clock = clock
        self._tasks = tasks
        self._context = copy_context()
        self._due: dict[object, RacingActor] = {}
        """The actors of tasks that were due at some time, and have not begun."""
        self._numbers = 0
        self._plan = plan
        self._is_replay = is_replay
        self._moves_time = moves_time
        self._max_calls = max_calls
        self._mutex = threading.RLock()
        self._ended = threading.Event()
        self._turn: RacingActor | None = None
        self._preempted: str | None = None
        self._progress = 0
        self.is_sequential = True
        """False if an actor has begun, or time has moved, before another actor was over."""
        self._is_stuck = False
        """True if all actors are blocked, so that their threads never end."""
        self._changes = 0
        """Number of calls after which a lease in vain may return tasks."""

    def add_actor(self, name: str, work: Callable[[], object]) -> None:
        """Add an actor, which begins when it gets its first turn."""
        self.actors.append(self._new_actor(name, work))

    def run(self) -> None:
        """Run until all actors have ended; then `error` is what went wrong, if anything."""
        with self._mutex:
            self._hand_over(None)
        try:
            self._wait_for_end()
        finally:  # also where the test is interrupted
            self._end(None)
        end = monotonic() + (0 if self._is_stuck else _END_SECONDS)
        for actor in self.actors:
            if actor.thread is not None:
                actor.thread.join(max(0, end - monotonic()))
            actor.has_ended = True  # threads that it has started may not

    def _wait_for_end(self) -> None:
        """Wait until the schedule has ended, and let others go on where one is blocked."""
        progress, cpu_seconds = -1, 0.0
        quiet = idle = 0
        busy_seconds = 0.0
        checked = monotonic()
        while not self._ended.wait(_CHECK_SECONDS):
            is_late = monotonic() - checked > 1.5 * _CHECK_SECONDS
            checked = monotonic()
            used, cpu_seconds = process_time() - cpu_seconds, process_time()
            is_quiet, progress = progress == self._progress, self._progress
            quiet = quiet + 1 if is_quiet else 0
            if used >= _IDLE_CPU_SECONDS:
                idle = 0
            elif not is_late:  # or else the machine is too busy to run this process
                idle += 1
            busy_seconds = busy_seconds + used if is_quiet else 0.0
            if quiet and quiet % _BLOCKED_CHECKS == 0:
                is_stuck = idle >= _BLOCKED_CHECKS or busy_seconds > _BUSY_CPU_SECONDS
                self._go_on_without_blocked(progress, is_stuck=is_stuck)

    @property
    def current(self) -> RacingActor | None:
        """The actor that has the turn."""
        return self._turn

    # -- what the threads of actors call -----------------------------------------------------------

    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Wait for the turn, and then carry a call out."""
        actor = point.actor
        if not isinstance(actor, RacingActor):
            return call_next()
        self._wait(actor, str(point))
        result: object = None
        try:
            result = call_next()
        except Exception as error:
            result = error
            raise
        finally:
            self._record(actor, point, result)
            self._consider(actor, point, result)
        return result

    def at_attempt(self, _: PushRequest, call_next: Callable[[], PushResponse]) -> PushResponse:
        """Send the request of a task, which is an actor.

        Raises:
            Refusal: another actor sends it.
        """
        actor = current_actor()
        if isinstance(actor, RacingActor) and not actor.is_task:
            raise Refusal(
                TypeError(
                    f"race_test: {actor.name} calls run_tasks, so its handlers would not be "
                    "actors: pass the app to race_test, as app=, send= or deferred=True"
                )
            )
        return call_next()

    def sleep(self, actor: RacingActor, seconds: float) -> None:
        """Let others go on until the clock has reached the end of a sleep."""
        actor.wakes_usec = self._clock.now_usec() + duration_usec(seconds)
        changes = self._changes
        polls = seconds <= 0 and actor.idle_at.get("sleep") == changes
        self._wait(actor, "sleep" if polls else "", can_go_on=False)
        actor.wakes_usec, actor.idle_at = None, {"sleep": changes} if seconds <= 0 else {}
        self._record(actor, f"has slept {timedelta(seconds=seconds)}")

    def _wait(self, actor: RacingActor, call: str, *, can_go_on: bool = True) -> None:
        """Return when an actor may make its next call.

        Raises:
            HandlerKilled: it may not make any more.
        """
        gate = threading.Lock()
        gate.acquire()
        with self._mutex:
            self._progress += 1
            actor.next_call = call
            actor.gates.append(gate)
            if self._ended.is_set():
                gate.release()
            elif self._turn is actor or self._turn is None:
                self._hand_over(actor if can_go_on and self._turn is actor else None)
        gate.acquire()
        if self._ended.is_set() or actor.has_ended:
            actor.end()
        actor.calls += 1
        if actor.calls > self._max_calls:
            self._end(
                AssertionError(
                    f"{actor.name} has made {self._max_calls} calls; if this is not an endless "
                    "loop, pass a higher max_calls"
                )
            )
            actor.end()

    def _work(self, actor: RacingActor) -> None:
        """Do the work of an actor, in a thread of its own."""
        try:
            with actor.acting(), sleeping(self._clock, partial(self.sleep, actor)):
                result = actor.work()
            if isinstance(result, str):
                self._record(actor, result)
        except WorkerInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is fails the test
            if not actor.has_ended:
                self._end(error)
        finally:
            with self._mutex:
                self._progress += 1
                actor.is_over = True
                if self._turn is actor or self._turn is None:
                    self._hand_over(None)

    def _record(self, actor: RacingActor, what: Point | str, result: object = None) -> None:
        preempted, self._preempted = self._preempted, None
        self.steps.append(Step(actor.name, what, result, preempted))

    def _consider(self, actor: RacingActor, point: Point, result: object) -> None:
        """Note whether a call has changed anything, or was a lease in vain."""
        verb = point.call.verb if isinstance(point.call, QueueCall) else ""
        if verb in _READS:
            return
        if verb in LEASE_VERBS and isinstance(result, Lease) and not result.tasks:
            actor.idle_at[str(point)] = self._changes
            actor.idle_steps += 1
            return
        self._changes += 1
        if point.is_of_queue:
            actor.idle_at, actor.idle_steps = {}, 0

    # -- turns: with the mutex ---------------------------------------------------------------------

    def _hand_over(self, current: RacingActor | None) -> None:
        """Pass the turn to the next actor, or end the schedule."""
        self._turn = None
        if self._ended.is_set():
            return
        chosen = self._choose(current)
        if chosen is None:
            if all(actor.is_over for actor in self.actors):
                self._end(None)
            return  # or else some are blocked
        self._turn = chosen
        if chosen.thread is not None:
            chosen.gates.popleft().release()
            return
        if chosen.is_task:
            self.actors.append(chosen)
        if len(self.actors) > self._max_calls:
            self._end(
                AssertionError(
                    f"{len(self.actors)} actors have begun; if this is not an endless loop of "
                    "tasks that add others or fail, pass a higher max_calls"
                )
            )
            return
        self._note_overlap()
        self._record(chosen, chosen.beginning)
        context = self._context.copy()  # and not that of whoever has had the turn
        chosen.thread = threading.Thread(
            target=context.run, args=(self._work, chosen), name=chosen.name, daemon=True
        )
        with chosen.acting():  # not a thread of whoever has had the turn
            chosen.thread.start()

    def _choose(self, current: RacingActor | None) -> RacingActor | None:
        """Return who goes on; None: nobody can."""
        while options := self._options():
            number = current.number if current and current.number in options else None
            chosen = self._planned(options)
            if chosen is None:
                chosen = next(iter(options)) if number is None else number
            choice = Choice(tuple(options), chosen, number)
            self.choices.append(choice)
            actor = options[chosen]
            if actor is not None:
                is_preempted = current is not None and choice.preempts(chosen)
                self._preempted = current.name if current and is_preempted else None
                return actor
            self._move_time()
            current = None
        return None

    def _planned(self, options: dict[int, RacingActor | None]) -> int | None:
        index = len(self.choices)
        if index >= len(self._plan):
            return None
        chosen = self._plan[index]
        if chosen in options:
            return chosen
        if self._is_replay:
            names = " or ".join(map(str, options))
            error = ValueError(
                f"replay does not fit: its choice {index + 1} is {chosen}, but only {names} can go "
                f"on; {REPLAY_DIFFERS}"
            )
            self._end(Refusal(error))
        return None

    def _options(self) -> dict[int, RacingActor | None]:
        """Return who can go on, by number; the first goes on where nothing is planned."""
        now_usec = self._clock.now_usec()
        waiting = [actor for actor in self.actors if actor.thread is None or actor.gates]
        asleep = [actor for actor in waiting if (actor.wakes_usec or 0) > now_usec]
        ready = [a for a in waiting if a not in asleep and not a.waits_for_change(self._changes)]
        ready += self._due_tasks()
        ready.sort(key=lambda actor: actor.wakes_usec is not None)  # a sleep lets others go on
        options: dict[int, RacingActor | None] = {actor.number: actor for actor in ready}
        event = self._next_event_usec(is_needed=not ready)
        if options:
            if event is not None or (asleep and self._moves_time):
                options[TIME] = None
        elif event is None and waiting and all(a.idle_steps > IDLE_STEPS for a in waiting):
            for actor in waiting:
                actor.has_ended = True
                options[actor.number] = actor
        elif asleep or (event is not None and (waiting or self._tasks.next_usec() is not None)):
            options[TIME] = None
        elif waiting:  # to lease in vain once more
            first = min(waiting, key=lambda actor: actor.idle_steps)
            options[first.number] = first
        return options

    def _next_event_usec(self, *, is_needed: bool) -> int | None:
        """Return when time changes anything; where it is left out, only what handlers wait for."""
        if self._moves_time:
            usec = self._emulator.next_change_usec()
            # Nobody is slower than the longest lease; else each task could be too old to be sent.
            longest_usec = self._emulator.limits.lease_seconds * USEC_PER_SECOND
            is_far = usec is not None and usec - self._clock.now_usec() > longest_usec
            return None if is_far and not is_needed else usec
        is_blocked = any(actor.is_blocked for actor in self.actors)
        usec = self._tasks.next_usec() if is_needed and not is_blocked else None
        return usec if usec is not None and usec > self._clock.now_usec() else None

    def _due_tasks(self) -> list[RacingActor]:
        due: list[RacingActor] = []
        for key, name, work, beginning in self._tasks.due():
            actor = self._due.get(key)
            if actor is None or actor.thread is not None:
                actor = self._due[key] = self._new_actor(name, work, beginning=beginning)
                actor.is_task = True
            due.append(actor)
        return due

    def _new_actor(self, name: str, work: Callable[[], object], **options: str) -> RacingActor:
        self._numbers += 1
        return RacingActor(name, self._numbers, work, **options)

    def _note_overlap(self) -> None:
        if any(actor.thread is not None and not actor.is_over for actor in self.actors):
            self.is_sequential = False

    def _move_time(self) -> None:
        """Move the clock to the next event, or the end of a sleep, whichever is first."""
        self._note_overlap()
        now_usec = self._clock.now_usec()
        times = [a.wakes_usec for a in self.actors if a.gates and a.wakes_usec is not None]
        event = self._next_event_usec(is_needed=True)
        times += [] if event is None else [event]
        target_usec = min(usec for usec in times if usec > now_usec)
        reached = self._clock.move_to_usec(target_usec)
        self._changes += 1
        moved = timedelta(microseconds=target_usec - now_usec)
        self.steps.append(Step("time", f"moves {moved} to {reached.isoformat()}"))
        self.steps += [Step("time", text) for text in self._tasks.end_overdue()]

    def _end(self, error: BaseException | None) -> None:
        """End the schedule: whoever waits is stopped."""
        with self._mutex:
            self.error = self.error or error
            self._ended.set()
            for actor in self.actors:
                while actor.gates:
                    actor.gates.popleft().release()

    # -- actors that are blocked outside their points ----------------------------------------------

    def _go_on_without_blocked(self, progress: int, *, is_stuck: bool) -> None:
        with self._mutex:
            if progress != self._progress:  # it has just gone on
                return
            self._hand_over(None)
            if is_stuck and self._turn is None and not self._ended.is_set():
                self._is_stuck = True
                self._end(AssertionError("\n".join(["all actors are blocked:", *self._stacks()])))

    def _stacks(self) -> list[str]:
        frames = sys._current_frames()  # noqa: SLF001 - documented
        lines = []
        for actor in self.actors:
            frame = frames.get(actor.thread.ident or 0) if actor.thread else None
            if not actor.is_over and frame is not None:
                stack = "".join(traceback.format_stack(frame)).rstrip().splitlines()
                lines += [f"{actor.name} is blocked:", *(f"  {line}" for line in stack)]
        return lines
