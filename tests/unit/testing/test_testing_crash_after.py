"""What handlers do after their responses is lost where they are killed there, and not retried."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import Queue as Orders
from threading import Event, Thread
from typing import Any

import pytest
import responses
from flask import Flask, Response
from functions import Run, Work, adding, handling, in_turn

from pullqueue import Emulator, Queue
from pullqueue.engine.interceptors import QueueCall
from pullqueue.errors import DeadlineExceededError, TransientError
from pullqueue.tasks import HttpRequest
from pullqueue.testing import Crash, CrashTestError

pytestmark = pytest.mark.slow
Mail = Callable[[], object]


def closing(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    """Return an app of Flask that works where its response is closed."""
    app = Flask("app")

    @app.post("/pay")
    def pay() -> Response:
        response = Response("")
        if is_late:
            response.call_on_close(mail)
        else:
            mail()
        return response

    return {"app": app}


def streaming(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    """Return one that works while its response is sent, or in `close` of the iterable."""

    class Parts:
        def __init__(self) -> None:
            self._parts = iter([b"a", b"b"])

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> bytes:
            if not is_late and self._parts.__length_hint__() == 1:  # type: ignore[attr-defined]
                mail()
            return next(self._parts)

        def close(self) -> None:
            if is_late:
                mail()

    def app(_: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return Parts()

    return {"app": app}


def background(mail: Mail, *, is_late: bool, is_async: bool = False) -> dict[str, Any]:
    """Return a client of FastAPI, whose handler leaves a background task."""
    from fastapi import BackgroundTasks, FastAPI
    from fastapi.testclient import TestClient

    app = FastAPI()

    async def later() -> None:
        await asyncio.sleep(0)
        mail()

    def pay(tasks: BackgroundTasks) -> None:
        if is_late:
            tasks.add_task(later if is_async else mail)
        else:
            TestClient(FastAPI()).get("/")  # whose response is not that of the task
            mail()

    pay.__annotations__["tasks"] = BackgroundTasks  # which is not in the globals
    app.post("/pay")(pay)
    outer = FastAPI()
    outer.mount("/" if is_async else "/outer", app)
    client = TestClient(outer)
    prefix = "" if is_async else "/outer"
    return {"send": lambda r: client.request(r.method, f"{prefix}{r.url}")}


def background_of_async(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    return background(mail, is_late=is_late, is_async=True)


def thread(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    """Return an app of Flask whose handler leaves a thread, or waits for it."""
    app = Flask("app")

    @app.post("/pay")
    def pay() -> str:
        worker = Thread(target=careless(mail))
        worker.start()
        if not is_late:
            worker.join()
        return ""

    return {"app": app}


def pool(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    """Return one that leaves the call to a pool of the app, in a thread of a thread."""
    app, threads = Flask("app"), ThreadPoolExecutor(2)

    @app.post("/pay")
    def pay() -> str:
        outer = threads.submit(lambda: threads.submit(careless(mail)))
        if not is_late:
            outer.result().result()
        return ""

    return {"app": app}


def thread_of_fastapi(mail: Mail, *, is_late: bool, is_async: bool = False) -> dict[str, Any]:
    """Return a client of FastAPI, whose handler leaves a thread."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    app = FastAPI()

    def pay() -> None:
        worker = Thread(target=copy_context().run, args=[careless(mail)])
        worker.start()
        if not is_late:
            worker.join()

    async def pay_async() -> None:
        done = asyncio.get_running_loop().run_in_executor(None, mail)
        if not is_late:
            await done

    app.post("/pay")(pay_async if is_async else pay)
    client = TestClient(app)
    client.__enter__()
    return {"send": lambda r: client.request(r.method, r.url)}


def thread_of_async(mail: Mail, *, is_late: bool) -> dict[str, Any]:
    return thread_of_fastapi(mail, is_late=is_late, is_async=True)


def careless(mail: Mail) -> Mail:
    """Return a function of a thread that nobody asks for its errors."""

    def call() -> None:
        with suppress(DeadlineExceededError, TransientError):
            mail()

    return call


WAYS = [closing, streaming, background, background_of_async]
WAYS += [thread, pool, thread_of_fastapi, thread_of_async]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def make_app(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    made: Callable[..., dict[str, Any]] = request.param
    return made


@pytest.fixture
def mails(pushed: Queue, queue: Queue) -> dict[str, Any]:
    """What a run of a handler that adds a mail begins with, and what is right at its end."""
    setup = adding(pushed, "pay", request=HttpRequest("/pay"))

    def check() -> None:
        assert queue.fetch_statistics().tasks

    return {"setup": setup, "check": check}


def test_work_after_the_response_is_lost(
    crash: Run, queue: Queue, mails: Any, make_app: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(CrashTestError, match="1 of 4 crashes") as caught:
        crash(**make_app(lambda: queue.add("mail"), is_late=True), **mails)

    (failure,) = caught.value.failures
    assert failure.title.startswith("killed before call 1, add([b'mail']) on queue \"work\" (")
    assert failure.title.endswith("), after the response")
    assert "attempt succeeded (status 200)" in failure.state
    assert "attempt failed" not in failure.state


def test_an_error_after_the_response_is_not_retried(
    crash: Run, queue: Queue, mails: Any, make_app: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(CrashTestError, match="2 of 5 crashes") as caught:
        crash(**make_app(lambda: queue.add("mail"), is_late=True), **mails, errors=True)

    assert [each.crash for each in caught.value.failures] == [Crash.BEFORE, Crash.ERROR]
    assert "attempt failed" not in caught.value.failures[1].state


def test_a_client_that_hides_when_the_response_was_sent_is_named(
    crash: Run, queue: Queue, mails: Any
) -> None:
    client = closing(lambda: queue.add("mail"), is_late=False)["app"].test_client()

    result = crash(send=lambda request: client.open(request.url, method="POST"), **mails)

    assert str(result).endswith(", not of what handlers do after their responses (send=)")


def test_work_before_the_response_is_done_by_the_retry(
    crash: Run, queue: Queue, mails: Any, make_app: Callable[..., dict[str, Any]]
) -> None:
    result = crash(**make_app(lambda: queue.add("mail"), is_late=False), **mails)

    assert str(result) == (
        "all 4 crashes of calls to queues, without errors of calls (errors=True)"
    )


def test_who_waits_for_a_call_does_not_wait_for_a_thread(
    crash: Run, emulator: Emulator, queue: Queue, mails: Any
) -> None:
    """Others wait in the call of the handler, as where a server answers."""
    held = Event()

    def slow(call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.verb == "fetch_statistics" and call.queue is queue:
            held.wait(0.05)
        return call_next()

    def send(_: object) -> int:
        Thread(target=careless(lambda: queue.add("mail"))).start()
        queue.fetch_statistics()
        return 200

    with emulator.interceptors.installed(slow), pytest.raises(CrashTestError) as caught:
        crash(send=send, **mails)

    assert [each.title.rpartition(", ")[2] for each in caught.value.failures] == [
        "after the response"
    ]


def test_a_thread_of_the_app_that_serves_all_runs_is_named(
    crash: Run, queue: Queue, mails: Any, pushed: Queue
) -> None:
    """Its calls are those of the first handler, so only in the first run they are points."""
    orders: Orders[Event | None] = Orders()
    consumers: list[Thread] = []

    def consume() -> None:
        while (done := orders.get()) is not None:
            with suppress(DeadlineExceededError):
                queue.add("mail")
            done.set()

    def send(_: object) -> int:
        if not consumers:
            consumers.append(Thread(target=consume))
            consumers[0].start()
        done = Event()
        orders.put(done)
        done.wait()
        return 200

    result = crash(send=send, **mails)
    orders.put(None)

    assert not result.is_complete
    goes_on, named = result.unseen
    assert goes_on == "a thread that goes on after the response"
    assert named.startswith("a thread of an earlier run (")
    assert named.endswith(" in consume)")


@pytest.mark.usefixtures("left_soon")
def test_a_thread_that_goes_on_is_named(crash: Run, queue: Queue, mails: Any) -> None:
    """Whether it does something, or waits, such as a timer."""
    goes_on, waits, started = [True], Event(), set[object]()

    def work() -> None:
        while goes_on:
            pass

    def left_by(target: Any) -> dict[str, Any]:
        def send(_: object) -> int:
            queue.add("mail")
            if target not in started:
                started.add(target)
                Thread(target=target).start()
            return 200

        return {"send": send}

    for target in (waits.wait, work):
        (named,) = crash(**left_by(target), **mails).unseen
        assert named == "a thread that goes on after the response"
    waits.set()
    goes_on.clear()


def test_what_the_app_keeps_in_memory_is_named(
    crash: Run, queue: Queue, pushed: Queue, mails: Any, load: Callable[[str], Any]
) -> None:
    """A new instance begins without a buffer; a cache is made once, and the test has its own."""
    app = load(
        "cache, buffer = {}, []\n"
        "def handle(mail):\n"
        "    cache.setdefault('key', object())\n"
        "    buffer.append('mail')\n"
        "    if len(buffer) >= 2: mail(); buffer.clear()\n"
    )
    own: list[str] = []
    setup = in_turn(app.buffer.clear, own.clear, adding(pushed, "one", "two"))
    send = handling(lambda: own.append("request"), lambda: app.handle(lambda: queue.add("mail")))

    with pytest.warns(UserWarning, match=r"^crash_test: the app changes an_app\.buffer in memory,"):
        crash(setup=setup, send=send)
    with pytest.raises(CrashTestError, match=r"^crash_test: 2 of 7 crashes") as caught:
        crash(setup=setup, send=send, check=mails["check"], restart=app.buffer.clear)

    killed, restarted = caught.value.failures
    assert killed.crash is Crash.BEFORE
    assert restarted.title == "instance restarted after response"
    assert restarted.actor.startswith('attempt 1 of task "one" ')
    assert restarted.call_number == 0


@pytest.mark.parametrize("way", ["by_requests", "by_httpx", "by_async_httpx"])
def test_requests_that_a_mock_answers_are_named_and_those_of_the_dead_are_not_sent(
    crash: Run, queue: Queue, mails: Any, load: Callable[[str], Any], way: str
) -> None:
    """The retry charges in place of the handler that was killed at its call."""
    import httpx

    app = load(
        "import asyncio, httpx, requests\n"
        "def by_requests(answer): requests.post('http://pay/charge', timeout=9)\n"
        "def by_httpx(answer):\n"
        "    httpx.Client(transport=httpx.MockTransport(answer)).post('http://pay/charge')\n"
        "def by_async_httpx(answer):\n"
        "    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))\n"
        "    asyncio.run(client.post('http://pay/charge'))\n"
        "def handle(mail, charge, answer):\n"
        "    try: mail()\n"
        "    finally: charge(answer)\n"
    )
    charged: list[object] = []

    def answer(request: object) -> httpx.Response:
        charged.append(request)
        return httpx.Response(200)

    send = handling(lambda: app.handle(lambda: queue.add("mail"), getattr(app, way), answer))

    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.add_callback("POST", "http://pay/charge", lambda r: (200, {}, str(answer(r))))
        result = crash(send=send, **mails)

    (named,) = result.unseen
    assert re.fullmatch(rf"a request to pay \(.*an_app.py:\d+ in {way}\)", named)
    # By each attempt but the two that were killed, of five runs, four with a retry.
    assert (result, len(charged)) == (4, 7)


def test_a_worker_begins_without_the_memory_of_the_one_that_was_killed(
    crash: Run, work: Work, queue: Queue
) -> None:
    """Calls of `restart` are not points. It is called once for a crash, not without one."""
    names, restarts = iter("abcdefgh"), [0]
    owner = [""]

    def restart() -> None:
        queue.fetch_statistics()
        owner[0] = next(names)
        restarts[0] += 1

    def setup() -> None:
        owner[0] = "first"
        queue.add(name="task")

    # Two calls, in three ways; where an answer is lost, nobody was killed.
    assert crash(work, setup=setup, restart=restart) == 6
    assert restarts == [4]
