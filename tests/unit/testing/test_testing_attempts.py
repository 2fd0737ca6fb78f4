"""What `run_tasks` and `run_task` return of responses, and what they do to a handler that fails."""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import flask
import pytest
from functions import handling
from tables import each_row

from pullqueue import Emulator, ManualClock, SystemClock
from pullqueue.engine.queue import Queue
from pullqueue.errors import InvalidQueueModeError, TaskError, UnknownTaskError
from pullqueue.push.request import PushRequest
from pullqueue.sdk.imports import taskqueue
from pullqueue.tasks import HttpRequest, NewTask
from pullqueue.testing import Attempt, Faults, describe, drain, emulation, run_task, run_tasks
from pullqueue.testing.describing import describe_payload

Run = Callable[..., list[Attempt]]
ok = handling()


class TestSleepingHandlers:
    def test_a_sleep_moves_the_clock(
        self, run: Run, emulator: Emulator, pushed: Queue, clock: ManualClock
    ) -> None:
        """Also in `drain`, where it is not a worker that waits in vain; the first is too late."""
        pushed.add(request=HttpRequest("/", deadline_seconds=30))
        start = clock.now()
        sleeps = [11, 10]

        def handler(_: PushRequest) -> int:
            seconds = sleeps.pop(0)
            for _number in range(3):
                time.sleep(seconds)  # noqa: TID251 - the user's code
            return 200

        [late] = run(send=handler)
        assert (late.status, clock.now() - start) == (None, timedelta(seconds=33))
        assert drain(emulator, lambda: None, send=handler) == 0
        assert clock.now() - start >= timedelta(seconds=63)

    def test_a_sleep_takes_time_where_the_clock_cannot_be_moved(self) -> None:
        emulator = Emulator.from_text("queue: [{name: web, rate: 5/s}]", clock=SystemClock())
        emulator.queue("web").add()
        before = emulator.now_usec()

        sleep = partial(time.sleep, 0.001)  # noqa: TID251 - the user's code
        assert len(run_tasks(emulator, send=handling(sleep))) == 1
        assert emulator.now_usec() - before >= 1000


class TestBodies:
    @pytest.fixture
    def failing(self) -> flask.Flask:
        app = flask.Flask(__name__)
        app.add_url_rule("/", view_func=lambda: ("no stock\n" * 9000, 503), methods=["POST"])
        return app

    def test_an_attempt_has_64_kb_of_the_body_of_its_response_and_a_report_its_first_line(
        self, run: Run, emulator: Emulator, pushed: Queue, failing: flask.Flask
    ) -> None:
        pushed.add(name="t", request=HttpRequest("/"))

        [attempt] = run(failing)

        assert (attempt.status, attempt.body) == (503, (b"no stock\n" * 9000)[:65_536])
        assert "attempted once, last: status 503 (no stock), until" in describe(emulator)

    @pytest.mark.parametrize("name", ["content", "data", "body"])
    def test_a_response_of_a_test_client_has_a_body(
        self, run: Run, pushed: Queue, name: str
    ) -> None:
        pushed.add()

        [attempt] = run(send=lambda _: SimpleNamespace(status_code=200, **{name: b"done"}))

        assert attempt.body == b"done"


class TestStrict:
    @pytest.mark.parametrize("status", [500, 302, 199])
    def test_a_status_of_a_failure_is_raised(self, run: Run, pushed: Queue, status: int) -> None:
        pushed.add(name="t", request=HttpRequest("/mail"))
        response = SimpleNamespace(status_code=status, content=b"no stock")

        with pytest.raises(AssertionError) as raised:
            run(send=lambda _: response, errors="strict")

        assert str(raised.value) == (
            f'task "t" of queue "pushed" (POST /mail) will retry after attempt 1: status '
            f"{status}: b'no stock'"
        )

    def test_a_handler_that_passes_its_deadline_is_raised(
        self, run: Run, pushed: Queue, clock: ManualClock
    ) -> None:
        pushed.add(request=HttpRequest("/", deadline_seconds=30))

        with pytest.raises(AssertionError, match=r": no response within 30 s$"):
            run(send=handling(partial(clock.advance, 31)), errors="strict")

    def test_a_success_and_a_lost_response_are_not_raised(
        self, run: Run, emulator: Emulator, pushed: Queue
    ) -> None:
        """A test that loses a response wants the retry."""
        Faults(emulator).lose_response("attempt", times=1)
        pushed.add()

        attempts = run(send=ok, errors="strict", until="empty")

        assert [attempt.status for attempt in attempts] == [None, 200]

    def test_drain_is_as_strict(self, emulator: Emulator, pushed: Queue) -> None:
        pushed.add()

        with pytest.raises(AssertionError, match=r"after attempt 1: status 500$"):
            drain(emulator, lambda: None, send=lambda _: 500, errors="strict")


class TestLostResponses:
    def test_the_exception_of_the_handler_is_raised(
        self, run: Run, emulator: Emulator, pushed: Queue
    ) -> None:
        Faults(emulator).lose_response("attempt", times=1)
        pushed.add()

        def broken(_: PushRequest) -> int:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            run(send=broken)


class TestOneHop:
    def test_tasks_that_handlers_add_are_left(self, run: Run, pushed: Queue) -> None:
        for numbers in range(100), range(100, 150):
            pushed.add_many([NewTask(name=f"t{number}") for number in numbers])

        def handler(request: PushRequest) -> int:
            pushed.add(name=f"{request.task_name}-next")
            return 200

        first = run(send=handler, follow=False, max_attempts=150)
        second = run(send=ok, follow=False)

        assert [a.task.name for a in first] == [f"t{number}" for number in range(150)]
        assert [a.task.name for a in second] == [f"t{number}-next" for number in range(150)]
        assert run(send=ok, follow=False) == []

    def test_a_time_is_refused_and_a_retry_without_backoff_is_left(
        self, run: Run, pushed: Queue
    ) -> None:
        with pytest.raises(ValueError, match=r'^until is "empty": follow=False needs until="now"$'):
            run(send=ok, follow=False, until="empty")
        pushed.add()
        assert len(run(send=lambda _: 500, follow=False)) == 1


class TestOneTask:
    def test_it_is_sent_whether_or_not_it_is_due(
        self, emulator: Emulator, pushed: Queue, clock: ManualClock
    ) -> None:
        pushed.add(name="due")
        later = pushed.add(b"x", name="later", eta=clock.now() + timedelta(hours=1))
        pushed.pause()

        attempt = run_task(emulator, later, send=ok)

        assert (attempt.task.name, attempt.status, attempt.outcome) == ("later", 200, "succeeded")
        assert [task.name for task in pushed.list_tasks()] == ["due"]

    def test_a_failure_is_retried_and_sent_again(self, emulator: Emulator, pushed: Queue) -> None:
        task = pushed.add()

        first = run_task(emulator, task, send=lambda _: 500)
        second = run_task(emulator, task, send=ok)

        assert (first.outcome, first.number) == ("will retry", 1)
        assert (second.outcome, second.number) == ("succeeded", 2)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_task_of_the_sdk_has_its_name_and_that_of_its_queue(self) -> None:
        with emulation(queues=[{"name": "mails", "mode": "push", "rate": "5/s"}], sdk=True) as e:
            task = taskqueue.add(queue_name="mails", url="/mail", target="web")

            assert run_task(e.emulator, task, send=lambda _: 500).request.url == "/mail"
            [listed] = e.sdk.get_filtered_tasks()
            assert run_task(e.emulator, listed, send=ok).number == 2

    def test_what_cannot_be_sent_is_refused(self, emulator: Emulator, pushed: Queue) -> None:
        task = pushed.add(name="t")
        pulled = emulator.queue("work").add()

        with pytest.raises(TypeError, match=r'^task is "t": pass a task, such as emulator.queue'):
            run_task(emulator, "t", send=ok)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="app is missing"):
            run_task(emulator, task)
        with pytest.raises(InvalidQueueModeError, match="its tasks are not sent to an app"):
            run_task(emulator, pulled, send=ok)
        with pytest.raises(TaskError, match=r'^task "t" of queue "pushed" is being sent already$'):
            run_task(emulator, task, send=lambda _: run_task(emulator, task, send=ok))
        pushed.purge()
        with pytest.raises((UnknownTaskError, TaskError)):
            run_task(emulator, task, send=ok)


class Mailer:
    def send(self, *_: object) -> None:
        """Do nothing."""


def send(*_: object, **__: object) -> None:
    """Do nothing."""


class TestPickledPayloads:
    @each_row("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_a_deferred_call_is_shown_as_function_and_types(self, protocol: int) -> None:
        arguments = ("ada", 7, {1: 2}, timedelta(1), Mailer(), {3}, [Mailer()])
        payload = pickle.dumps((send, arguments, {"when": None}), protocol)

        assert describe_payload(payload) == (
            f"{__name__}.send(str, int, dict, datetime.timedelta, {__name__}.Mailer, set, list, "
            "when=NoneType)"
        )

    def test_a_deferred_method_is_shown_with_its_class(self) -> None:
        """Not as the helper of the SDK."""
        deferred = pytest.importorskip("google.appengine.ext.deferred")

        assert describe_payload(deferred.serialize(Mailer().send, "ada")) == (
            f"{__name__}.Mailer.send(str)"
        )

    def test_nothing_of_a_pickle_is_run(self, capfd: pytest.CaptureFixture[str]) -> None:
        class Evil:
            def __reduce__(self) -> tuple[object, ...]:
                return print, ("run",)

        payload = pickle.dumps((send, (Evil(),), {}))

        assert describe_payload(payload) == f"{__name__}.send(print)"
        assert capfd.readouterr().out == ""

    def test_a_pickle_that_asks_for_much_memory_is_bytes(self) -> None:
        payload = b"\x80\x02Nr" + (10_000_000).to_bytes(4, "little") + b"."
        tracemalloc.start()
        try:
            assert describe_payload(payload) == repr(payload)
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()

    @each_row("payload", [b"\x80", b"\x80\x05N.", pickle.dumps((1, 2)), b"text"])
    def test_other_payloads_are_bytes(self, payload: bytes) -> None:
        assert describe_payload(payload) == repr(payload)
