"""One schedule of `race_test`: actors in threads, of which one runs at a time.

An actor waits before each of its calls until it gets the turn. Whoever has it decides, before it
goes on, who is next; so the scheduler has no thread of its own, and a call without a switch makes
no thread wait for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic

from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.arguments import SelectQueues
from pullqueue.testing.clock import sleeping
from pullqueue.testing.exploration.blocking import LastCall, stacks, wait_for_end
from pullqueue.testing.exploration.handlers import PushTasks, Refusal
from pullqueue.testing.exploration.steps import (
    REPLAY_DIFFERS,
    TIME,
    Choice,
    Pending,
    RacingActor,
    Step,
)
from pullqueue.testing.exploration.threads import ThreadActor, is_beside_main_task
from pullqueue.testing.interrupt import IDLE_STEPS, WorkerInterrupt, is_normal_exit
from pullqueue.testing.memory import Memory
from pullqueue.testing.points import Point
from pullqueue.testing.points.actors import Awaited, current_actor
from pullqueue.testing.points.databases import release
from pullqueue.testing.points.databases.calls import DatabaseCall
from pullqueue.testing.points.footprint import CHANGED, TIME_MOVES, Footprint
from pullqueue.testing.sender import Sender
from pullqueue.text import shorten

_END_SECONDS = 5.0
"""How long a schedule that has failed waits for the threads of its actors to end."""


@dataclass(eq=False, kw_only=True)
class Schedule:
    """One run of all actors."""

    emulator: Emulator
    clock: MovableClock
    functions: Sequence[tuple[str, str, Callable[[], object]]]
    """The names of the actors of the test, and of their functions, and what they do."""
    sender: Sender
    queues: SelectQueues
    """Those whose push tasks are sent."""
    plan: Sequence[int]
    """The choices with which it begins."""
    is_replay: bool
    moves_time: bool
    max_calls: int
    memory: Memory
    last_call: LastCall
    sequence: int
    """Which random numbers are drawn."""
    restarts: bool
    """A function that raises is started again, when its leases have expired."""
    choices: list[Choice] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    held: list[Callable[[], None]] = field(default_factory=list)
    """What actors have logged, which is noise unless the schedule fails."""
    error: BaseException | None = None
    """What an actor has raised, or why the schedule was ended."""
    current: RacingActor | None = None
    """The actor that has the turn."""
    is_sequential: bool = True
    """False if an actor has begun, or time has moved, before another actor was over."""

    def __post_init__(self) -> None:
        self.tasks = PushTasks(self.emulator, self.sender, self.queues, self.note)
        self._context = copy_context()
        self._due: dict[object, RacingActor] = {}
        """The actors of tasks that were due at some time, and have not begun."""
        self._numbers = self._progress = 0
        self.actors = [self._new_actor(name, work, key=key) for name, key, work in self.functions]
        """Those that can begin, or have begun; of the tasks only these."""
        self._mutex = threading.RLock()
        self._ended = threading.Event()
        self._is_stuck = False  # True if all actors are blocked, so that their threads never end
        self._changes = 0
        """Number of calls after which a lease in vain may return tasks."""

    def run(self) -> None:
        """Run until all actors have ended; then `error` is what went wrong, if anything."""
        with self._mutex:
            self._hand_over(None)
        try:
            wait_for_end(
                self._ended,
                lambda: (self._progress, self.last_call.checks),
                self._go_on_without_blocked,
            )
        finally:  # also where the test is interrupted
            self._end(None)
        end = monotonic() + (0 if self._is_stuck else _END_SECONDS)
        for actor in self.actors:
            if actor.thread is not None:
                actor.thread.join(0.1 if actor.is_thread else max(0, end - monotonic()))
            actor.has_ended = True  # threads that it has started may not
            release(actor)
        self._conclude()

    # -- what the threads of actors call -----------------------------------------------------------

    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Wait for the turn, and then carry a call out."""
        actor = point.actor
        if not isinstance(actor, RacingActor):
            return call_next()
        actor, footprint = actor.here, point.footprint
        pending = Pending(actor.key, point.place or point.what, footprint)
        self._wait(actor, point.what if point.is_lease else "", pending)
        self.last_call.begin(point)
        self._progress += 1
        if self.choices:
            self.choices[-1].calls |= footprint
        result: object = None
        try:
            result = call_next()
        except Exception as error:
            result = error
            raise
        finally:
            self._record(actor, point, result)
            self._changes += actor.note_result(point, result, self._changes)
        return result

    def at_attempt(self, _: PushRequest, call_next: Callable[[], PushResponse]) -> PushResponse:
        """Send the request of a task, which is an actor; refuse it to others."""
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
        actor.wakes_usec = self.clock.now_usec() + duration_usec(seconds)
        changes = self._changes
        polls = seconds <= 0 and actor.idle_at.get("sleep") == changes
        self._wait(actor, "sleep" if polls else "", None, can_go_on=False)
        actor.wakes_usec, actor.idle_at = None, {"sleep": changes} if seconds <= 0 else {}
        self._record(actor, f"has slept {timedelta(seconds=seconds)}")

    def wait(self, actor: RacingActor, awaited: Awaited, seconds: float) -> bool:
        """Let others go on until something is there; return False if the time is over."""
        actor.awaited, actor.wait_seconds = awaited, seconds
        if seconds >= 0 and not awaited.is_patient:
            actor.limit_wait(self.clock)
        self._record(actor, f"waits for {awaited.name}")
        self._wait(actor, "", None, can_go_on=False)
        actor.awaited = actor.wakes_usec = None
        return awaited.is_there()

    def _wait(
        self, actor: RacingActor, call: str, pending: Pending | None, *, can_go_on: bool = True
    ) -> None:
        """Return when an actor may make its next call, or end it."""
        gate = threading.Lock()
        gate.acquire()
        if self.current is actor:
            self.last_call.end(self.actors)
        with self._mutex:
            self._progress += 1
            actor.next_call, actor.pending = call, pending
            actor.is_in_time = actor.is_thread or is_beside_main_task()
            actor.gates.append(gate)
            actor.settle()
            if self._ended.is_set():
                gate.release()
            elif self.current is actor or self.current is None:
                self._hand_over(actor if can_go_on and self.current is actor else None)
        gate.acquire()
        if self._ended.is_set() or actor.has_ended:
            actor.end()
        actor.calls += 1
        if actor.calls > self.max_calls:
            self._end(
                AssertionError(
                    f"{actor.name} has made {self.max_calls} calls; if this is not an endless "
                    "loop, pass a higher max_calls"
                )
            )
            actor.end()

    def _work(self, actor: RacingActor) -> None:
        """Do the work of an actor, in a thread of its own."""
        try:
            with actor.acting(), sleeping(self.clock, partial(self.sleep, actor)):
                result = self._work_until_done(actor)
            if isinstance(result, str):
                self._record(actor, result)
        except WorkerInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is fails the test
            if not (actor.has_ended or is_normal_exit(error)):
                self._end(error)
        finally:
            self.leave(actor)

    def leave(self, actor: RacingActor, *, is_over: bool = True) -> None:
        """Pass on the turn of an actor that has ended, or to its other threads."""
        with self._mutex:
            self._progress += 1
            actor.is_over |= is_over
            if self.current is None or (self.current is actor and (is_over or actor.gates)):
                self._hand_over(None if is_over else self.current)

    def follow(self, owner: RacingActor, thread: threading.Thread) -> AbstractContextManager[None]:
        """Return a context manager that follows a thread which an actor starts."""
        actor = owner.threads[thread] = ThreadActor(owner, thread)
        return actor.following()

    def add_thread(self, actor: RacingActor) -> None:
        """Start to schedule a thread of an actor by itself."""
        with self._mutex:
            self._numbers += 1
            actor.number = self._numbers
            self.actors.append(actor)

    def _work_until_done(self, actor: RacingActor) -> object:
        """Return what an actor returns; if it fails, wait until it can be started again."""
        while True:
            try:
                return actor.work()
            except Exception as error:
                if actor.is_task or actor.has_ended or not self.restarts:
                    raise
                text = shorten(f"{type(error).__name__}: {error}", limit=100)
            self._record(actor, f"raises {text}, and is started again")
            actor.wakes_usec = actor.lease_end_usec
            self._wait(actor, "", None, can_go_on=False)
            actor.wakes_usec, actor.lease_end_usec = None, 0

    def _record(self, actor: RacingActor, what: Point | str, result: object = None) -> None:
        preempted, actor.preempts = actor.preempts, None
        request, actor.request = actor.request, ""
        result = type(result) if isinstance(result, Exception) else result
        if isinstance(what, Point) and isinstance(what.call, DatabaseCall):
            # They would keep a cursor, which can have a lock, longer than the app does.
            what, result = str(what), result if isinstance(result, type) else None
        self.steps.append(Step(actor.name, what, result, preempted, request))

    # -- turns: with the mutex ---------------------------------------------------------------------

    def _hand_over(self, current: RacingActor | None) -> None:
        """Pass the turn to the next actor, or end the schedule."""
        self.current = None
        if self._ended.is_set():
            return
        chosen = self._choose(current)
        if chosen is None:
            if self._are_over():
                self._end(None)
            elif not any(actor.is_blocked for actor in self.actors):
                self._end_blocked()  # by locks of the test
            return  # or else some are blocked
        self.current = chosen
        if chosen.thread is not None:
            chosen.gates.popleft().release()
            return
        if chosen.is_task:
            self.actors.append(chosen)
        endless = self.tasks.endless
        if len(self.actors) > self.max_calls:
            endless = (
                f"{len(self.actors)} actors have begun; if this is not an endless loop of "
                "tasks that add others or fail, pass a higher max_calls"
            )
        if endless is not None:
            self._end(AssertionError(endless))
            return
        self._note_overlap()
        context = self._context.copy()  # and not that of whoever has had the turn
        chosen.thread = threading.Thread(
            target=context.run, args=(self._work, chosen), name=chosen.name, daemon=True
        )
        with chosen.acting():  # not a thread of whoever has had the turn
            chosen.thread.start()

    def _are_over(self) -> bool:
        """Return whether all actors have ended, except threads, which end with them."""
        return all(actor.is_over or actor.is_thread for actor in self.actors)

    def _choose(self, current: RacingActor | None) -> RacingActor | None:
        """Return who goes on; None: nobody can."""
        self._conclude()
        ready: frozenset[int] | None = None
        passed, before = 0, current.number if current else None
        while options := self._options():
            choice = Choice.among(options, self.actors, before, ready, passed)
            choice.others |= self.tasks.retried
            if TIME in options and (deadlines := self.tasks.deadlines):
                choice.ends_attempts = min(deadlines) <= self._target_usec()
            chosen = self._planned(choice)
            choice.chosen = choice.default(before) if chosen is None else chosen
            self.choices.append(choice)
            if (actor := options[choice.chosen]) is not None:
                if current and actor is not current:
                    actor.preempts = current.name if choice.preempts(actor.number) else None
                return actor
            self._move_time()
            ready, passed = choice.after_move()
        return None

    def _conclude(self) -> None:
        """Note what the last turn has changed beside its call."""
        choice = self.choices[-1] if self.choices else None
        if choice and choice.chosen != TIME and self.memory.has_changed(choice.turn):
            choice.effects |= CHANGED

    def note(self, footprint: Footprint) -> None:
        """Note what the current turn reads and writes beside its call."""
        if self.choices:
            self.choices[-1].effects |= footprint

    def _planned(self, choice: Choice) -> int | None:
        index, options = len(self.choices), choice.options
        if index >= len(self.plan):
            return None
        chosen = self.plan[index]
        if chosen in options:
            return chosen
        if self.is_replay:
            why = f"is {chosen}, but only {' or '.join(map(str, options))} can go on"
            text = f"replay does not fit: its choice {index + 1} {why}; {REPLAY_DIFFERS}"
            self._end(Refusal(ValueError(text)))
        return None

    def _options(self) -> dict[int, RacingActor | None]:
        """Return who can go on, by number; the first goes on where nothing is planned."""
        now_usec = self.clock.now_usec()
        are_over = self._are_over()
        there = [actor for actor in self.actors if not (actor.is_thread and are_over)]
        waiting = [actor for actor in there if actor.thread is None or actor.gates]
        polling = [actor for actor in waiting if actor.awaited is None]
        awake = [actor for actor in waiting if not actor.is_asleep(now_usec)]
        ready = [actor for actor in awake if not actor.waits_for_change(self._changes)]
        ready += self._due_tasks()
        if not ready:
            for actor in waiting:
                if actor.is_patient:
                    actor.limit_wait(self.clock)
        asleep = [a for a in waiting if a not in awake and a.wakes_usec is not None]
        options: dict[int, RacingActor | None] = {actor.number: actor for actor in ready}
        event = self._next_event_usec(is_needed=not ready)
        if options:
            is_possible = event is not None or (asleep and self.moves_time)
            if is_possible and not any(actor.is_in_time for actor in ready):
                options[TIME] = None
        elif event is None and polling and all(a.idle_steps > IDLE_STEPS for a in polling):
            for actor in polling:
                actor.has_ended = True
                options[actor.number] = actor
        elif asleep or (event is not None and (waiting or self.tasks.next_usec() is not None)):
            options[TIME] = None
        elif polling:  # to lease in vain once more
            first = min(polling, key=lambda actor: actor.idle_steps)
            options[first.number] = first
        return options

    def _next_event_usec(self, *, is_needed: bool) -> int | None:
        """Return when time changes anything; where it is left out, only what handlers wait for."""
        if self.moves_time:
            usec = self.emulator.next_change_usec()
            # Nobody is slower than the longest lease; else each task could be too old to be sent.
            longest_usec = self.emulator.limits.lease_seconds * USEC_PER_SECOND
            is_far = usec is not None and usec - self.clock.now_usec() > longest_usec
            return None if is_far and not is_needed else usec
        is_blocked = any(actor.is_blocked for actor in self.actors)
        usec = self.tasks.next_usec() if is_needed and not is_blocked else None
        return usec if usec is not None and usec > self.clock.now_usec() else None

    def _due_tasks(self) -> list[RacingActor]:
        due: list[RacingActor] = []
        for task in self.tasks.due():
            actor = self._due.get(task.attempt)
            if actor is None or actor.thread is not None:
                actor = self._new_actor(task.name, task.work, key=task.key, request=task.request)
                actor.is_task = True
                self._due[task.attempt] = actor
            due.append(actor)
        return due

    def _new_actor(self, name: str, work: Callable[[], object], **options: str) -> RacingActor:
        self._numbers += 1
        return RacingActor(name, self._numbers, work, self, **options)

    def _note_overlap(self) -> None:
        if any(actor.thread is not None and not actor.is_over for actor in self.actors):
            self.is_sequential = False

    def _move_time(self) -> None:
        """Move the clock to the next event, or the end of a sleep, whichever is first."""
        self._note_overlap()
        now_usec, target_usec = self.clock.now_usec(), self._target_usec()
        self.note(TIME_MOVES)
        reached = self.clock.move_to_usec(target_usec)
        self._changes += 1
        moved = timedelta(microseconds=target_usec - now_usec)
        self.steps.append(Step("time", f"moves {moved} to {reached.isoformat()}"))
        self.steps += [Step("time", text) for text in self.tasks.end_overdue()]

    def _target_usec(self) -> int:
        """Return the time of the next event, or of the end of a sleep, whichever is first."""
        times = [a.wakes_usec for a in self.actors if a.gates]
        times.append(self._next_event_usec(is_needed=True))
        now_usec = self.clock.now_usec()
        return min(usec for usec in times if usec is not None and usec > now_usec)

    def _end(self, error: BaseException | None) -> None:
        """End the schedule: whoever waits is stopped."""
        with self._mutex:
            self.error = self.error or error
            self._ended.set()
            for actor in self.actors:
                while actor.gates:
                    actor.gates.popleft().release()

    # -- actors that are blocked outside their points ----------------------------------------------

    def _go_on_without_blocked(self, progress: int, is_stuck: bool) -> None:  # noqa: FBT001 - as it is called
        with self._mutex:
            if progress != self._progress:  # it has just gone on
                return
            self._hand_over(None)
            if is_stuck and self.current is None and not self._ended.is_set():
                self._is_stuck = True
                self._end_blocked()

    def _end_blocked(self) -> None:
        self._end(AssertionError("\n".join(["all actors are blocked:", *stacks(self.actors)])))
