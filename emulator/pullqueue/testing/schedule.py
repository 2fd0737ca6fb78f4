"""One schedule of `race_test`: actors in threads, of which one runs at a time.

An actor waits before each of its calls until it gets the turn. Whoever has it decides, before it
goes on, who is next; so the scheduler has no thread of its own, and a call without a switch makes
no thread wait for another.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic, process_time

from pullqueue.clock import USEC_PER_SECOND, MovableClock, duration_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import LEASE_VERBS, QueueCall
from pullqueue.engine.store import Lease
from pullqueue.push.dispatcher import Dispatcher, RunningAttempt
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.tasks import Task
from pullqueue.testing.arguments import SelectQueues
from pullqueue.testing.clock import sleeping
from pullqueue.testing.describing import describe_request
from pullqueue.testing.interrupt import IDLE_STEPS, WorkerInterrupt
from pullqueue.testing.points import Point, current_actor
from pullqueue.testing.sender import Sender
from pullqueue.testing.steps import REPLAY_DIFFERS, TIME, Choice, RacingActor, Step
from pullqueue.text import shorten

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


class Refusal(BaseException):
    """what the test has passed is wrong; `.error` says why"""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class PushTasks:
    """The push tasks of a schedule; each attempt is an actor."""

    def __init__(self, emulator: Emulator, sender: Sender, queues: SelectQueues) -> None:
        self._emulator = emulator
        self._sender = sender
        self._queues = queues
        self._dispatcher = Dispatcher(emulator, rates=False)
        self._running: dict[RunningAttempt, int] = {}
        """Those that have started and whose deadline, in microseconds, has not passed."""
        self.first_error: Exception | None = None
        """The first exception of a handler."""

    def due(self) -> Iterator[tuple[object, str, Callable[[], str], str]]:
        """Yield those that can start now: which attempt, its name, its work, its first step."""
        running = self._dispatcher.counts
        for queue in self._queues():
            slots = queue.settings.effective_concurrent_requests - running[queue.name]
            for task in self._dispatcher.startable(queue, slots):
                attempt = task.retry_count + 1
                name = f'task "{task.name}"' + (f", attempt {attempt}" if attempt > 1 else "")
                key = queue.name, task.name, attempt
                beginning = f"begins: {describe_request(task.request, task.payload)}"
                yield key, name, partial(self._attempt, task), beginning

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
            self.first_error = self.first_error or attempt.error
        return f"responds: {status}{raised}, {attempt.outcome}"


@dataclass(eq=False, kw_only=True)
class Schedule:
    """One run of all actors."""

    emulator: Emulator
    clock: MovableClock
    functions: Sequence[tuple[str, Callable[[], object]]]
    """What the actors of the test do, by their names."""
    sender: Sender
    queues: SelectQueues
    """Those whose push tasks are sent."""
    plan: Sequence[int]
    """The choices with which it begins."""
    is_replay: bool
    moves_time: bool
    max_calls: int
    choices: list[Choice] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    error: BaseException | None = None
    """What an actor has raised, or why the schedule was ended."""
    current: RacingActor | None = None
    """The actor that has the turn."""
    is_sequential: bool = True
    """False if an actor has begun, or time has moved, before another actor was over."""

    def __post_init__(self) -> None:
        self.tasks = PushTasks(self.emulator, self.sender, self.queues)
        self._context = copy_context()
        self._due: dict[object, RacingActor] = {}
        """The actors of tasks that were due at some time, and have not begun."""
        self._numbers = 0
        self.actors = [self._new_actor(name, work) for name, work in self.functions]
        """Those that can begin, or have begun; of the tasks only these."""
        self._mutex = threading.RLock()
        self._ended = threading.Event()
        self._preempted: str | None = None
        self._progress = 0
        self._is_stuck = False
        """True if all actors are blocked, so that their threads never end."""
        self._changes = 0
        """Number of calls after which a lease in vain may return tasks."""

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

    # -- what the threads of actors call -----------------------------------------------------------

    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Wait for the turn, and then carry a call out."""
        actor = point.actor
        if not isinstance(actor, RacingActor):
            return call_next()
        self._wait(actor, point.what)
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
        self._wait(actor, "sleep" if polls else "", can_go_on=False)
        actor.wakes_usec, actor.idle_at = None, {"sleep": changes} if seconds <= 0 else {}
        self._record(actor, f"has slept {timedelta(seconds=seconds)}")

    def _wait(self, actor: RacingActor, call: str, *, can_go_on: bool = True) -> None:
        """Return when an actor may make its next call, or end it."""
        gate = threading.Lock()
        gate.acquire()
        with self._mutex:
            self._progress += 1
            actor.next_call = call
            actor.gates.append(gate)
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
                if self.current is actor or self.current is None:
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
            actor.idle_at[point.what] = self._changes
            actor.idle_steps += 1
            return
        self._changes += 1
        if point.is_of_queue:
            actor.idle_at, actor.idle_steps = {}, 0

    # -- turns: with the mutex ---------------------------------------------------------------------

    def _hand_over(self, current: RacingActor | None) -> None:
        """Pass the turn to the next actor, or end the schedule."""
        self.current = None
        if self._ended.is_set():
            return
        chosen = self._choose(current)
        if chosen is None:
            if all(actor.is_over for actor in self.actors):
                self._end(None)
            return  # or else some are blocked
        self.current = chosen
        if chosen.thread is not None:
            chosen.gates.popleft().release()
            return
        if chosen.is_task:
            self.actors.append(chosen)
        if len(self.actors) > self.max_calls:
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
        if index >= len(self.plan):
            return None
        chosen = self.plan[index]
        if chosen in options:
            return chosen
        if self.is_replay:
            names = " or ".join(map(str, options))
            error = ValueError(
                f"replay does not fit: its choice {index + 1} is {chosen}, but only {names} can go "
                f"on; {REPLAY_DIFFERS}"
            )
            self._end(Refusal(error))
        return None

    def _options(self) -> dict[int, RacingActor | None]:
        """Return who can go on, by number; the first goes on where nothing is planned."""
        now_usec = self.clock.now_usec()
        waiting = [actor for actor in self.actors if actor.thread is None or actor.gates]
        asleep = [actor for actor in waiting if (actor.wakes_usec or 0) > now_usec]
        ready = [a for a in waiting if a not in asleep and not a.waits_for_change(self._changes)]
        ready += self._due_tasks()
        ready.sort(key=lambda actor: actor.wakes_usec is not None)  # a sleep lets others go on
        options: dict[int, RacingActor | None] = {actor.number: actor for actor in ready}
        event = self._next_event_usec(is_needed=not ready)
        if options:
            if event is not None or (asleep and self.moves_time):
                options[TIME] = None
        elif event is None and waiting and all(a.idle_steps > IDLE_STEPS for a in waiting):
            for actor in waiting:
                actor.has_ended = True
                options[actor.number] = actor
        elif asleep or (event is not None and (waiting or self.tasks.next_usec() is not None)):
            options[TIME] = None
        elif waiting:  # to lease in vain once more
            first = min(waiting, key=lambda actor: actor.idle_steps)
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
        for key, name, work, beginning in self.tasks.due():
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
        now_usec = self.clock.now_usec()
        times = [a.wakes_usec for a in self.actors if a.gates and a.wakes_usec is not None]
        event = self._next_event_usec(is_needed=True)
        times += [] if event is None else [event]
        target_usec = min(usec for usec in times if usec > now_usec)
        reached = self.clock.move_to_usec(target_usec)
        self._changes += 1
        moved = timedelta(microseconds=target_usec - now_usec)
        self.steps.append(Step("time", f"moves {moved} to {reached.isoformat()}"))
        self.steps += [Step("time", text) for text in self.tasks.end_overdue()]

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
            if is_stuck and self.current is None and not self._ended.is_set():
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
