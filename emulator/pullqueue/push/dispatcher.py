"""Which push tasks may start now, and what the end of an attempt does to its task.

Nothing here uses sockets or threads: the caller sends the requests, one after the other or from
several threads.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TypeVar

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.attempts import finish_attempt, renew_attempt, start_attempt
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall, bypass_interceptors, call_deadline
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import Claim
from pullqueue.errors import QueueError, TaskError
from pullqueue.push.attempt import Attempt, RunningAttempt
from pullqueue.push.rate import Rates
from pullqueue.push.request import PushResponse, Send, effective_request, push_request
from pullqueue.push.retry import count_refused, interrupted_for_good, start
from pullqueue.push.scan import Scan
from pullqueue.push.tokens import TokenSigner
from pullqueue.tasks import Task, TaskState

_log = logging.getLogger("pullqueue.push")

_A = TypeVar("_A")
"""An address, in whatever form the caller has it."""


def make_due(queue: Queue, task: Task) -> None:
    """Make a push task due at once; one that is running is left alone."""
    if task.state_at(queue.now_usec()) in (TaskState.SCHEDULED, TaskState.RETRYING):
        renew_attempt(queue, task, lease_seconds=0)


class Dispatcher:
    """Starts and finishes attempts to send the push tasks of an emulator.

    One thread starts them; any may send, renew and finish them.
    """

    def __init__(
        self,
        emulator: Emulator,
        *,
        rates: bool = True,
        throttle: bool = False,
        lease_seconds: float | None = None,
        late_seconds: float = 0,
        app_host: str | None = None,
        signer: TokenSigner | None = None,
    ) -> None:
        """Use the queues of an emulator.

        `rates`: respect rate, bucket_size and max_concurrent_requests. `throttle`: slow a queue
        down after status 503, and count the attempts that the store has recorded, as those of a
        server before this one. `lease_seconds`: how long a task is leased while it runs; None: its
        deadline. `late_seconds`: how much later than intended a busy machine may look for due
        tasks, and still start as many. `app_host` is the host of the app in requests; None: it is
        not known. `signer` makes the tokens that tasks ask for.
        """
        self._emulator = emulator
        self._rates = (
            Rates(emulator, throttle=throttle, late_seconds=late_seconds) if rates else None
        )
        self._lease_seconds = lease_seconds
        self._app_host = app_host
        self._signer = signer or TokenSigner()
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], RunningAttempt] = {}
        self._reserved: set[tuple[str, str]] = set()
        """The tasks whose attempts start at once, in other threads."""
        self._scans: dict[str, Scan] = {}

    @property
    def running(self) -> list[RunningAttempt]:
        """The attempts that have started and are not finished."""
        with self._lock:
            return list(self._running.values())

    @property
    def counts(self) -> Counter[str]:
        """How many attempts of each queue are running, or reserved."""
        with self._lock:
            return Counter(name for name, _ in self._running.keys() | self._reserved)

    def find_startable(self, queue: Queue, limit: int) -> list[Task]:
        """Return up to `limit` tasks of a queue that may start now, in order of eta and arrival."""
        return [task for task, _ in self.find_deliverable(queue, limit, lambda task: task)]

    @bypass_interceptors()
    def find_deliverable(
        self,
        queue: Queue,
        limit: int,
        find_address: Callable[[Task], _A | None],
        *,
        sweeps: bool = True,
    ) -> list[tuple[Task, _A]]:
        """Return the same tasks with their addresses; those without one wait, but no others.

        See `Scan.find` for `sweeps`.
        """
        limit = min(limit, self.count_allowed(queue))
        if limit <= 0:
            return []
        scan = self._scans.setdefault(queue.name, Scan())
        return scan.find(
            queue, limit, find_address=find_address, is_running=self._is_running, sweeps=sweeps
        )

    def look_again(self) -> None:
        """Look at all tasks that wait for an address once more: there are others now."""
        self._scans = {}

    def reserve(self, task: Task) -> None:
        """Count an attempt that is to start at once, in another thread; `release` it after that."""
        queue = self._emulator.queue(task.queue_name)
        with self._lock:
            self._reserved.add((task.queue_name, task.name))
            if self._rates is not None:
                self._rates.take(queue)

    def release(self, task: Task) -> None:
        """End the reservation of an attempt that could not start; nothing, if it has started."""
        key = (task.queue_name, task.name)
        with self._lock:
            if key in self._reserved:
                self._reserved.discard(key)
                if self._rates is not None:
                    self._rates.refund(task.queue_name)

    @bypass_interceptors()
    def next_usec(self, queue: Queue) -> int | None:
        """Return when time alone permits more tasks of a queue to start; None: never."""
        if not is_dispatched(queue):
            return None
        # In this order: a token that there is now must not look like a later one.
        token_usec, now_usec, times = self.token_usec(queue), self._emulator.now_usec(), []
        if token_usec > now_usec and queue.list_tasks(1, state=TaskState.AVAILABLE):
            times.append(token_usec)
        change_usec = queue.next_change_usec()
        if change_usec is not None:
            times.append(max(change_usec, token_usec))
        return min(times, default=None)

    def claim(self, queue: Queue) -> Claim:
        """Claim a queue; a new claim has the tokens and the rate that the one before has left."""
        claim = queue.store.claim_dispatch(queue.name)
        if claim is Claim.NEW and self._rates is not None:
            self._rates.restore(queue)
        return claim

    def enforced_rate(self, queue: Queue) -> float:
        """Return how many tasks of a queue may start in a second, on average."""
        return math.inf if self._rates is None else self._rates.per_second(queue)

    def start(self, task: Task) -> RunningAttempt | None:
        """Start an attempt to send a task; None: none was started.

        Then the task was changed or deleted meanwhile, or it is exhausted now, because its last
        attempts were interrupted.
        """
        queue = self._emulator.queue(task.queue_name)
        attempts = interrupted_for_good(task, queue.settings, self._emulator.now_usec())
        if attempts is None:
            return self._start(task, self._rates)
        with suppress(TaskError, QueueError):
            finish_attempt(queue, task, attempts=attempts, backoff_seconds=None)
            _log.warning(
                'task "%s" of queue "%s" is exhausted: %s', task.name, queue.name, attempts.reason
            )
        return None

    def run_now(self, task: Task) -> RunningAttempt | None:
        """Start an attempt past eta, rate and pause; None: the task is running, or has changed."""
        state = task.state_at(self._emulator.now_usec())
        if state is TaskState.RUNNING or self._is_running(task):
            return None
        running = self._start(task)
        if running is not None:
            running.by_call = True
        return running

    def count_refused(self, task: Task, reason: str, *, shortest_seconds: float) -> Counter[int]:
        """Apply the last of the attempts that a due task has had by now if none got a response.

        Return what the store has to count; nothing if the task has changed meanwhile.
        """
        queue, now_usec = self._emulator.queue(task.queue_name), self._emulator.now_usec()
        counts, attempts, pause = count_refused(
            task,
            queue.settings,
            reason=reason,
            now_usec=now_usec,
            shortest_seconds=shortest_seconds,
        )
        counted = counts.total()
        try:
            started = start_attempt(
                queue, task, lease_seconds=0, attempts=task.attempts, counted=counted
            )
            finish_attempt(
                queue, started, attempts=attempts, backoff_seconds=pause, counted=counted
            )
        except (TaskError, QueueError):
            return Counter()
        return counts

    def send(self, running: RunningAttempt, send: Send) -> PushResponse:
        """Send the request of an attempt, through the interceptors of its queue."""
        request, queue = running.request, running.queue
        triggered: list[int] = []
        call = QueueCall(queue, "attempt", (request,), {}, triggered)
        misuse: list[Exception] = []
        lost: list[PushResponse] = []

        def forward() -> PushResponse | int:
            try:
                lost[:] = [send(request)]
            except Exception as error:
                misuse.append(error)
                raise
            return lost[0]

        try:
            with call_deadline(round(request.deadline_seconds * USEC_PER_SECOND)):
                response = queue.interceptors.intercept(call, forward)
        except Exception as error:
            if error in misuse:  # `send` returns the errors of the app, and raises its user's
                raise
            response = _without_response(error, *lost)
        else:
            if not isinstance(response, int):
                return response
            reason = f"answered by fault {triggered[0]}" if triggered else None
            response = PushResponse(response, reason=reason)
        return response._replace(fault=next(iter(triggered), None))

    def finish(self, running: RunningAttempt, response: PushResponse) -> Attempt:
        """Apply the end of an attempt to its task, and to the rate of its queue."""
        attempt = running.finish(response, now_usec=self._emulator.now_usec())
        self._ended(running)
        if self._rates is not None:
            is_http_target = attempt.task.require_request().is_http_target
            self._rates.adapt(running.queue, response.status, is_http_target=is_http_target)
        return attempt

    def abandon(self, running: RunningAttempt) -> None:
        """End an attempt whose result is not known: its task is due again, as after a crash."""
        try:
            running.release()
        finally:
            self._ended(running)

    def lose(self, running: RunningAttempt) -> None:
        """End an attempt whose result cannot be stored: its task is due when its lease ends."""
        running.lose()
        self._ended(running)

    def _ended(self, running: RunningAttempt) -> None:
        key = (running.queue.name, running.task.name)
        with self._lock:
            if self._running.get(key) is running:
                del self._running[key]

    def _start(self, task: Task, rates: Rates | None = None) -> RunningAttempt | None:
        """Start an attempt, which takes a token of `rates` unless it was reserved."""
        queue = self._emulator.queue(task.queue_name)
        lease_seconds = self._lease_seconds or task.require_request().deadline_seconds
        # Before the start: it can fail.
        authorization = self._signer.authorization(effective_request(task, queue.settings))
        attempts = start(task, self._emulator.now_usec())
        leased = perf_counter()
        try:
            started = start_attempt(queue, task, lease_seconds=lease_seconds, attempts=attempts)
        except (TaskError, QueueError):
            return None
        request = push_request(
            started, queue.settings, authorization=authorization, app_host=self._app_host
        )
        running = RunningAttempt(
            queue, started, request, lease_seconds=lease_seconds, leased=leased
        )
        with self._lock:
            key = (queue.name, task.name)
            if rates is not None and key not in self._reserved:
                rates.take(queue)
            self._running[key] = running
            self._reserved.discard(key)
        return running

    def _is_running(self, task: Task) -> bool:
        # Its lease may have ended, by a clock that was moved.
        key = (task.queue_name, task.name)
        return key in self._running or key in self._reserved

    def count_allowed(self, queue: Queue) -> int:
        """Return how many attempts of a queue may start now, if it has tasks."""
        if not is_dispatched(queue):
            return 0
        if self._rates is None:
            return sys.maxsize
        slots = queue.settings.effective_concurrent_requests - self.counts[queue.name]
        return min(self._rates.count(queue), slots)

    def tokens(self, queue: Queue) -> int:
        """Return how many attempts the rate of a queue permits to start now."""
        return sys.maxsize if self._rates is None else self._rates.count(queue)

    def token_usec(self, queue: Queue, attempts: int = 1) -> int:
        """Return when the rate permits the next attempt, or the last of several; it may be now."""
        if self._rates is None:
            return self._emulator.now_usec()
        return self._rates.next_usec(queue, attempts)


def _without_response(fault: Exception, lost: PushResponse | None = None) -> PushResponse:
    """Return what is left of an attempt after a fault; `lost` is the response that was lost."""
    if lost is None:
        return PushResponse(None, reason=str(fault))
    reason = f"{fault}: the handler ran, and its response with status {lost.status} was lost"
    return PushResponse(None, reason=reason, error=lost.error)


def is_dispatched(queue: Queue) -> bool:
    """Return True for a push queue that is not paused, so that its tasks are sent."""
    return queue.is_push and why_not_sent(queue) is None


def why_not_sent(queue: Queue) -> str | None:
    """Return what prevents the tasks of a push queue from being sent; None: nothing does."""
    if not queue.settings.effective_rate:
        return "rate is 0"  # whether or not the queue is paused as well
    return None if queue.state is QueueState.RUNNING else f"the queue is {queue.state.value}"
