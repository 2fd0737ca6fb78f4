"""What handlers do after their responses is lost where they are killed there, and not retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response

from pullqueue import Queue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import Crash, CrashTestError

Run = Callable[..., Any]
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


WAYS = [closing, streaming, background, background_of_async]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def make_app(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    made: Callable[..., dict[str, Any]] = request.param
    return made


@pytest.fixture
def mails(pushed: Queue, queue: Queue) -> dict[str, Any]:
    """What a run of a handler that adds a mail begins with, and what is right at its end."""

    def setup() -> None:
        pushed.add(name="pay", request=HttpRequest("/pay"))

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
