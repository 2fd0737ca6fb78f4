"""An attempt to send a push task: while it runs and leases its task, and after its end."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from pullqueue.clock import from_usec
from pullqueue.engine.attempts import finish_attempt, renew_attempt
from pullqueue.engine.queue import Queue
from pullqueue.errors import PullQueueError, QueueError, TaskError
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.push.retry import conclude
from pullqueue.tasks import Task


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Attempt:
    """One attempt to send a push task, after it has ended."""

    task: Task
    """The task as it was sent; its eta is that for which the attempt was scheduled."""
    request: PushRequest
    """What was sent."""
    response: PushResponse
    """What came back."""
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
    def status(self) -> int | None:
        """The status of the response; None: there was none."""
        return self.response.status

    @property
    def error(self) -> Exception | None:
        """The exception that the app's handler raised."""
        return self.response.error

    @property
    def reason(self) -> str | None:
        """Why there was no response."""
        return self.response.reason

    @property
    def body(self) -> bytes:
        """The beginning of the response's body: in a test up to 64 KB."""
        return self.response.body

    @property
    def number(self) -> int:
        """The number of the attempt; the first is 1."""
        return self.request.attempt

    @property
    def started(self) -> datetime:
        """When it started, as an aware datetime (UTC)."""
        return from_usec(self.task.attempts.dispatched_usec or 0)


class RunningAttempt:
    """An attempt that has started. It has the lease of its task until it ends; thread-safe."""

    def __init__(
        self, queue: Queue, task: Task, request: PushRequest, *, lease_seconds: float, leased: float
    ) -> None:
        """Take over a task that was leased at a time by `perf_counter`."""
        self.queue = queue
        self.task = task
        """The task as it was started; its eta is the end of its lease."""
        self.request = request
        self.by_call = False
        """True if it was started past its eta, by RunTask or by a person."""
        self.is_lost = False
        """True if it was not `is_own`."""
        self._lease_seconds = lease_seconds
        self._leased = self._renewed = leased
        self._lock = threading.Lock()
        self._is_finished = False

    @property
    def seconds(self) -> float:
        """How long it has been running, by the machine's own time."""
        return perf_counter() - self._leased

    def renew(self) -> bool:
        """Lease the task for as long again; False if the attempt has ended or was lost."""
        with self._lock:
            if self._is_finished:
                return False
            began = perf_counter()
            try:
                task = renew_attempt(self.queue, self.task, lease_seconds=self._lease_seconds)
            except (TaskError, QueueError):
                return False
            self.task, self._renewed = self.task._replace(eta_usec=task.eta_usec), began
            return True

    def is_own(self, *, renewed_within: float) -> bool:
        """Return whether the task is still leased, and renew a lease that is older than that.

        False where this process was frozen, and another one may have sent the task.
        """
        self.is_lost = perf_counter() - self._renewed > renewed_within and not self.renew()
        return not self.is_lost

    def finish(self, response: PushResponse, *, now_usec: int) -> Attempt:
        """Apply the end of the attempt to its task."""
        with self._lock:
            self._is_finished = True
            attempts, backoff_seconds = conclude(
                self.task,
                response,
                settings=self.queue.settings,
                now_usec=now_usec,
                by_call=self.by_call,
            )
            try:
                finish_attempt(
                    self.queue, self.task, attempts=attempts, backoff_seconds=backoff_seconds
                )
                outcome = "exhausted" if backoff_seconds is None else "will retry"
                outcome = "succeeded" if attempts.succeeded else outcome
            except (TaskError, QueueError):
                outcome = "dropped"
        task = self.task._replace(eta_usec=self.task.scheduled_usec)
        return Attempt(task=task, request=self.request, response=response, outcome=outcome)

    def release(self) -> None:
        """End the attempt without a result, as a crash does: its task is due again, at once."""
        with self._lock:
            self._is_finished = True
            # The lease ends by itself where the store does not respond.
            with suppress(PullQueueError):
                renew_attempt(self.queue, self.task, lease_seconds=0)

    def lose(self) -> None:
        """End the attempt without a result: its task is due when its lease ends."""
        with self._lock:
            self._is_finished = True
