"""Sending push tasks to WSGI apps in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import flask
import pytest

from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.push.wsgi_sender import WsgiSender, environ_restored

PUSH = PushRequest(
    method="POST",
    url="/mail?x=1",
    headers={"Content-Type": "text/plain", "X-Mine": "ä"},
    body=b"to=ada",
    target=None,
    queue_name="web",
    task_name="t1",
    attempt=1,
    deadline_seconds=60,
)


def test_what_an_app_receives() -> None:
    """It sees an internal request of App Engine, and its response comes back."""
    app = flask.Flask(__name__)
    seen: dict[str, Any] = {}

    @app.put("/mail")
    def mail() -> tuple[str, int]:
        seen.update(flask.request.environ, body=flask.request.get_data())
        return "x" * 5000, 202

    response = WsgiSender(app)(PUSH._replace(method="PUT"))

    assert response == PushResponse(202, b"x" * 4096)
    expected = {
        "REMOTE_ADDR": "0.1.0.2",
        "SERVER_SOFTWARE": "Development/1.0 (testbed)",
        "HTTP_HOST": "testserver",
        "QUERY_STRING": "x=1",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "6",
        "HTTP_X_MINE": "ä".encode().decode("latin-1"),
        "body": b"to=ada",
    }
    assert {name: seen[name] for name in expected} == expected


def test_an_http_target() -> None:
    """Host, scheme and path are those of the URL."""
    app = flask.Flask(__name__)

    @app.post("/work")
    def work() -> str:
        return flask.request.url

    request = PUSH._replace(url="https://u@API.example.com:8443/work?q=%C3%A4#x")

    assert WsgiSender(app)(request).body == b"https://api.example.com:8443/work?q=\xc3\xa4"


def test_redirects_and_cookies() -> None:
    """A redirect is a response like others, and attempts share no cookies."""
    app = flask.Flask(__name__)

    @app.post("/mail")
    def mail() -> Any:
        response = flask.redirect(f"/{len(flask.request.cookies)}")
        response.set_cookie("a", "1")
        return response

    sender = WsgiSender(app)

    assert sender(PUSH).status == 302
    assert b'"/0"' in sender(PUSH).body


def test_context() -> None:
    """What a handler does to context variables ends with the attempt."""
    variable: ContextVar[str] = ContextVar("variable", default="test's")
    app = flask.Flask(__name__)

    @app.post("/mail")
    def mail() -> str:
        variable.set("handler's")
        return variable.get()

    assert WsgiSender(app)(PUSH).body == b"handler's"
    assert variable.get() == "test's"


def test_environment() -> None:
    """It is as it was before the block, whatever was added, changed and deleted."""
    before = dict(os.environ)

    with environ_restored():
        os.environ["PULLQUEUE_TEST_X"] = "1"
        os.environ["PATH"] = ""
        del os.environ["TZ"]

    assert dict(os.environ) == before


@pytest.mark.parametrize("testing", [True, False])
def test_an_exception_of_flask(testing: bool) -> None:  # noqa: FBT001
    """It is found even where Flask hides it behind status 500, and says how."""
    app = flask.Flask(__name__)
    app.testing = testing
    error = ValueError("broken")

    @app.post("/mail")
    def mail() -> str:
        raise error

    response = WsgiSender(app)(PUSH)

    assert (response.status, response.error) == (500, error)
    notes = getattr(error, "__notes__", [])
    assert any("flask.got_request_exception" in note for note in notes) is not testing


def test_an_exception_that_the_app_has_answered() -> None:
    """A handler for errors makes a response of it; a success stays one."""
    app = flask.Flask(__name__)
    app.register_error_handler(KeyError, lambda _: ("missing", 404))
    app.register_error_handler(500, lambda _: "fine")
    errors: list[Exception] = [KeyError("a"), ValueError("b")]

    @app.post("/mail")
    def mail() -> str:
        raise errors.pop(0)

    sender = WsgiSender(app)

    assert sender(PUSH) == PushResponse(404, b"missing")
    assert sender(PUSH) == PushResponse(200, b"fine")


def test_an_error_while_the_response_is_read() -> None:
    """The app's iterator is part of the attempt."""

    def app(_: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"begun"
        raise ValueError("broken")

    assert repr(WsgiSender(app)(PUSH).error) == "ValueError('broken')"


def test_an_end_of_the_test_without_a_response() -> None:
    """`pytest.fail`, an exit and a keyboard interrupt are not errors of the handler."""

    def app(*_: object) -> list[bytes]:
        pytest.fail("no")

    with pytest.raises(pytest.fail.Exception):
        WsgiSender(app)(PUSH)


def test_what_is_not_a_wsgi_app() -> None:
    """It is refused at once."""

    async def asgi(*_: object) -> None:
        pass

    with pytest.raises(TypeError, match="is an ASGI app: pass send="):
        WsgiSender(asgi)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'^app is "app\.main", which is not a WSGI app'):
        WsgiSender("app.main")  # type: ignore[arg-type]
