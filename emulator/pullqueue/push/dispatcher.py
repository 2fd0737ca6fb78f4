"""Which push tasks may start now, and what the end of an attempt does to its task.

Nothing here uses sockets or threads: the caller sends the requests, one after the other or from
several threads.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.engine.attempts import finish_attempt, renew_attempt, start_attempt
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall, bypass_interceptors, call_deadline
from pullqueue.engine.queue import Queue, walk
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import Claim
from pullqueue.errors import PullQueueError, QueueError, TaskError
from pullqueue.push.rate import TokenBucket, is_overload
from pullqueue.push.request import (
    PushRequest,
    PushResponse,
    Send,
    effective_request,
    push_request,
)
from pullqueue.push.retry import conclude, interrupted_for_good, start
from pullqueue.push.tokens import TokenSigner
from pullqueue.tasks import Task, TaskState

_log = logging.getLogger("pullqueue.push")

_A = TypeVar("_A")
"""An address, in whatever form the caller has it."""

_PAGE = 200
"""Tasks that are read at once where some of them wait for more than their eta."""

_EVENTS_REPLAYED = 2000
"""Enough to know the tokens and the rate: a bucket has 500 tokens, at most."""

_buckets: WeakKeyDictionary[Emulator, dict[str, TokenBucket]] = WeakKeyDictionary()
"""The tokens of an emulator's queues, from one dispatcher to the next."""


def make_due(queue: Queue, task: Task) -> None:
    """Make a push task due at once; one that is running is left alone."""
    if task.state_at(queue.now_usec()) in (TaskState.SCHEDULED, TaskState.RETRYING):
        renew_attempt(queue, task, lease_seconds=0)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Attempt:
    """One attempt to send a push task, after it has ended."""

    task: Task
    """The task as it was sent; its eta is that for which the attempt was scheduled."""
    request: PushRequest
    """What was sent."""
    status: int | None
    """The status of the response; None: there was none."""
    error: Exception | None
    """The exception that the app's handler raised."""
    reason: str | None
    """Why there was no response, or which fault answered."""
    body: bytes
    """The beginning of the response's body: in a test up to 64 KB."""
    outcome: str
    """`succeeded`, `will retry` or `exhausted`; `dropped` if the task was deleted, or started
    again by another server, meanwhile, so that the response changes nothing.
    """

    def __repr__(self) -> str:
        return (
            f"Attempt({self.request.method} {self.request.url}, task={self.task.name!r}, "
            f"number={self.number}, status={self.status}, outcome={self.outcome!r})"
        )

    @property
    def number(self) -> int:
        """The number of the attempt; the first is 1."""
        return self.request.attempt

    @property
    def started(self) -> datetime:
        """When it started, as an aware datetime (UTC)."""
        return from_usec(self.task.attempts.dispatched_usec or 0)


class RunningAttempt:
    """An attempt that has started and has not been finished."""

    def __init__(self, queue: Queue, task: Task, request: PushRequest, *, leased: float) -> None:
        self.queue = queue
        self.task = task
        """The task as it was started; its eta is the end of its lease."""
        self.request = request
        self.lock = threading.Lock()
        """Of its lease: whoever renews or finishes it."""
        self.leased = leased
        """When its lease was made or renewed last, by `perf_counter`."""
        self.is_finished = False
        self.by_call = False
        """True if it was started past its eta, by RunTask or by a person."""


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
        self._rates = rates
        self._throttle = throttle
        self._lease_seconds = lease_seconds
        self._late_seconds = late_seconds
        self._app_host = app_host
        self._signer = signer or TokenSigner()
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], RunningAttempt] = {}
        self._reserved: set[tuple[str, str]] = set()
        """The tasks whose attempts start at once, in other threads."""
        self._scans: dict[str, _Scan] = {}

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

    def startable(self, queue: Queue, limit: int) -> list[Task]:
        """Return up to `limit` tasks of a queue that may start now, in order of eta and arrival."""
        return [task for task, _ in self.deliverable(queue, limit, lambda task: task)]

    @bypass_interceptors()
    def deliverable(
        self, queue: Queue, limit: int, find_address: Callable[[Task], _A | None]
    ) -> list[tuple[Task, _A]]:
        """Return the same tasks with their addresses; those without one wait, but no others."""
        limit = min(limit, self.allowance(queue))
        if limit <= 0:
            return []
        scan = self._scans.setdefault(queue.name, _Scan())
        return scan.find(queue, limit, find_address=find_address, is_running=self._is_running)

    def look_again(self) -> None:
        """Look at all tasks that wait for an address once more: there are others now."""
        self._scans = {}

    def reserve(self, task: Task) -> None:
        """Count an attempt that is to start at once, in another thread; `release` it after that."""
        queue = self._emulator.queue(task.queue_name)
        with self._lock:
            self._reserved.add((task.queue_name, task.name))
            self._bucket(queue).take()

    def release(self, task: Task) -> None:
        """End the reservation of an attempt that could not start; nothing, if it has started."""
        key = (task.queue_name, task.name)
        with self._lock:
            if key in self._reserved:
                self._reserved.discard(key)
                _buckets[self._emulator][task.queue_name].refund()

    @bypass_interceptors()
    def next_usec(self, queue: Queue) -> int | None:
        """Return when time alone permits more tasks of a queue to start; None: never."""
        if not is_dispatched(queue):
            return None
        now_usec = self._emulator.now_usec()
        token_usec = now_usec
        if self._rates:
            with self._lock:
                token_usec = self._bucket(queue).next_usec(now_usec)
        times = []
        if token_usec > now_usec and queue.list_tasks(1, state=TaskState.AVAILABLE):
            times.append(token_usec)
        change_usec = queue.next_change_usec()
        if change_usec is not None:
            times.append(max(change_usec, token_usec))
        return min(times, default=None)

    def claim(self, queue: Queue) -> Claim:
        """Claim a queue; a new claim has the tokens and the rate that the one before has left."""
        claim = queue.store.claim_dispatch(queue.name)
        if claim is Claim.NEW:
            bucket = self._restored_bucket(queue)
            with self._lock:
                _buckets.setdefault(self._emulator, {})[queue.name] = bucket
        return claim

    def enforced_rate(self, queue: Queue) -> float:
        """Return how many tasks of a queue may start in a second, on average."""
        with self._lock:
            return self._bucket(queue).rate

    def start(self, task: Task) -> RunningAttempt | None:
        """Start an attempt to send a task; None: it was changed or deleted meanwhile, or it is
        exhausted now, since its last attempts were interrupted.
        """
        queue = self._emulator.queue(task.queue_name)
        attempts = interrupted_for_good(task, queue.settings, self._emulator.now_usec())
        if attempts is None:
            return self._start(task, takes_token=self._rates)
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
        running = self._start(task, takes_token=False)
        if running is not None:
            running.by_call = True
        return running

    def send(self, running: RunningAttempt, send: Send) -> PushResponse:
        """Send the request of an attempt, through the interceptors of its queue."""
        request, queue = running.request, running.queue
        if not queue.interceptors:
            return send(request)
        triggered: list[int] = []
        call = QueueCall(queue, "attempt", (request,), {}, triggered)
        misuse: list[Exception] = []
        lost: list[PushResponse] = []

        def forward() -> PushResponse:
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
                return cast("PushResponse", response)
            reason = f"answered by fault {triggered[0]}" if triggered else None
            response = PushResponse(response, reason=reason)
        return response._replace(fault=next(iter(triggered), None))

    def renew(self, running: RunningAttempt) -> bool:
        """Lease the task of an attempt for as long again; False if it has ended or was lost."""
        with running.lock:
            if running.is_finished:
                return False
            lease_seconds = self._lease_seconds or running.request.deadline_seconds
            try:
                task = renew_attempt(running.queue, running.task, lease_seconds=lease_seconds)
            except (TaskError, QueueError):
                return False
            running.task = running.task._replace(eta_usec=task.eta_usec)
            return True

    def finish(self, running: RunningAttempt, response: PushResponse) -> Attempt:
        """Apply the end of an attempt to its task."""
        queue = running.queue
        with running.lock:
            running.is_finished = True
            attempts, backoff_seconds = conclude(
                running.task,
                response,
                settings=queue.settings,
                now_usec=self._emulator.now_usec(),
                by_call=running.by_call,
            )
            try:
                finish_attempt(
                    queue, running.task, attempts=attempts, backoff_seconds=backoff_seconds
                )
                outcome = "exhausted" if backoff_seconds is None else "will retry"
                outcome = "succeeded" if attempts.succeeded else outcome
            except (TaskError, QueueError):
                outcome = "dropped"
        self._ended(running)
        if self._throttle:
            with self._lock:
                is_http_target = running.task.require_request().is_http_target
                self._bucket(queue).adapt(response.status, is_http_target=is_http_target)
        scheduled_usec = attempts.schedule_usec or 0
        return Attempt(
            task=running.task._replace(eta_usec=scheduled_usec),
            request=running.request,
            status=response.status,
            error=response.error,
            reason=response.reason,
            body=response.body,
            outcome=outcome,
        )

    def abandon(self, running: RunningAttempt) -> None:
        """End an attempt whose result is not known: its task is due again, as after a crash."""
        with running.lock:
            running.is_finished = True
            try:
                # The lease ends by itself where the store does not respond.
                with suppress(PullQueueError):
                    renew_attempt(running.queue, running.task, lease_seconds=0)
            finally:
                self._ended(running)

    def lose(self, running: RunningAttempt) -> None:
        """End an attempt whose result cannot be stored: its task is due when its lease ends."""
        with running.lock:
            running.is_finished = True
        self._ended(running)

    def _ended(self, running: RunningAttempt) -> None:
        key = (running.queue.name, running.task.name)
        with self._lock:
            if self._running.get(key) is running:
                del self._running[key]

    def _start(self, task: Task, *, takes_token: bool) -> RunningAttempt | None:
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
        running = RunningAttempt(queue, started, request, leased=leased)
        with self._lock:
            key = (queue.name, task.name)
            if takes_token and key not in self._reserved:
                self._bucket(queue).take()
            self._running[key] = running
            self._reserved.discard(key)
        return running

    def _is_running(self, task: Task) -> bool:
        # Its lease may have ended, by a clock that was moved.
        key = (task.queue_name, task.name)
        return key in self._running or key in self._reserved

    def allowance(self, queue: Queue) -> int:
        """Return how many attempts of a queue may start now, if it has tasks."""
        if not is_dispatched(queue):
            return 0
        if not self._rates:
            return sys.maxsize
        slots = queue.settings.effective_concurrent_requests - self.counts[queue.name]
        now_usec = self._emulator.now_usec()
        with self._lock:
            tokens = self._bucket(queue).count(now_usec, late_seconds=self._late_seconds)
        return min(tokens, slots)

    def _bucket(self, queue: Queue) -> TokenBucket:
        buckets = _buckets.setdefault(self._emulator, {})
        bucket = buckets.get(queue.name)
        if bucket is None:
            bucket = buckets[queue.name] = self._restored_bucket(queue)
        else:
            bucket.configure(queue.settings)
        return bucket

    @bypass_interceptors()
    def _restored_bucket(self, queue: Queue) -> TokenBucket:
        bucket = TokenBucket(queue.settings, self._emulator.now_usec())
        events = []
        if self._throttle:
            events = queue.store.last_attempts(queue.name, limit=_EVENTS_REPLAYED)
        # An event does not say what its task calls: the tasks of a queue all do the same.
        slows = any(is_overload(each.status, is_http_target=True) for each in events)
        first = queue.list_tasks(1) if slows else []
        bucket.replay(
            events,
            is_complete=len(events) < _EVENTS_REPLAYED,
            is_http_target=any(
                task.request is not None and task.request.is_http_target for task in first
            ),
        )
        return bucket


class _Scan:
    """Finds the due tasks of a queue that can be sent, past many that wait for something else."""

    def __init__(self) -> None:
        self._waiting: tuple[int, int] | None = None
        """Eta and sequence: all due tasks up to here wait, but for those added there later."""
        self._swept: tuple[int, int] | None = None
        """Those up to here were looked at once more, to find such tasks."""

    def find(
        self,
        queue: Queue,
        limit: int,
        *,
        find_address: Callable[[Task], _A | None],
        is_running: Callable[[Task], bool],
    ) -> list[tuple[Task, _A]]:
        """Return up to `limit` tasks that can be sent, with their addresses."""
        found: list[tuple[Task, _A]] = []
        only_waiting = True
        for task in self._due(queue, limit):
            address = find_address(task)
            if address is not None:
                only_waiting = False
                if not is_running(task):
                    found.append((task, address))
                    if len(found) == limit:
                        return found
            elif only_waiting:
                self._waiting = task[:2]
        if self._waiting is not None:
            swept = self._sweep(queue, find_address)
            found += [each for each in swept if not is_running(each[0])]
        return found[:limit]

    def _due(self, queue: Queue, limit: int) -> Iterator[Task]:
        """Yield the due tasks after those that wait; at first no more than are needed are read."""
        page = queue.list_tasks(limit, state=TaskState.AVAILABLE, after=self._waiting)
        yield from page
        if len(page) == limit:
            yield from walk(queue, page=_PAGE, state=TaskState.AVAILABLE, after=page[-1][:2])

    def _sweep(
        self, queue: Queue, find_address: Callable[[Task], _A | None]
    ) -> list[tuple[Task, _A]]:
        """Look at the next of the tasks that wait, and return those that do not."""
        page = queue.list_tasks(_PAGE, state=TaskState.AVAILABLE, after=self._swept)
        below = [task for task in page if self._waiting and task[:2] <= self._waiting]
        found = [(t, address) for t in below if (address := find_address(t)) is not None]
        if not found:  # otherwise look at the same once more, when these have started
            self._swept = below[-1][:2] if len(below) == _PAGE else None
        return found


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
