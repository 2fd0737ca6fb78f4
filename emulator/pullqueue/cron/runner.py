"""The cron jobs of a server: a thread that looks which are due, and one for each run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from time import perf_counter
from zlib import crc32

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.cron.file import CronJob
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import MINUTE_USEC, Interface
from pullqueue.engine.store import CronRun
from pullqueue.errors import PullQueueError
from pullqueue.observe.request_log import RequestLog
from pullqueue.push.addresses import PushAddresses, add_address
from pullqueue.push.http_sender import HttpSender
from pullqueue.push.request import (
    APP_ENGINE_USER_AGENT,
    PushRequest,
    PushResponse,
    front_end_headers,
)
from pullqueue.push.retry import backoff_seconds, may_retry
from pullqueue.tasks import DEFAULT_DEADLINE_SECONDS, is_success, result_text

_POLL_SECONDS = 0.1
_SET_BACK_USEC = MINUTE_USEC
"""A clock that goes back less was adjusted, and jobs are that much late."""

_log = logging.getLogger("pullqueue.cron")


class JobState:
    """One job, when it runs next, and how its last run ended. Times are microseconds."""

    def __init__(self, key: str, job: CronJob, now_usec: int, last: CronRun) -> None:
        """Run the job for the first time after its last run, or after now if that is earlier.

        It is due at once if it was while the server was down, however often.
        """
        self.key = key
        """What identifies the job after a restart."""
        self.job = job
        self.regular_usec = job.next_usec(min(now_usec, last.started_usec))
        """When it runs next by its schedule."""
        self.retry_usec: int | None = None
        """When the run that has failed is repeated, which is before that; None: it is not."""
        self.is_running = False
        self.attempts = 0
        """Attempts of the run that is under way, or is repeated; 0: none is."""
        self.first_usec = 0
        """When the first of them began."""
        self.last = None if last == CronRun(last.started_usec) else last
        """Its last run; None: it has not run yet."""

    @property
    def next_usec(self) -> int:
        """When it runs next, or is repeated."""
        return self.regular_usec if self.retry_usec is None else self.retry_usec

    def begin(self, now_usec: int) -> None:
        """Start the repetition that is due, or else a run of its own."""
        if self.retry_usec is None or not self.retry_usec <= now_usec < self.regular_usec:
            self.attempts, self.first_usec = 0, now_usec
            self.skip(now_usec)
        self.attempts += 1
        self.retry_usec = None
        self.is_running = True

    def skip(self, now_usec: int) -> None:
        """Leave out the times of the schedule until now."""
        self.regular_usec = self.job.next_usec(now_usec)

    def end(self, now_usec: int, *, failed: bool) -> None:
        """Take the end of a run: what follows is a repetition, unless the next run comes first.

        An interval counts from the end of the run; repetitions do not move it.
        """
        if self.attempts == 1 or self.regular_usec <= now_usec:
            self.skip(now_usec)
        retry, age_usec = self.job.retry, now_usec - self.first_usec
        if failed and retry and may_retry(self.attempts, age_usec / USEC_PER_SECOND, retry):
            pause_seconds = backoff_seconds(self.attempts, retry)
            retry_usec = now_usec + round(pause_seconds * USEC_PER_SECOND)
            if retry_usec < self.regular_usec:
                self.retry_usec = retry_usec
        if self.retry_usec is None:
            self.attempts = 0
        self.is_running = False  # at last: it is read without the lock

    def set_back(self, now_usec: int, by_usec: int) -> None:
        """Take that the clock went back, to this time and by this much."""
        if self.job.is_interval:
            self.regular_usec -= by_usec
        else:
            self.skip(now_usec)
        if self.retry_usec is not None:
            self.retry_usec = min(self.retry_usec - by_usec, self.regular_usec)


class CronRunner:
    """Requests the URLs of cron jobs when they are due on the clock of an emulator.

    A job that is still running when it is due again is left out once. However often a job was due
    since the last look, as after a jump of the clock, it runs once.
    """

    def __init__(
        self,
        jobs: Sequence[CronJob],
        emulator: Emulator,
        requests: RequestLog,
        addresses: PushAddresses,
    ) -> None:
        """Request jobs at the addresses of their targets; record each request."""
        self._emulator = emulator
        self._now_usec = emulator.now_usec()
        """When the thread has looked last."""
        runs = emulator.store.read_cron_runs() if jobs else {}
        self.states = [
            JobState(key, job, self._now_usec, self._find_last(key, runs))
            for key, job in keyed(jobs).items()
        ]
        self._requests = requests
        self._addresses = addresses
        self._sender = HttpSender()
        self._lock = threading.Condition()
        """Of the states; notified when a run has ended."""
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pullqueue cron", daemon=True)

    def start(self, *, own_ports: Iterable[int] = ()) -> None:
        """Begin to look for due jobs; nothing is sent to `own_ports` of this machine."""
        self._sender.own_ports = frozenset(own_ports)
        if self.states:
            self._thread.start()

    def stop_starting(self) -> None:
        """Start no more runs."""
        self._stopping.set()
        self._wake.set()

    def stop(self, end: float) -> None:
        """Wait for the runs under way until a time by `perf_counter`, and end the others."""
        if self._thread.is_alive():
            self._thread.join(max(0, end - perf_counter()))
        with self._lock:
            while self._running() and (left := end - perf_counter()) > 0:
                self._lock.wait(left)
        self._sender.close()

    def next_usec(self) -> int | None:
        """Return when the next job is due; None: all are running, or there are none."""
        with self._lock:
            return min(
                (each.next_usec for each in self.states if not each.is_running), default=None
            )

    def settle(self, seconds: float) -> bool:
        """Wait until no job is due or running; False: that takes longer."""
        end = perf_counter() + seconds
        with self._lock:
            while not self._stopping.is_set():
                self._wake.set()
                now_usec = self._emulator.now_usec()
                if not self._running() and all(each.next_usec > now_usec for each in self.states):
                    return True
                if (left := end - perf_counter()) <= 0:
                    return False
                self._lock.wait(min(left, _POLL_SECONDS))
        return False

    def run_now(self, state: JobState) -> bool:
        """Run a job at once, past its schedule; False: it is running."""
        with self._lock:
            if state.is_running:
                return False
            self._begin(state)
        return True

    def _running(self) -> int:
        return sum(each.is_running for each in self.states)

    def _find_last(self, key: str, runs: dict[str, CronRun]) -> CronRun:
        """Return the last run of a job, or record that it is there from now on."""
        first = CronRun(self._now_usec)
        if key not in runs:
            self._keep(key, first)
        return runs.get(key, first)

    def _run(self) -> None:
        problem: str | None = None
        while not self._stopping.is_set():
            try:
                self._start_due()
                problem = None
            except Exception as error:  # noqa: BLE001 - the thread goes on, whatever happens
                if str(error) != problem:  # logged once, however long it lasts
                    problem = str(error)
                    trace = None if isinstance(error, PullQueueError) else error
                    _log.warning("cron jobs cannot be started: %s", problem, exc_info=trace)
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()

    def _start_due(self) -> None:
        before_usec, self._now_usec = self._now_usec, self._emulator.now_usec()
        now_usec = self._now_usec
        with self._lock:
            for state in self.states:
                if before_usec - now_usec >= _SET_BACK_USEC:
                    state.set_back(now_usec, before_usec - now_usec)
                if state.next_usec > now_usec or self._addresses.waiting(state.job.target):
                    continue
                if not state.is_running:
                    self._begin(state)
                else:  # it is left out
                    state.skip(now_usec)

    def _begin(self, state: JobState) -> None:
        """Start a run, of which the lock is held."""
        now_usec = self._emulator.now_usec()
        name = f"pullqueue cron {state.job.number}"
        arguments = (state, now_usec)
        run = threading.Thread(target=self._carry_out, args=arguments, name=name, daemon=True)
        run.start()  # first: it waits for the lock, and if it cannot be started, nothing was
        state.begin(now_usec)
        self._record(state, CronRun(now_usec, reason="it was interrupted"))

    def _record(self, state: JobState, run: CronRun) -> None:
        state.last = run
        self._keep(state.key, run)

    def _keep(self, key: str, run: CronRun) -> None:
        try:
            self._emulator.store.record_cron_run(key, run)
        except PullQueueError as error:  # of the store: the job runs nevertheless
            _log.warning("the last run of a cron job is not recorded (%s): %s", key, error)

    def _carry_out(self, state: JobState, started_usec: int) -> None:
        response = PushResponse(None, reason="the request failed because of a bug")
        with self._lock:
            pass  # until the beginning is recorded
        try:
            response = self._request(state)
        except Exception:  # noqa: BLE001 - the job has failed, whatever it is
            _log.exception("%s cannot be requested", state.job.url)
        finally:
            with self._lock:
                self._end(state, response, started_usec)
                self._lock.notify_all()

    def _request(self, state: JobState) -> PushResponse:
        job = state.job
        address = self._addresses.of(job.target)
        if address is None:
            option = "" if job.target is None else f"{job.target}="
            return PushResponse(
                None, reason=f"no address: {add_address(f'{option}http://localhost:8080')}"
            )
        request = PushRequest(
            method="GET",
            url=job.url,
            headers=cron_headers(state),
            body=b"",
            target=job.target,
            queue_name="",
            task_name="",
            attempt=state.attempts,
            deadline_seconds=DEFAULT_DEADLINE_SECONDS,
        )
        origin = self._requests.origin(Interface.PUSH, str(address))
        began = perf_counter()
        response = self._sender.send(request, address, proof=self._addresses.proof)
        method = f"cron {job.url.partition('?')[0]}"
        self._requests.record_sent(
            request, response, method=method, seconds=perf_counter() - began, origin=origin
        )
        return response

    def _end(self, state: JobState, response: PushResponse, started_usec: int) -> None:
        try:
            now_usec = self._emulator.now_usec()
        except PullQueueError:  # the store does not respond: about now
            now_usec = self._now_usec
        failed = not is_success(response.status)
        reason = (response.summary or "the response is empty") if failed else None
        if failed:
            result = result_text(response.status or 0, reason)
            _log.warning("cron job %s failed: %s", state.job.url, result)
        self._record(state, CronRun(started_usec, response.status, reason))
        state.end(now_usec, failed=failed)


def keyed(jobs: Iterable[CronJob]) -> dict[str, CronJob]:
    """Return jobs by what identifies them after a restart, wherever they are in the file then."""
    found: dict[str, CronJob] = {}
    for job in jobs:
        key = f"{job.schedule_text}, {job.zone}: {job.target or 'default'} {job.url}"
        while key in found:
            key += " again"
        found[key] = job
    return found


def cron_headers(state: JobState) -> dict[str, str]:
    """Return the headers by which an app recognizes a request of App Engine's cron service.

    They are those that were recorded (google/gae-secure-scaffold-python3#5, in 2021), and the queue
    is that of a log (WorldHealthOrganization/app#1799), but for two that name machines.
    """
    return {
        "User-Agent": APP_ENGINE_USER_AGENT,
        "X-Appengine-Cron": "true",
        "X-AppEngine-QueueName": "__cron",
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": f"{crc32(state.key.encode()):08x}",
        **front_end_headers(f"{state.key}/{state.attempts}", DEFAULT_DEADLINE_SECONDS),
    }
