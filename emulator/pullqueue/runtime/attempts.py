"""The attempts of a server: threads that start, send and record them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import perf_counter

from pullqueue.address import SplitUrl
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import Caller, called_by, current_origin
from pullqueue.errors import PullQueueError
from pullqueue.observe.activity import ProjectLog
from pullqueue.observe.request_log import RequestLog
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.attempt import Attempt, RunningAttempt
from pullqueue.push.dispatcher import Dispatcher
from pullqueue.push.http_sender import HttpSender
from pullqueue.push.request import PushRequest, PushResponse, Send, send_following
from pullqueue.runtime.sender_threads import SenderThreads
from pullqueue.tasks import Task, result_text

RENEWAL_SECONDS = 3.0
"""Interval at which the leases of running attempts are renewed."""
_POLL_SECONDS = 0.1
_NOT_SENT = "answered by a fault, not sent"
"""Replaces the address of an attempt that did not reach the app."""

_log = logging.getLogger("pullqueue.push")


class Problems:
    """Logs what keeps going wrong: once, as long as it does not change."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def report(self, key: str, problem: str, error: Exception) -> None:
        """Log an error, unless it was logged last under a key."""
        if self._logged.get(key) == str(error):
            return
        self._logged[key] = str(error)
        if isinstance(error, PullQueueError):
            _log.warning("%s: %s", problem, error)
        else:
            _log.error("%s", problem, exc_info=error)

    def clear(self, key: str) -> None:
        """Log the next error under a key, whatever it is."""
        self._logged.pop(key, None)


class Attempts:
    """Carries out the attempts of a dispatcher, each in a thread, and records them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        requests: RequestLog,
        addresses: PushAddresses,
        problems: Problems,
        *,
        threads: SenderThreads,
        log: ProjectLog,
        on_end: Callable[[], None],
    ) -> None:
        """Send to addresses; `on_end` is called when an attempt has ended, or has not started."""
        self.counts: Counter[tuple[str, int]] = Counter()
        """Ended attempts by queue and status; 0: there was no response."""
        self._dispatcher = dispatcher
        self._requests = requests
        self._addresses = addresses
        self._problems = problems
        self._log = log
        self._on_end = on_end
        self.sender = HttpSender()
        self._threads = threads
        self._ended = threading.Event()
        """Set whenever an attempt has ended."""
        self.stopping = threading.Event()
        """Set when no more attempts are started."""
        self._abandoning = threading.Lock()
        self._are_discarded = False
        """Whether results are neither stored nor recorded, since the tasks are deleted."""

    @property
    def is_idle(self) -> bool:
        """True if no attempt starts, runs or is recorded."""
        return not self._threads.is_busy(self)

    def end_job(self) -> None:
        """Report that a thread has done what it was started for."""
        self._ended.set()
        self._on_end()

    def start(self, task: Task, address: SplitUrl) -> None:
        """Start an attempt that may start now, and carry it out."""
        # In another thread: beside busy workers each use of the store waits for its turn.
        self._dispatcher.reserve(task)
        self._threads.run(self, self._start_in_turn, task, address)

    def run_now(self, task: Task, address: SplitUrl) -> bool:
        """Start an attempt of a task, past its eta, rate and pause; False: one is running."""
        by = f", run by {current_origin().who}"
        started = self._begin(task, address, self._dispatcher.run_now, by)
        if started is not None:
            self._threads.run(self, self._attempt, *started)
        return started is not None

    def count_refused(
        self, task: Task, address: SplitUrl, *, shortest_seconds: float
    ) -> Counter[int]:
        """Apply the last of the attempts that a due task has had by now, which are only counted.

        They are not made, since its address refuses connections. Return what the store has to
        count.
        """
        reason = self.sender.refused[address.origin]
        with called_by(Caller(Origin(Interface.PUSH, str(address)))):
            counts = self._dispatcher.count_refused(task, reason, shortest_seconds=shortest_seconds)
        self.counts[task.queue_name, 0] += counts.total()
        self._requests.count_unanswered(task.queue_name, str(address), counts.total())
        return counts

    def stop_starting(self) -> None:
        """Start no more attempts."""
        is_first = not self.stopping.is_set()
        self.stopping.set()
        if is_first and (count := len(self._dispatcher.running)):
            self._log.info("waiting for running attempts to end: %d", count)

    def discard(self) -> None:
        """Start no more attempts, and end those under way without a trace."""
        self._are_discarded = True
        self.stopping.set()
        self.sender.close()

    def stop(self, end: float) -> None:
        """Wait for the attempts under way until a time by `perf_counter`, and end the others.

        The tasks of those that do not end in time are due again.
        """
        while self._dispatcher.running and (left := end - perf_counter()) > 0:
            self._ended.wait(min(left, _POLL_SECONDS))
            self._ended.clear()
        with self._abandoning:
            interrupted = self._dispatcher.running
            for running in interrupted:
                self._log.warning(
                    'attempt %d of task "%s" of queue "%s" is interrupted, and its task due again',
                    running.request.attempt,
                    running.request.task_name,
                    running.request.queue_name,
                )
            self.sender.close()
            for running in interrupted:
                self._dispatcher.abandon(running)

    def _start_in_turn(self, task: Task, address: SplitUrl) -> None:
        """Start an attempt that was reserved, and carry it out."""
        started = None
        try:
            if not self.stopping.is_set():
                started = self._begin(task, address, self._dispatcher.start)
            self._problems.clear(f"start {task.queue_name}")
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever a task does to it
            if self._are_discarded:
                return
            problem = f'push tasks of queue "{task.queue_name}" cannot be started'
            self._problems.report(f"start {task.queue_name}", problem, error)
            self.stopping.wait(_POLL_SECONDS)  # it would be tried again at once
        finally:
            self._dispatcher.release(task)
        if started is not None:
            self._attempt(*started)

    def _begin(
        self,
        task: Task,
        address: SplitUrl,
        start: Callable[[Task], RunningAttempt | None],
        by: str = "",
    ) -> tuple[RunningAttempt, SplitUrl, Origin] | None:
        """Start an attempt; return what `_attempt` needs, or None if it was not started.

        `by` is added to the address in the history of the task.
        """
        origin = self._requests.origin(Interface.PUSH, str(address))
        with called_by(Caller(origin._replace(client=f"{address}{by}"))):
            running = start(task)
        return None if running is None else (running, address, origin)

    def _attempt(self, running: RunningAttempt, address: SplitUrl, origin: Origin) -> None:
        """Send a task that was started, and apply the result."""
        began = perf_counter()
        sent: list[PushRequest] = []
        is_own = partial(running.is_own, renewed_within=RENEWAL_SECONDS)

        def find_sender(request: PushRequest) -> Send | None:
            is_redirected = request.target != running.request.target
            where = self._addresses.find_url(request.url) if is_redirected else address
            if where is None:
                return None
            proof = self._addresses.proof
            return partial(self.sender.send, address=where, proof=proof, is_valid=is_own)

        def send(request: PushRequest) -> PushResponse:
            sent.append(request)
            return send_following(request, find_sender)

        try:
            response = self._dispatcher.send(running, send)
            if running.is_lost or self._are_discarded:
                self._dispatcher.lose(running)
                return
            if response.status is None and self.stopping.is_set():
                self._dispatcher.abandon(running)
                return
            if not sent:
                origin = origin._replace(client=_NOT_SENT)
            with called_by(Caller(origin)):
                attempt = self._dispatcher.finish(running, response)
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever a task does to it
            # Its lease ends: if the same happens again, it does not at once.
            self._dispatcher.lose(running)
            if self._are_discarded:
                return
            if isinstance(error, PullQueueError):
                self._log.warning("the result of an attempt cannot be stored: %s", error)
            else:
                self._log.exception("the result of an attempt cannot be stored")
            return
        self._record(attempt, origin, perf_counter() - began)

    def _record(self, attempt: Attempt, origin: Origin, seconds: float) -> None:
        request, response = attempt.request, attempt.response
        status = response.status or 0
        self.counts[request.queue_name, status] += 1
        method = f"attempt {attempt.number}"
        self._requests.record_sent(request, response, method=method, seconds=seconds, origin=origin)
        is_power_of_2 = attempt.number & (attempt.number - 1) == 0
        if attempt.outcome == "exhausted" or (attempt.outcome == "will retry" and is_power_of_2):
            self._log.warning(
                'attempt %d of task "%s" of queue "%s" failed (%s %s %s: %s): %s',
                attempt.number,
                request.task_name,
                request.queue_name,
                request.method,
                request.url,
                _NOT_SENT if origin.client == _NOT_SENT else f"at {origin.client}",
                result_text(status, response.summary),
                "it is exhausted" if attempt.outcome == "exhausted" else "it will be retried",
            )
