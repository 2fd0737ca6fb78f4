"""Running push tasks in a test: by an app, or by a function."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import flask
import pytest
from functions import handling

from pullqueue import Emulator, ManualClock
from pullqueue.engine import verbs
from pullqueue.engine.queue import Queue
from pullqueue.errors import TransientError
from pullqueue.faults.declaration import Faults
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.sdk.deferred import deferred, namespace_manager
from pullqueue.tasks import HttpRequest, NewTask, RetryParameters
from pullqueue.testing import Attempt, describe, emulation, run_tasks

CONFIG = """
queue:
- name: web
  rate: 5/s
  retry_parameters:
    min_backoff_seconds: 10
    task_retry_limit: 3
- name: other
  rate: 500/s
- name: never
  rate: 0/s
- name: pull
  mode: pull
"""


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(CONFIG, clock=clock)


@pytest.fixture
def web(emulator: Emulator) -> Queue:
    return emulator.queue("web")


def app_of(handler: Callable[[flask.Request], Any]) -> flask.Flask:
    app = flask.Flask(__name__)
    app.testing = True

    @app.route("/", defaults={"path": ""}, methods=["GET", "POST", "PUT", "DELETE"])
    @app.route("/<path:path>", methods=["GET", "POST", "PUT", "DELETE"])
    def handle(path: str) -> Any:
        return handler(flask.request)

    return app


Run = Callable[..., list[Attempt]]


ok = handling()


def failing(_: PushRequest) -> int:
    return 500


class TestWhatIsRun:
    def test_the_request_of_a_task_reaches_its_handler(self, run: Run, web: Queue) -> None:
        web.add(b"to=ada", name="t", request=HttpRequest("/mail?x=1", "PUT"))

        [attempt] = run(app_of(lambda r: r.full_path + r.get_data(as_text=True)))

        assert (attempt.request.url, attempt.status, attempt.number) == ("/mail?x=1", 200, 1)
        assert (attempt.task.name, attempt.outcome, attempt.error) == ("t", "succeeded", None)
        assert web.list_tasks() == []

    def test_tasks_of_all_or_the_named_queues_run_by_eta_then_by_arrival(
        self, run: Run, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        other = emulator.queue("other")
        web.add(name="second")
        other.add(name="third")
        web.add(name="fourth")
        web.add(name="first", eta=clock.now() - timedelta(seconds=1))

        attempts = run(send=failing, follow=False)

        assert [a.task.name for a in attempts] == ["first", "second", "third", "fourth"]
        emulator.reset()
        web.add()
        other.add()
        assert len(run(send=ok, queues=["web"])) == 1
        assert len(run(send=ok, queues=[web, other])) == 1

    def test_a_task_that_a_handler_deletes_is_not_sent(
        self, run: Run, emulator: Emulator, web: Queue
    ) -> None:
        for name in "abc":
            web.add(name=name)
        other = emulator.queue("other")
        other.add(name="d")

        def handler(request: PushRequest) -> int:
            web.delete_tasks(["a", "b"])
            other.pause()
            return 500

        attempts = run(send=handler)

        assert [(a.task.name, a.outcome) for a in attempts] == [
            ("a", "dropped"),
            ("c", "will retry"),
        ]

    def test_each_task_goes_to_the_app_of_its_target(self, run: Run, web: Queue) -> None:
        """A service or an origin; one app gets all."""
        seen: list[tuple[str, str]] = []

        def app(name: str) -> flask.Flask:
            def handle(request: flask.Request) -> str:
                seen.append((name, request.path))
                return ""

            return app_of(handle)

        several = {"worker": app("w"), None: app("default"), "https://api.example": app("api")}
        for apps in (several, app("one")):
            web.add(request=HttpRequest("/a", target="worker"))
            web.add(request=HttpRequest("/v", target="v1.worker"))
            web.add(request=HttpRequest("/b"))
            verbs.insert(
                web, [NewTask(request=HttpRequest("https://api.example/c"))], absolute_urls=True
            )
            run(apps)

        assert seen[:4] == [("w", "/a"), ("w", "/v"), ("default", "/b"), ("api", "/c")]
        assert seen[4:] == [("one", path) for path in ("/a", "/v", "/b", "/c")]

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("api", 'there is no app for tasks with target "api", and task "t" of queue "web" '),
            (None, "there is no app for tasks without a target, and task "),
        ],
    )
    def test_a_target_without_an_app_is_an_error_that_names_it(
        self, run: Run, web: Queue, target: str | None, message: str
    ) -> None:
        web.add(name="t", request=HttpRequest("/a", target=target))

        with pytest.raises(ValueError, match=message):
            run({"worker": app_of(lambda _: "")})

        assert web.get_task("t").retry_count == 0


class TestSend:
    def test_redirects_are_followed_and_retry_after_is_respected(
        self, run: Run, web: Queue, clock: ManualClock
    ) -> None:
        """Of an HTTP target: a redirect is followed, and Retry-After respected."""
        request = HttpRequest("https://api.example/a")
        verbs.insert(web, [NewTask(request=request)], absolute_urls=True)
        paths: list[str] = []

        def send(request: PushRequest) -> Any:
            paths.append(request.path)
            if request.path == "/a":
                return SimpleNamespace(status_code=307, headers={"Location": "/b"})
            return SimpleNamespace(status_code=429, headers={"Retry-After": "70"})

        [attempt] = run(send=send)
        [task] = web.list_tasks()

        assert (paths, attempt.status) == (["/a", "/b"], 429)
        assert task.eta == clock.now() + timedelta(seconds=70)

    @pytest.mark.parametrize(
        "result",
        [204, SimpleNamespace(status_code=204), SimpleNamespace(status_int=204), PushResponse(204)],
    )
    def test_a_function_returns_a_status_or_a_response(
        self, run: Run, web: Queue, result: Any
    ) -> None:
        web.add(b"x", request=HttpRequest("/mail"))
        requests: list[PushRequest] = []

        def send(request: PushRequest) -> Any:
            requests.append(request)
            return result

        [attempt] = run(send=send)

        assert (attempt.status, attempt.outcome) == (204, "succeeded")
        assert requests == [attempt.request]

    @pytest.mark.parametrize("result", [None, "200", True, 7, SimpleNamespace(status_code="200")])
    def test_an_invalid_result_is_an_error_of_the_test(
        self, run: Run, emulator: Emulator, web: Queue, result: object
    ) -> None:
        """Not of the task, also where calls are intercepted."""
        emulator.interceptors.add(lambda _, call_next: call_next())
        web.add()

        with pytest.raises(TypeError, match="it must return a status, such as 200"):
            run(send=lambda _: result)

    def test_coroutines_are_refused(self, run: Run, web: Queue) -> None:
        """A coroutine function before an attempt, what returns a coroutine after it."""
        web.add()

        async def send(_: PushRequest) -> int:
            return 200

        class Sends:
            async def __call__(self, _: PushRequest) -> int:
                return 200

        for refused in (send, Sends()):
            with pytest.raises(TypeError, match=r"^send is .* asyncio.to_thread\(run_tasks, "):
                run(send=refused)
        assert web.list_tasks()[0].retry_count == 0
        with pytest.raises(TypeError, match=r"^send returned .* asyncio.to_thread\(run_tasks, "):
            run(send=lambda request: asyncio.sleep(0, request))


class TestFailures:
    def test_an_exception_ends_the_test_at_the_line_of_the_handler(
        self, run: Run, web: Queue
    ) -> None:
        web.add(name="t")
        web.add(name="later")

        def handler(_: flask.Request) -> str:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken") as raised:
            run(app_of(handler))

        assert raised.traceback[-1].name == "handler"
        failed = web.get_task("t").attempts
        assert failed is not None
        assert failed.status == 500
        assert web.get_task("later").retry_count == 0

    def test_an_exception_is_a_status_where_errors_are_retried(self, run: Run, web: Queue) -> None:
        web.add()
        errors: list[Exception] = [ValueError("broken"), KeyError("x")]

        def handler(_: PushRequest) -> int:
            if errors:
                raise errors.pop(0)
            return 200

        attempts = run(send=handler, errors="retry", until="empty")

        assert [(a.status, repr(a.error), a.outcome) for a in attempts] == [
            (500, "ValueError('broken')", "will retry"),
            (500, "KeyError('x')", "will retry"),
            (200, "None", "succeeded"),
        ]

    def test_a_handler_that_passes_its_deadline_leaves_no_response(
        self, run: Run, web: Queue, clock: ManualClock
    ) -> None:
        web.add(request=HttpRequest("/", deadline_seconds=30))
        steps = [31, 30]
        handler = handling(lambda: clock.advance(steps.pop(0)))

        first, second = run(send=handler, until="empty")

        assert (first.status, first.reason) == (None, "no response within 30 s")
        assert second.status == 200
        assert second.request.headers["X-AppEngine-TaskRetryReason"] == "Instance Unavailable"

    def test_an_endless_loop_ends_with_the_state_of_the_queues(self, run: Run, web: Queue) -> None:
        web.add(name="t")
        handler = handling(lambda: web.add(request=HttpRequest("/again")))

        with pytest.raises(AssertionError) as raised:
            run(send=handler, max_attempts=3)

        message = str(raised.value)
        assert message.startswith("3 attempts were made to send tasks, and some are still due; ")
        assert "pass a higher max_attempts" in message
        assert "task_retry_limit" not in message
        assert 'queue "web": 1 available\n' in message
        assert [str(shown.path) for shown in raised.traceback.filter(raised)] == [__file__]

    @pytest.mark.parametrize(
        ("retry", "until"),
        [
            (RetryParameters(), "forever, since it has no task_retry_limit"),
            (
                RetryParameters(task_retry_limit=2, task_age_limit_seconds=172_800),
                "until both limits are exceeded: task_retry_limit, 2, is exceeded, task_age_limit",
            ),
        ],
    )
    def test_the_message_on_endless_retries_names_the_limit(
        self, run: Run, web: Queue, retry: RetryParameters, until: str
    ) -> None:
        web.add(name="t", request=HttpRequest("/a", retry=retry))
        retried = f'task "t" of queue "web" has failed 3 times and is retried {until}'

        with pytest.raises(AssertionError, match=retried):
            run(send=failing, until="empty", max_attempts=3)

    @pytest.mark.parametrize(
        ("name", "why"), [("never", "rate is 0"), ("web", "the queue is paused")]
    )
    def test_the_report_says_why_tasks_are_not_sent(
        self, run: Run, emulator: Emulator, name: str, why: str
    ) -> None:
        emulator.queue(name).add(name="t")
        emulator.queue("web").pause()

        assert run(send=ok) == []

        shown = describe(emulator)
        assert f'queue "{name}": 1 available\n  not sent: {why}\n  available "t"' in shown
        assert "run_tasks" not in shown

    def test_a_report_shows_due_tasks_before_others_and_what_sends_them(
        self, run: Run, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """The deadline of the last attempt of an exhausted task is not shown."""
        web.add(name="t", request=HttpRequest("/a", retry=RetryParameters(task_retry_limit=0)))
        run(send=failing)
        web.add(name="later", eta=clock.now() + timedelta(seconds=5))
        web.add(name="due")

        shown = describe(emulator).splitlines()[1:6]

        assert shown[0] == 'queue "web": 1 available, 1 scheduled, 1 exhausted'
        assert shown[1].startswith("  due tasks are sent by run_tasks(emulator, app), or by")
        assert [line.split()[:2] for line in shown[2:4]] == [
            ["available", '"due"'],
            ["scheduled", '"later"'],
        ]
        exhausted = "  exhausted \"t\" POST /a attempted once, last: status 500, payload b''"
        assert shown[4] == exhausted

    def test_the_report_of_a_failed_test_shows_the_state_of_a_task(
        self, run: Run, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        web.add(b"to=ada", name="t", request=HttpRequest("/mail"))
        run(send=failing)
        Faults(emulator).fail("attempt", TransientError("overloaded"), times=1)
        run(send=ok, until=timedelta(seconds=10))

        assert (
            describe(emulator)
            == """\
the time is 2026-01-01T00:00:10+00:00
queue "web": 1 retrying
  nothing is due: the next is in 0:00:20; run_tasks(..., until=...) moves the clock
  retrying  "t" POST /mail attempted twice, last: no response (overloaded), until \
2026-01-01T00:00:30+00:00 (in 0:00:20) payload b'to=ada'
  events:
    2026-01-01T00:00:00+00:00 "t" added
    2026-01-01T00:00:00+00:00 "t" attempt started until 2026-01-01T00:10:00+00:00
    2026-01-01T00:00:00+00:00 "t" attempt failed (status 500) until 2026-01-01T00:00:10+00:00
    2026-01-01T00:00:10+00:00 "t" attempt started until 2026-01-01T00:10:10+00:00
    2026-01-01T00:00:10+00:00 "t" attempt failed (no response) until 2026-01-01T00:00:30+00:00
queue "pull": empty
fault fail("attempt", TransientError('overloaded'), times=1): triggered on 1 of 1 calls"""
        )


class TestUntil:
    def test_the_clock_moves_from_attempt_to_attempt_until_no_task_is_left(
        self, run: Run, web: Queue, clock: ManualClock
    ) -> None:
        web.add(name="a")
        web.add(name="b", eta=clock.now() + timedelta(days=2))
        start = clock.now()

        attempts = run(send=failing, until="empty")

        assert [(a.task.name, (a.started - start).total_seconds()) for a in attempts] == [
            *[("a", seconds) for seconds in (0, 10, 30, 70)],
            *[("b", 172_800 + seconds) for seconds in (0, 10, 30, 70)],
        ]
        assert attempts[-1].outcome == "exhausted"
        assert clock.now() == attempts[-1].started
        assert [task.name for task in web.exhausted] == ["a", "b"]

    @pytest.mark.parametrize("seconds", [70, 75])
    def test_what_becomes_due_until_a_time_runs(
        self, run: Run, web: Queue, clock: ManualClock, seconds: float
    ) -> None:
        web.add(request=HttpRequest("/", retry=RetryParameters(min_backoff_seconds=35)))
        end = clock.now() + timedelta(seconds=seconds)

        attempts = run(send=failing, until=timedelta(seconds=seconds))

        assert len(attempts) == 2
        assert clock.now() == end
        later = end + timedelta(seconds=40)
        assert len(run(send=failing, until=later)) == 1
        assert clock.now() == later

    @pytest.mark.parametrize(
        ("name", "why", "advice"),
        [
            ("never", "has `rate: 0`", ", and `resume` does not change that: set another rate in"),
            ("web", "is paused", ": resume it"),
            ("other", "is disabled", ": resume it"),
        ],
    )
    def test_a_queue_that_never_sends_is_an_error_with_what_to_do(
        self, run: Run, emulator: Emulator, name: str, why: str, advice: str
    ) -> None:
        """The queues that the message proposes for a test with rate 0 are valid, and are sent."""
        emulator.queue(name).add()
        emulator.queue("web").pause()
        emulator.queue("other").is_disabled = True

        left = f'^queue "{name}" {why}, with 1 task that cannot be sent{advice}'
        with pytest.raises(AssertionError, match=left) as raised:
            run(send=ok, until="empty")

        if name == "never":
            example = str(raised.value).split("pullqueue(queues=")[1].split(")")[0]
            with emulation(queues=json.loads(example)) as emulated:
                emulated.emulator.queue("never").add()
                assert len(run_tasks(emulated.emulator, send=ok)) == 1

    def test_rates_hold_tasks_back_if_asked_for(
        self, run: Run, web: Queue, clock: ManualClock
    ) -> None:
        for _ in range(12):
            web.add()
        start = clock.now()

        at_once = run(send=ok, rates=True)
        later = run(send=ok, rates=True, until=timedelta(seconds=0.6))

        assert len(at_once) == 5
        assert [(a.started - start).total_seconds() for a in later] == pytest.approx(
            [0.2, 0.4, 0.6]
        )
        assert len(run(send=ok)) == 4


def note(text: str) -> None:
    NOTES.append(
        (text, os.environ["HTTP_X_APPENGINE_QUEUENAME"], namespace_manager.get_namespace())
    )
    if text == "again":
        raise deferred.SingularTaskFailure
    if text == "never":
        raise deferred.PermanentTaskFailure
    if text == "broken":
        raise ValueError(text)


NOTES: list[tuple[str, str, str]] = []


class TestDeferred:
    @pytest.fixture(autouse=True)
    def _notes(self) -> None:
        NOTES.clear()

    def add(self, queue: Queue, text: str) -> None:
        headers = (("X-AppEngine-Current-Namespace", "tenant"),)
        request = HttpRequest("/_ah/queue/deferred", headers=headers)
        queue.add(deferred.serialize(note, text), name=text, request=request)

    def test_deferred_calls_without_an_app_are_made_in_this_process(
        self, run: Run, web: Queue
    ) -> None:
        before = namespace_manager.get_namespace()
        self.add(web, "hello")

        [attempt] = run(deferred=True)

        assert (attempt.status, NOTES) == (200, [("hello", "web", "tenant")])
        assert namespace_manager.get_namespace() == before
        assert "HTTP_X_APPENGINE_QUEUENAME" not in os.environ

    def test_failures_are_what_the_handler_of_google_makes_of_them(
        self, run: Run, web: Queue
    ) -> None:
        """Others are raised at their own line."""
        for text in ("again", "never"):
            self.add(web, text)
        web.add(b"no pickle", name="unreadable", request=HttpRequest("/_ah/queue/deferred"))

        attempts = run(deferred=True)

        assert [(a.task.name, a.status, a.outcome) for a in attempts] == [
            ("again", 408, "will retry"),
            ("never", 200, "succeeded"),
            ("unreadable", 200, "succeeded"),
        ]
        self.add(web, "broken")
        with pytest.raises(ValueError, match="broken") as raised:
            run(deferred=True)
        assert raised.traceback[-1].name == "note"

    def test_other_tasks_go_to_the_app(self, run: Run, web: Queue) -> None:
        self.add(web, "hello")
        web.add(name="t", request=HttpRequest("/mail"))

        with pytest.raises(
            ValueError, match=r'app is missing, and task "t" .*\(POST /mail\) is due'
        ):
            run(deferred=True)
        [attempt] = run(app_of(lambda r: r.path), deferred=True)

        assert attempt.request.url == "/mail"
        assert len(NOTES) == 1
