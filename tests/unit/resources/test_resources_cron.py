"""Cron jobs of a server, requested from an app."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from itertools import count
from time import perf_counter
from typing import Any, TypeAlias

import pytest
from control_client import ControlClient
from push_app import PushApp, push_app, until
from stores import store_url

from pullqueue import Emulator, ManualClock, TransientError
from pullqueue.address import SplitUrl
from pullqueue.cli import _process
from pullqueue.clock import from_usec
from pullqueue.cron.file import parse_cron
from pullqueue.cron.runner import CronRunner, JobState
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import CronRun, StoreFactory
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store


class Cron:
    def __init__(self, server: Server, clock: ManualClock) -> None:
        self.client = ControlClient(server)
        self.server = server
        self.clock = clock

    def jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.client.get("/cron").body["jobs"]
        return jobs

    def advance(self, seconds: float) -> None:
        """Let time jump, and wait until nothing is due or running."""
        self.clock.advance(seconds)
        self.settle()

    def settle(self) -> None:
        assert self.server.state.cron.settle(60)


@contextmanager
def serving(
    app: PushApp,
    clock: ManualClock,
    jobs: str,
    *addresses: str,
    store: StoreFactory = MemoryStore,
) -> Iterator[Cron]:
    """Serve the jobs of a cron.yaml, below its first line."""
    emulator = Emulator.from_text("queue: [{name: push, rate: 5/s}]", clock=clock, store=store)
    push_to, cron = PushAddresses(addresses or [app.url]), parse_cron(f"cron:\n{jobs}")
    with closing(emulator), Server(emulator, push_to=push_to, cron=cron) as server:
        yield Cron(server, clock)


Serve: TypeAlias = Callable[..., Cron]


@pytest.fixture
def serve(app: PushApp, clock: ManualClock) -> Iterator[Serve]:
    """Return a function that serves jobs until the end of the test."""
    with ExitStack() as stack:
        yield lambda *jobs: stack.enter_context(serving(app, clock, *jobs))


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the jobs have logged, and whether with a traceback."""
    return [
        each.getMessage() + (" (traceback)" if each.exc_info else "")
        for each in caplog.records
        if each.name == "pullqueue.cron"
    ]


HOURLY = "- {url: /hourly, schedule: every 1 hours synchronized}\n"


def test_a_job_is_requested_when_it_is_due(serve: Serve, app: PushApp) -> None:
    """With the headers by which an app recognizes App Engine's cron service."""
    cron = serve("- {url: '/tasks/sum?x=1', schedule: every 5 minutes}")
    cron.server.state.push_to.proof = {"X-Proof": "a"}
    cron.advance(299)
    assert app.received == []
    cron.advance(1)

    [request] = app.received
    assert (request.method, request.path, request.body) == ("GET", "/tasks/sum?x=1", b"")
    recorded = {
        "X-Appengine-Cron": "true", "X-AppEngine-QueueName": "__cron",
        "X-CloudScheduler": "true", "X-AppEngine-Country": "ZZ", "X-AppEngine-Https": "off",
        "X-AppEngine-Timeout-Ms": "600000", "X-AppEngine-User-IP": "0.1.0.2",
        "X-Google-Internal-SkipAdminCheck": "true", "X-Proof": "a",
    }  # fmt: skip
    assert {name: request.headers[name] for name in recorded} == recorded
    for name in ("X-CloudScheduler-JobName", "X-AppEngine-Request-Log-Id"):
        assert re.fullmatch("[0-9a-f]{8}", request.headers[name])
    assert request.headers["User-Agent"] == (
        "AppEngine-Google; (+http://code.google.com/appengine)"
    )
    [job] = cron.jobs()
    assert job["next"] == "2026-01-01T00:10:00+00:00"
    assert job["last"] == {
        "started": "2026-01-01T00:05:00+00:00",
        "status": 200,
        "reason": None,
    }
    [logged] = cron.client.get("/requests?method=cron").body["requests"]
    assert (logged["method"], logged["path"]) == ("cron /tasks/sum", "/tasks/sum")
    assert (logged["queue"], logged["tasks"], logged["client"]) == ("", [], app.url)
    assert (logged["status"], logged["milliseconds"] < 60_000) == (200, True)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kept_store_keeps_the_last_runs(app: PushApp, clock: ManualClock, kind: str) -> None:
    """A job that was due while no server ran runs once when one is back, and then as scheduled."""
    with store_url(kind) as url:

        @contextmanager
        def restarted() -> Iterator[Cron]:
            with serving(app, clock, HOURLY, store=open_store(url)) as cron:
                cron.settle()
                yield cron

        with restarted() as cron:
            app.received.clear()  # PostgreSQL has runs of another test
            cron.advance(3600)
            before = cron.jobs()
        with restarted() as cron:
            assert cron.jobs() == before
            assert len(app.received) == 1
        clock.advance(5 * 3600)
        with restarted() as cron:
            assert len(app.received) == 2
            cron.advance(3599)
            assert len(app.received) == 2
            cron.advance(1)
            assert len(app.received) == 3


@pytest.mark.parametrize("schedule", ["every 24 hours", "every day 09:00"])
def test_a_kept_store_knows_since_when_a_job_is_there(
    app: PushApp, clock: ManualClock, schedule: str
) -> None:
    """One that has not run yet is not put off by each restart."""
    jobs = f"- {{url: /daily, schedule: {schedule}}}"
    with store_url("sqlite") as url:
        for _ in range(4):
            with serving(app, clock, jobs, store=open_store(url)) as cron:
                cron.settle()
                assert (app.received, cron.jobs()[0]["last"]) == ([], None)
            clock.advance(2 * 3600)
        clock.advance(24 * 3600)
        with serving(app, clock, jobs, store=open_store(url)) as cron:
            cron.settle()

    assert app.paths() == ["/daily"]


def test_a_run_ends_while_the_store_does_not_respond(
    app: PushApp, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The job goes on as scheduled when it does, and the log has one line, however long it took."""
    failures = 0
    is_down = False

    class Store(MemoryStore):
        def now_usec(self) -> int:
            nonlocal failures
            if is_down:
                failures += threading.current_thread().name == "pullqueue cron"
                raise TransientError("the store does not respond")
            return super().now_usec()

    with serving(app, clock, "- {url: /slow, schedule: every 10 minutes}", store=Store) as cron:
        clock.advance(600)
        until(lambda: app.received)
        is_down = True
        app.released.set()
        until(lambda: failures > 1 and not cron.server.state.cron.states[0].is_running)
        is_down = False
        cron.settle()
        assert cron.jobs()[0]["last"]["status"] == 200
        cron.advance(600)

    assert app.paths() == ["/slow", "/slow"]
    assert logged(caplog) == ["cron jobs cannot be started: the store does not respond"]


def test_a_signal_closes_the_store_when_runs_have_ended(
    serve: Serve, app: PushApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: dict[int, Callable[[int, None], None]] = {}
    closed: list[bool] = []
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(_process, "_STOP_SECONDS", 0)
    cron = serve("- {url: /slow, schedule: every 1 hours}")
    runner = cron.server.state.cron
    close = lambda: closed.append(runner.states[0].is_running)  # noqa: E731 - a line
    monkeypatch.setattr(cron.server.emulator, "close", close)
    _process.Signals(cron.server)
    clock.advance(3600)
    until(lambda: app.received)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    until(lambda: closed or runner._stopping.is_set())
    app.released.set()
    until(lambda: closed)

    assert closed == [False]


def running_job(
    serve: Serve, app: PushApp, monkeypatch: pytest.MonkeyPatch, tick: float, *, ends: bool
) -> tuple[CronRunner, JobState]:
    """Return a runner and its only job, which runs, and soon ends if it is to.

    Time passes by `tick` seconds whenever the runner looks at it, and begins at 1,000.
    """
    times = count(1000.0, tick)
    monkeypatch.setattr("pullqueue.cron.runner.perf_counter", lambda: next(times))
    runner = serve("- {url: /slow, schedule: every 1 hours}").server.state.cron
    [state] = runner.states
    runner.run_now(state)
    until(lambda: app.received)
    assert runner.next_usec() is None
    if ends:
        threading.Timer(0.1, app.released.set).start()
    return runner, state


@pytest.mark.parametrize(
    ("seconds", "tick", "reason"),
    [(0.5, 0, None), (0, 0, "the server stopped"), (1, 0.3, "the server stopped")],
)
def test_a_stop_waits_for_runs_until_its_end(
    *,
    serve: Serve,
    app: PushApp,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    tick: float,
    reason: str | None,
) -> None:
    """And for no longer."""
    runner, state = running_job(serve, app, monkeypatch, tick, ends=reason is None)
    runner.stop_starting()
    runner.stop(1000.0 + seconds)

    until(lambda: not state.is_running)
    assert state.last is not None
    assert state.last.reason == reason


@pytest.mark.parametrize(
    ("seconds", "tick", "has_ended"), [(0.5, 0, True), (0, 0, False), (1, 0.3, False)]
)
def test_who_waits_for_a_job_learns_whether_it_has_ended(
    *,
    serve: Serve,
    app: PushApp,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    tick: float,
    has_ended: bool,
) -> None:
    """Until that time; and not once jobs are no longer started."""
    runner, state = running_job(serve, app, monkeypatch, tick, ends=has_ended)

    assert runner.settle(seconds) is has_ended
    app.released.set()
    until(lambda: not state.is_running)
    assert runner.settle(1)
    runner.stop_starting()
    assert not runner.settle(1)


def test_a_stop_does_not_wait_for_a_store_that_does_not_respond(
    app: PushApp, clock: ManualClock
) -> None:
    is_down = False
    asked, released = threading.Event(), threading.Event()

    class Store(MemoryStore):
        def now_usec(self) -> int:
            if is_down and threading.current_thread().name == "pullqueue cron":
                asked.set()
                released.wait(60)
            return super().now_usec()

    with serving(app, clock, HOURLY, store=Store) as cron:
        is_down = True
        assert asked.wait(60)
        cron.server.state.cron.stop_starting()
        cron.server.state.cron.stop(perf_counter())

        assert any(each.name == "pullqueue cron" for each in threading.enumerate())
        released.set()


def test_a_target_has_its_own_address(app: PushApp, clock: ManualClock) -> None:
    """One without an address of its own goes to the default one."""
    jobs = "".join(
        f"- {{url: /{name}, schedule: every 1 hours, target: {name}}}\n" for name in ("a", "b")
    )
    with push_app() as other, serving(app, clock, jobs, app.url, f"b={other.url}") as cron:
        cron.advance(3600)

        assert (app.paths(), other.paths()) == (["/a"], ["/b"])
        cron.server.state.push_to.awaited = frozenset([app.url])
        clock.advance(3600)
        until(lambda: other.paths() == ["/b", "/b"])
        cron.server.state.push_to.awaited = frozenset()
        cron.settle()
        assert app.paths() == ["/a", "/a"]


def test_a_job_without_an_address_says_what_is_missing(serve: Serve, app: PushApp) -> None:
    jobs = (
        "- {url: /a, schedule: every 1 hours, target: worker}\n- {url: /b, schedule: every 1 hours}"
    )
    cron = serve(jobs, f"web={app.url}")
    cron.advance(3600)

    assert [job["last"]["reason"] for job in cron.jobs()] == [
        f"no address: run `pullqueue push-to {option}http://localhost:8080 --url {cron.server.url}`"
        for option in ("worker=", "")
    ]
    assert app.received == []


def test_a_jump_of_the_clock_runs_a_job_once(serve: Serve, app: PushApp) -> None:
    """However often it would have been due."""
    cron = serve(HOURLY)
    cron.advance(10 * 3600 + 60)

    assert app.paths() == ["/hourly"]
    assert cron.jobs()[0]["next"] == "2026-01-01T11:00:00+00:00"
    [logged] = cron.client.get("/requests?method=cron").body["requests"]
    assert logged["method"] == "cron /hourly"


def test_time_that_passes_with_delivery_runs_each(
    serve: Serve, app: PushApp, clock: ManualClock
) -> None:
    """As with `clock advance --deliver`."""
    times: list[timedelta] = []
    start = clock.now()
    app.on_request = lambda _: times.append(clock.now() - start)
    cron = serve(HOURLY)
    moved = cron.client.post("/clock", {"advance": 3 * 3600 + 60, "deliver": True})

    assert moved.body["reached"]
    assert times == [timedelta(hours=hours) for hours in (1, 2, 3)]


def test_an_interval_begins_when_the_run_has_ended(
    serve: Serve, app: PushApp, clock: ManualClock
) -> None:
    cron = serve("- {url: /slow, schedule: every 10 minutes}")
    clock.advance(600)
    until(lambda: app.received)
    assert cron.jobs()[0]["running"]
    clock.advance(300)
    app.released.set()
    cron.settle()

    assert cron.jobs()[0]["next"] == "2026-01-01T00:25:00+00:00"


def test_a_job_that_still_runs_is_left_out_once(
    serve: Serve, app: PushApp, clock: ManualClock
) -> None:
    cron = serve(HOURLY.replace("/hourly", "/slow"))
    clock.advance(3600)
    until(lambda: app.received)
    clock.advance(3600)
    until(lambda: cron.jobs()[0]["next"] == "2026-01-01T03:00:00+00:00")
    app.released.set()
    cron.settle()

    assert app.paths() == ["/slow"]
    cron.advance(3600)
    assert app.paths() == ["/slow", "/slow"]


@pytest.mark.parametrize(
    ("schedule", "expected"), [("every 1 hours", "01T00:59"), ("every day 00:00", "01T00:00")]
)
def test_a_clock_that_goes_back_a_minute_was_set(
    app: PushApp, clock: ManualClock, schedule: str, expected: str
) -> None:
    """An interval is as long as it was; a time of the day is there again."""
    back_usec = 0

    class Store(MemoryStore):
        def now_usec(self) -> int:
            return super().now_usec() - back_usec

    with serving(app, clock, f"- {{url: /a, schedule: {schedule}}}", store=Store) as cron:
        cron.settle()
        back_usec = 60_000_000

        until(lambda: cron.jobs()[0]["next"] == f"2026-01-{expected}:00+00:00")
        assert app.received == []


@pytest.mark.parametrize("text", ["can't start new thread", ""])
def test_a_job_that_cannot_begin_is_not_running(
    *,
    text: str,
    serve: Serve,
    app: PushApp,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = threading.Thread.start

    def start_no_job(thread: threading.Thread) -> None:
        if thread.name == "pullqueue cron":
            clock.advance(3600)  # the job is due at the first look
        if thread.name == "pullqueue cron 1" and len(refusals) < 3:
            refusals.append(thread)
            raise RuntimeError(text)
        start(thread)

    refusals: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", start_no_job)
    cron = serve(HOURLY)
    until(lambda: refusals)
    assert not cron.jobs()[0]["running"]
    cron.settle()

    assert app.paths() == ["/hourly"]
    assert logged(caplog) == [f"cron jobs cannot be started: {text} (traceback)"]


class TestFailures:
    @pytest.mark.parametrize(
        ("path", "status", "reason"),
        [("/status/503", 503, "no /status/503"), ("/empty", 500, "the response is empty")],
    )
    def test_a_failed_job_is_not_repeated(
        self,
        *,
        serve: Serve,
        app: PushApp,
        caplog: pytest.LogCaptureFixture,
        path: str,
        status: int,
        reason: str,
    ) -> None:
        """Unless it has retry_parameters."""
        cron = serve(f"- {{url: {path}, schedule: every 1 hours}}")
        cron.advance(3600)
        cron.advance(3599)

        [job] = cron.jobs()
        assert len(app.received) == 1
        assert (job["last"]["status"], job["last"]["reason"]) == (status, reason)
        assert job["retries"] == 0
        assert logged(caplog) == [f"cron job {path} failed: status {status} ({reason})"]

    def test_what_goes_wrong_in_a_run_is_logged_and_ends_it(
        self, app: PushApp, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its record cannot be stored, or it is a bug; then the job goes on."""

        class Store(MemoryStore):
            def record_cron_run(self, key: str, run: CronRun) -> None:
                runs.append((from_usec(run.started_usec).hour, run.reason))
                if run.status == 200:
                    raise TransientError("the store does not respond")

        class Addresses(PushAddresses):
            def of(self, target: str | None) -> SplitUrl | None:
                if threading.current_thread().name.startswith("pullqueue cron "):
                    broken.append(target)
                    if len(broken) == 1:
                        raise RuntimeError("a bug")
                return super().of(target)

        broken: list[str | None] = []
        runs: list[tuple[int, str | None]] = []
        emulator = Emulator.from_text("queue: []", clock=clock, store=Store)
        jobs = parse_cron(f"cron:\n{HOURLY}")
        with (
            closing(emulator),
            Server(emulator, push_to=Addresses([app.url]), cron=jobs) as server,
        ):
            cron = Cron(server, clock)
            cron.advance(3600)
            bug = "the request failed because of a bug"
            assert cron.jobs()[0]["last"]["reason"] == bug
            cron.advance(3600)
            assert cron.jobs()[0]["last"]["status"] == 200
        # As it would be after the end of the process.
        interrupted = "it was interrupted"
        assert runs == [(0, None), (1, interrupted), (1, bug), (2, interrupted), (2, None)]

        key = "every 1 hours synchronized, UTC: default /hourly"
        assert logged(caplog) == [
            "/hourly cannot be requested (traceback)",
            "cron job /hourly failed: no response (the request failed because of a bug)",
            f"the last run of a cron job is not recorded ({key}): the store does not respond",
        ]

    def test_a_repetition_that_succeeds_is_the_last(
        self, serve: Serve, app: PushApp, clock: ManualClock
    ) -> None:
        jobs = (
            "- {url: /fails/1, schedule: every 1 hours, retry_parameters: {job_retry_limit: 5, "
            "min_backoff_seconds: 10}}"
        )
        cron = serve(jobs)
        cron.advance(3600)
        assert cron.jobs()[0]["retries"] == 1
        cron.client.post("/clock", {"advance": 600, "deliver": True})

        assert len(app.received) == 2
        assert cron.jobs()[0]["retries"] == 0


class TestRunNow:
    JOBS = (
        "- {url: /a, description: first, schedule: every 1 hours}\n"
        "- {url: /b, schedule: every 1 hours}\n"
        "- {url: /b, description: third, schedule: every 2 hours}\n"
    )

    def test_a_job_is_found(self, serve: Serve, app: PushApp) -> None:
        """By its description, URL or number; it runs past its schedule, and that is recorded."""
        cron = serve(self.JOBS)
        for job, number, name in (("first", 1, "first"), ("/a", 1, "first"), ("3", 3, "third")):
            reply = cron.client.post("/cron/run", {"job": job})
            assert reply.body == {"started": True, "number": number}
            cron.settle()
            action = cron.client.get("/activity").body["actions"][0]
            assert action["text"] == f'ran cron job "{name}"'

        assert app.paths() == ["/a", "/a", "/b"]

    def test_a_job_that_is_not_there_or_not_the_only_one_is_refused(self, serve: Serve) -> None:
        jobs = self.JOBS.replace("- {url: /b, schedule", "- {url: /b, description: 2nd, schedule")
        cron = serve(jobs)
        for job, status, message in (
            ("frist", 404, 'there is no cron job "frist": did you mean "first"?'),
            ("/c", 404, 'there is no cron job "/c": use one of first, 2nd, third'),
            ("/b", 400, 'several jobs have the url "/b": use a number, 2, 3'),
        ):
            refused = cron.client.post("/cron/run", {"job": job})
            assert (refused.status, refused.message) == (status, message)

    def test_a_running_job_is_not_started_again(self, serve: Serve, app: PushApp) -> None:
        cron = serve("- {url: /slow, schedule: every 1 hours}")
        runner = cron.server.state.cron
        assert runner.run_now(runner.states[0])
        # The end of the process waits for none of them.
        assert all(each.daemon for each in threading.enumerate() if "pullqueue cron" in each.name)
        reply = cron.client.post("/cron/run", {"job": "/slow"})
        assert reply.body == {"started": False, "number": 1}
        app.released.set()
        cron.settle()

    def test_a_job_whose_app_does_not_listen_yet_is_refused(
        self, serve: Serve, app: PushApp
    ) -> None:
        cron = serve(HOURLY)
        cron.server.state.push_to.await_app()
        reply = cron.client.post("/cron/run", {"job": "1"})

        waits = f"the server waits for the app to listen at {app.url}"
        message = f'cron job "/hourly" cannot run yet: {waits}'
        assert (reply.status, reply.message) == (409, message)
        assert cron.jobs()[0]["last"] is None

    def test_a_server_without_cron_yaml_says_so(self) -> None:
        client = ControlClient(Server(Emulator.from_text("queue: []")))

        assert client.get("/cron").body == {"jobs": []}
        assert client.post("/cron/run", {"job": "/a"}).message == (
            "the server has no cron.yaml: start it with --cron cron.yaml"
        )
