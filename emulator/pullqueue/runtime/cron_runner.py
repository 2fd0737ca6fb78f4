"""The cron jobs of a server: a thread that looks which are due, and one for each run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import datetime
from time import perf_counter

from pullqueue.clock import USEC_PER_SECOND, from_usec, to_usec
from pullqueue.cron.file import CronJob
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface
from pullqueue.engine.store import CronRun
from pullqueue.errors import PullQueueError
from pullqueue.observe.request_log import RequestLog
from pullqueue.push.addresses import OPTION, PushAddresses
from pullqueue.push.http_sender import HttpSender
from pullqueue.push.request import (
    APP_ENGINE_USER_AGENT,
    SOURCE_IP,
    PushRequest,
    PushResponse,
)
from pullqueue.push.retry import backoff_seconds, may_retry
from pullqueue.tasks import RetryParameters, is_success

STOP_SECONDS = 5.0
"""Time that runs have to end after the server was stopped."""
_POLL_SECONDS = 0.1

_log = logging.getLogger("pullqueue.cron")


class JobState:
    """One job, when it runs next, and how its last run ended."""

    def __init__(self, job: CronJob, now: datetime, last: CronRun) -> None:
        """Run the job for the first time after its last run, or after `now` if that is earlier.

        It is due at once if it was while the server was down, however often.
        """
        self.job = job
        self.next_usec = to_usec(job.next_time(min(now, from_usec(last.started_usec))))
        """When it runs next, or is repeated."""
        self.is_running = False
        self.attempts = 0
        """Attempts of the run that has failed and is repeated; 0: none is."""
        self.first_usec = 0
        """When the first of them began."""
        self.last = None if last == CronRun(last.started_usec) else last
        """Its last run; None: it has not run yet."""


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
        runs = emulator.cron_runs() if jobs else {}
        now = from_usec(self._now_usec)
        self.states = [JobState(job, now, self._find_last(job, runs)) for job in jobs]
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

    def stop(self) -> None:
        """Start no more runs, and wait for those under way, but not for long."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        end = perf_counter() + STOP_SECONDS
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

    def _find_last(self, job: CronJob, runs: dict[str, CronRun]) -> CronRun:
        """Return the last run of a job, or record that it is there from now on."""
        key, first = key_of(job), CronRun(self._now_usec)
        if key not in runs:
            self._keep(key, first)
        return runs.get(key, first)

    def _run(self) -> None:
        problem = ""
        while not self._stopping.is_set():
            try:
                self._start_due()
                problem = ""
            except PullQueueError as error:  # of the store: logged once, however long it lasts
                if str(error) != problem:
                    problem = str(error)
                    _log.warning("cron jobs cannot be started: %s", problem)
            except Exception:  # noqa: BLE001 - the thread goes on, whatever happens
                _log.exception("cron jobs cannot be started")
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()

    def _start_due(self) -> None:
        self._now_usec = now_usec = self._emulator.now_usec()
        with self._lock:
            for state in self.states:
                if state.next_usec > now_usec or self._addresses.waiting(state.job.target):
                    continue
                if not state.is_running:
                    self._begin(state)
                else:  # it is left out
                    state.next_usec = to_usec(state.job.next_time(from_usec(now_usec)))

    def _begin(self, state: JobState) -> None:
        """Start a run, of which the lock is held."""
        now_usec = self._emulator.now_usec()
        state.is_running = True
        state.attempts += 1
        self._record(state, CronRun(now_usec, reason="it was interrupted"))
        if state.attempts == 1:
            state.first_usec = now_usec
        # Until it has ended, by which an interval is counted.
        state.next_usec = to_usec(state.job.next_time(from_usec(now_usec)))
        name = f"pullqueue cron {state.job.number}"
        threading.Thread(target=self._carry_out, args=(state,), name=name, daemon=True).start()

    def _record(self, state: JobState, run: CronRun) -> None:
        state.last = run
        self._keep(key_of(state.job), run)

    def _keep(self, key: str, run: CronRun) -> None:
        try:
            self._emulator.record_cron_run(key, run)
        except PullQueueError as error:  # of the store: the job runs nevertheless
            _log.warning("the last run of a cron job is not recorded (%s): %s", key, error)

    def _carry_out(self, state: JobState) -> None:
        response = PushResponse(None, reason="the request failed because of a bug")
        try:
            response = self._request(state)
        except Exception:  # noqa: BLE001 - the job has failed, whatever it is
            _log.exception("%s cannot be requested", state.job.url)
        finally:
            with self._lock:
                self._end(state, response)
                self._lock.notify_all()

    def _request(self, state: JobState) -> PushResponse:
        job = state.job
        address = self._addresses.of(job.target)
        if address is None:
            target = "" if job.target is None else f"{job.target}="
            example = OPTION.replace(" ", f" {target}", 1)
            return PushResponse(None, reason=f"no address: start the server with {example}")
        request = PushRequest(
            method="GET",
            url=job.url,
            headers=cron_headers(),
            body=b"",
            target=job.target,
            queue_name="",
            task_name="",
            attempt=state.attempts,
            deadline_seconds=job.deadline_seconds,
        )
        origin = self._requests.origin(Interface.PUSH, str(address))
        began = perf_counter()
        response = self._sender.send(request, address)
        method = f"cron {job.url.partition('?')[0]}"
        self._requests.record_sent(
            request, response, method=method, seconds=perf_counter() - began, origin=origin
        )
        return response

    def _end(self, state: JobState, response: PushResponse) -> None:
        """Apply the end of a run to its job."""
        job = state.job
        state.is_running = False
        try:
            now_usec = self._emulator.now_usec()
        except PullQueueError:  # the store does not respond: about now
            now_usec = self._now_usec
        reason = None if is_success(response.status) else response.summary
        if not is_success(response.status):
            what = f"status {response.status}" if response.status else "no response"
            _log.warning("cron job %s failed (%s: %s)", job.url, what, reason)
        started_usec = now_usec if state.last is None else state.last.started_usec
        self._record(state, CronRun(started_usec, response.status, reason))
        # Of an interval without a range it is counted from now on.
        regular_usec = max(state.next_usec, to_usec(job.next_time(from_usec(now_usec))))
        if is_success(response.status) or not _is_retried(state, now_usec):
            state.attempts = 0
            state.next_usec = regular_usec
            return
        pause_seconds = backoff_seconds(state.attempts, job.retry or RetryParameters())
        retry_usec = now_usec + round(pause_seconds * USEC_PER_SECOND)
        if retry_usec >= regular_usec and _has_times(job):
            state.attempts = 0  # the next run comes first
        state.next_usec = min(retry_usec, regular_usec) if _has_times(job) else retry_usec


def _is_retried(state: JobState, now_usec: int) -> bool:
    retry = state.job.retry
    age_seconds = (now_usec - state.first_usec) / USEC_PER_SECOND
    return retry is not None and may_retry(state.attempts, age_seconds, retry)


def _has_times(job: CronJob) -> bool:
    """Return whether a job runs at times of the day, however long the run before takes."""
    return getattr(job.schedule, "start", True) is not None


def key_of(job: CronJob) -> str:
    """Return what identifies a job after a restart, wherever it is in the file then."""
    return f"{job.schedule_text}, {job.zone}: {job.target or 'default'} {job.url}"


def cron_headers() -> dict[str, str]:
    """Return the headers by which an app recognizes a request of App Engine's cron service."""
    return {
        "User-Agent": APP_ENGINE_USER_AGENT,
        "X-Appengine-Cron": "true",
        "X-AppEngine-User-IP": SOURCE_IP,
    }
