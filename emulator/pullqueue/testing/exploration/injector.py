"""Where a crash happens: what ends whoever reaches a point, and loses responses."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from pullqueue.errors import DeadlineExceededError, TransientError
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.testing.describing import describe_request
from pullqueue.testing.exploration.left_threads import await_response, await_threads
from pullqueue.testing.exploration.results import WORKER, Crash, CrashFailure
from pullqueue.testing.interrupt import HandlerKilled, WorkerInterrupt, WorkerKilled
from pullqueue.testing.points import Point, loaded_rpcs
from pullqueue.testing.points.actors import Actor, current_actor
from pullqueue.testing.points.databases import release
from pullqueue.testing.points.databases.calls import DatabaseCall, note_unseen

if TYPE_CHECKING:
    from pullqueue.sdk.rpcs import ServiceCall

CALLER_GETS_ERROR = (Crash.ANSWER_LOST, Crash.ERROR)
"""The crashes of which the caller gets an error."""
OF_ATTEMPTS = (Crash.RESPONSE_LOST, Crash.RESTARTED)
"""Those that are not at a call, but at the end of an attempt."""


class CrashPlan(NamedTuple):
    """One crash."""

    crash: Crash | None
    number: int
    """Which point of the run, or which attempt if the crash is at its end; the first is 1."""


@dataclass(eq=False)
class CrashInjector:
    """Carries one crash out: ends whoever reaches its point, or loses a response."""

    plan: CrashPlan
    crashed: Actor | None = None
    """Whom the crash has hit; None: it has not happened."""
    refusal: TypeError | None = None
    """Why the worker was refused."""
    points: list[Point] = field(default_factory=list)
    """Those of the run, until the crash."""
    attempts: list[Actor] = field(default_factory=list)
    held: dict[object, list[Callable[[], None]]] = field(default_factory=dict)
    """What was logged in a run with a crash, by the worker and by the last attempt of each task
    before and after the crash: it is noise unless that fails."""
    last_error: Exception | None = None
    """The exception of the last handler; None: it has raised none."""
    restart: Callable[[], object] | None = None
    """Resets what is in memory, as the start of a new instance does."""
    look: Callable[[str], object] = lambda _: None
    """Called at the end of each attempt, with its URL."""

    def __post_init__(self) -> None:
        self.worker = self._new_actor(WORKER, WorkerKilled)
        self.current = self.worker
        """Whose handler runs, or else the worker."""
        self._counting = threading.Lock()

    def _new_actor(self, name: str, interrupt: type[WorkerInterrupt], key: object = None) -> Actor:
        actor = Actor(name, interrupt)
        if self.plan.crash is not None:
            self.held.pop(key, None)
            self.held[key] = actor.held = []
        return actor

    def planned(self, *, errors: bool) -> Iterator[CrashPlan]:
        """Yield the crashes that are possible in a run like this one."""
        for number, point in enumerate(self.points, start=1):
            yield CrashPlan(Crash.BEFORE, number)
            # What `point` is called before is not seen. After a call to a database that only reads,
            # or that the end of its transaction undoes, the state is that before it.
            if getattr(point.call, "has_lasted", not isinstance(point.call, str)):
                yield CrashPlan(Crash.AFTER, number)
            is_of_service = hasattr(point.call, "service")
            if point.is_of_queue or (errors and is_of_service and point.footprint.writes):
                yield CrashPlan(Crash.ANSWER_LOST, number)
            is_write = isinstance(point.call, DatabaseCall) and bool(point.footprint.writes)
            if errors and (point.is_of_queue or is_of_service or is_write):
                yield CrashPlan(Crash.ERROR, number)
        for crash in OF_ATTEMPTS if self.restart else OF_ATTEMPTS[:1]:
            yield from (CrashPlan(crash, n) for n in range(1, len(self.attempts) + 1))

    def end_instance(self) -> None:
        """Drop what is left of whoever was killed, if anybody was, and begin without its memory."""
        dead = self.crashed
        if dead is None or not dead.has_ended:
            return
        dead.let_go()
        # Its calls have no effect. Generators that were not exhausted are closed by that, which
        # runs their `finally`.
        with dead.acting():
            if rpcs := loaded_rpcs():
                rpcs.drop_requests()
            gc.collect(0)
            release(dead)
        self._restart()

    def _restart(self) -> None:
        if self.restart is not None:
            self.restart()
            self.restart = None  # once

    def failure(self, error: BaseException, state: str) -> CrashFailure:
        """Return what is reported of a crash."""
        crash, hit = self.plan.crash or Crash.BEFORE, self.crashed or self.worker
        calls = tuple(str(point) for point in self.points if point.actor is hit)
        return CrashFailure(
            crash=crash,
            actor=hit.name,
            call_number=0 if crash in OF_ATTEMPTS else len(calls),
            calls=calls,
            error=error,
            state=state,
        )

    def at_point(self, point: Point, call_next: Callable[[], object]) -> object:
        """Carry a call out, unless this is the one at which the crash happens."""
        actor, crash = point.actor, self.plan.crash
        if actor not in (self.worker, *self.attempts):
            note_unseen(f"a thread of an earlier run ({point.place})")
            return call_next()
        if actor is not self.worker:
            await_response(actor)
            point = point._replace(is_late=actor.response is not None)
        if not self._is_hit(point):
            return call_next()
        if crash is Crash.BEFORE:
            actor.end()
        if isinstance(point.call, DatabaseCall) and crash is Crash.ERROR:
            return point.call.fail()
        if crash in CALLER_GETS_ERROR and not point.is_of_queue:
            cast("ServiceCall", point.call).fail(is_lost=crash is Crash.ANSWER_LOST)
            return call_next()
        called = point._replace(is_late=False)
        if crash is Crash.ERROR:
            raise TransientError(f"{called} has failed")
        call_next()
        if crash is Crash.AFTER:
            if isinstance(point.call, DatabaseCall):
                point.call.finish()
            actor.end()
        raise DeadlineExceededError(f"the response to {called} is lost")

    def _is_hit(self, point: Point) -> bool:
        """Count a point, and return whether the crash happens there."""
        with self._counting:
            if self.crashed is not None:
                return False
            self.points.append(point)
            if self.plan.crash in OF_ATTEMPTS or len(self.points) != self.plan.number:
                return False
            self.crashed = point.actor
            return True

    def at_attempt(
        self, request: PushRequest, call_next: Callable[[], PushResponse]
    ) -> PushResponse:
        """Send a request; whoever handles it is an actor."""
        if current_actor() is self.worker:
            self.refusal = TypeError(
                "crash_test: the worker calls run_tasks, so its handlers would not be killed: pass "
                "the app to crash_test, as app=, send= or deferred=True, without a worker that "
                "runs tasks"
            )
            self.worker.end()
        key = request.queue_name, request.task_name, self.crashed is None
        name = (
            f'attempt {request.attempt} of task "{request.task_name}" of queue '
            f'"{request.queue_name}" ({describe_request(request, request.body)})'
        )
        handler = self._new_actor(name, HandlerKilled, key)
        self.attempts.append(handler)
        response: PushResponse | None = None
        before, self.current = self.current, handler
        with handler.acting():
            try:
                response = call_next()
            except BaseException:
                if not handler.has_ended:
                    raise
            finally:
                self.current = before
            response = self._end_attempt(handler, response)
        if self.crashed is handler:
            self.end_instance()
        self.look(request.url)
        self.last_error = None if response is None else response.error
        if response is None:
            return PushResponse(None, reason="its instance was killed")
        if self.plan == (Crash.RESPONSE_LOST, len(self.attempts)):
            self.crashed = handler
            return PushResponse(None, reason="the response was lost", error=response.error)
        if self.plan == (Crash.RESTARTED, len(self.attempts)):
            self.crashed = handler
            self._restart()
        return response

    def _end_attempt(self, handler: Actor, response: PushResponse | None) -> PushResponse | None:
        """Return what the handler has sent, when its threads have ended, too."""
        if response is not None and not handler.has_ended:
            handler.response = handler.response or response
            if not await_threads(handler):
                note_unseen("a thread that goes on after the response")
        if handler.has_ended:
            return handler.response  # an app that catches everything may have sent another
        if self.plan.crash and handler.response and response and response.error:
            # What it raises after its response does not lead to a retry.
            return handler.response._replace(error=response.error)
        return response
