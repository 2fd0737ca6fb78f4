"""Sending push tasks to WSGI apps in this process."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import flask
import pytest
from django.core import signals
from programs import completed

from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.push.wsgi_sender import WsgiSender, environ_restored
from pullqueue.text import quoted

NOTE = "the app responded with status 500; this exception is from"
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


def test_an_app_receives_an_internal_request_of_app_engine() -> None:
    """Of which the first 64 KB of the response are kept; within a middleware, if there is one."""
    seen: dict[str, Any] = {}

    def app(environ: Any, start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("202 Accepted", [])
        return [b"x" * 60_000, b"y" * 10_000]

    def middleware(inner: Any) -> Any:
        return lambda environ, start_response: inner(environ | {"inner": 1}, start_response)

    request = PUSH._replace(method="PUT", url="/ma%C3%A4il?x=1?y")
    response = WsgiSender(app, middleware)(request)

    assert response == PushResponse(202, b"x" * 60_000 + b"y" * 5_536)
    latin_1 = "ä".encode().decode("latin-1")
    assert seen.pop("wsgi.input").read() == b"to=ada"
    assert seen == {
        "REMOTE_ADDR": "0.1.0.2", "SERVER_SOFTWARE": "Development/1.0 (testbed)",
        "REQUEST_METHOD": "PUT", "SCRIPT_NAME": "", "PATH_INFO": f"/ma{latin_1}il",
        "QUERY_STRING": "x=1?y", "REQUEST_URI": request.url, "RAW_URI": request.url,
        "SERVER_NAME": "testserver", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "testserver", "HTTP_X_MINE": latin_1,
        "CONTENT_TYPE": "text/plain", "CONTENT_LENGTH": "6",
        "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr, "wsgi.version": (1, 0),
        "wsgi.multithread": 0, "wsgi.multiprocess": 0, "wsgi.run_once": 0, "inner": 1,
    }  # fmt: skip


def test_an_http_target_sets_host_scheme_and_path() -> None:
    app = flask.Flask(__name__)

    @app.post("/work")
    def work() -> str:
        server = flask.request.environ
        names = ("wsgi.url_scheme", "SERVER_NAME", "SERVER_PORT")
        return " ".join([flask.request.url, *(server[name] for name in names)])

    origin = "https://api.example.com:8443"
    request = PUSH._replace(
        url="https://u@API.example.com:8443/work?q=%C3%A4#x",
        target=origin,
        headers={"Host": "api.example.com:8443"},
    )

    assert WsgiSender(app)(request).body == (
        f"{origin}/work?q=ä https api.example.com 8443".encode()
    )


def test_the_host_is_what_apps_route_by() -> None:
    """Content-Length occurs once."""
    app = flask.Flask(__name__)
    headers = PUSH.headers | {"Host": "worker.guestbook.appspot.com", "Content-Length": "6"}

    @app.post("/mail")
    def mail() -> str:
        return f"{flask.request.url} {flask.request.headers['Content-Length']}"

    assert WsgiSender(app)(PUSH._replace(headers=headers)).body == (
        b"http://worker.guestbook.appspot.com/mail?x=1 6"
    )


def test_a_redirect_is_a_response_and_cookies_are_not_kept() -> None:
    app = flask.Flask(__name__)

    @app.post("/mail")
    def mail() -> Any:
        response = flask.redirect(f"/{len(flask.request.cookies)}")
        response.set_cookie("a", "1")
        response.headers["Retry-After"] = "7"
        return response

    sender = WsgiSender(app)

    for _ in range(2):
        response = sender(PUSH)
        assert (response.status, response.retry_after, response.location) == (302, "7", "/0")


def test_context_variables_of_a_handler_end_with_the_attempt() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="test's")
    app = flask.Flask(__name__)

    @app.post("/mail")
    def mail() -> str:
        variable.set("handler's")
        return variable.get()

    assert WsgiSender(app)(PUSH).body == b"handler's"
    assert variable.get() == "test's"


def test_the_environment_is_restored_after_the_block() -> None:
    before = dict(os.environ)

    with environ_restored():
        os.environ["PULLQUEUE_TEST_X"] = "1"
        os.environ["PATH"] = ""
        del os.environ["TZ"]

    assert dict(os.environ) == before


@pytest.mark.parametrize("testing", [True, False])
def test_an_exception_that_flask_hides_is_found(testing: bool) -> None:  # noqa: FBT001
    """Behind status 500; it says how."""
    app = flask.Flask(__name__)
    app.testing = testing
    error = ValueError("broken")

    @app.post("/mail")
    def mail() -> str:
        raise error

    response = WsgiSender(app)(PUSH)

    assert (response.status, response.error) == (500, error)
    assert getattr(error, "__notes__", []) == (
        [] if testing else [f"({NOTE} flask.got_request_exception)"]
    )
    if not testing:  # an exception of another request is the app's
        assert app.test_client().post("/mail").status_code == 500


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of webob, at its import
@pytest.mark.parametrize("debug", [False, True])
def test_an_exception_that_webapp2_hides_is_found(debug: bool) -> None:  # noqa: FBT001
    """Although webapp2 makes a response of it, also within other middleware."""
    webapp2 = pytest.importorskip("webapp2")
    error = ValueError("broken")

    class Mail(webapp2.RequestHandler):  # type: ignore[name-defined,misc] # has no types
        def post(self) -> None:
            raise error

    app = webapp2.WSGIApplication([("/mail", Mail)], debug=debug)

    def middleware(*args: Any) -> Any:
        return app(*args)

    response = WsgiSender(middleware)(PUSH)

    assert (response.status, response.error) == (500, error)
    assert getattr(error, "__notes__", [])[-1:] == [f"({NOTE} the log of webapp2)"]


def test_a_response_that_an_app_of_webapp2_makes_itself_is_kept() -> None:
    """The app has logged the exception, as in production."""
    webapp2 = pytest.importorskip("webapp2")

    class Mail(webapp2.RequestHandler):  # type: ignore[name-defined,misc] # has no types
        def post(self) -> None:
            raise ValueError("broken")

        def handle_exception(self, exception: Exception, _: bool) -> None:  # noqa: FBT001
            logging.getLogger("app").error("failed", exc_info=exception)
            self.response.set_status(503)

    response = WsgiSender(webapp2.WSGIApplication([("/mail", Mail)]))(PUSH)

    assert (response.status, response.error) == (503, None)


def test_an_exception_that_django_hides_is_found() -> None:
    error = ValueError("broken")

    def app(_: Any, start_response: Any) -> list[bytes]:
        try:
            raise error
        except ValueError:
            signals.got_request_exception.send(None)
        start_response("500 Internal Server Error", [])
        return []

    assert WsgiSender(app)(PUSH) == PushResponse(500, error=error)
    assert error.__notes__ == [f"({NOTE} django.core.signals.got_request_exception)"]


@pytest.mark.slow
def test_connections_of_django_stay_open_and_its_exceptions_are_found(tmp_path: Path) -> None:
    """A request neither closes nor uses connections, as with Django's own test client."""
    program = tmp_path / "program.py"
    program.write_text(DJANGO)

    completed([sys.executable, str(program)], check=True, cwd=tmp_path)


DJANGO = """\
import django
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connection
from django.http import HttpResponse
from django.urls import path

from pullqueue.push.request import PushRequest
from pullqueue.push.wsgi_sender import WsgiSender


def mail(request):
    with connection.cursor() as cursor:
        cursor.execute("insert into mails values (1)")
    return HttpResponse()


def fail(request):
    raise ValueError("broken")


settings.configure(
    ROOT_URLCONF=(path("mail", mail), path("fail", fail)),
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=[],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "mails.db"}},
)
sender = WsgiSender(get_wsgi_application())
request = PushRequest("POST", "/mail", {}, b"", None, "web", "t1", 1, 60)
with connection.cursor() as cursor:
    cursor.execute("create temporary table mails (number integer)")     # of this connection
    for _ in range(2):
        assert sender(request).status == 200
    assert cursor.execute("select count(*) from mails").fetchone() == (2,)


def refuse(*args, **kwargs):
    raise RuntimeError("Database access not allowed")


connection.ensure_connection = refuse                                   # as pytest-django does
response = sender(request._replace(url="/missing"))
assert (response.status, response.error) == (404, None), response
response = sender(request._replace(url="/fail"))
assert (response.status, repr(response.error)) == (500, "ValueError('broken')"), response
assert response.error.__notes__ == ["(the app responded with status 500; this exception is from "
                                    "django.core.signals.got_request_exception)"]
for signal in (request_started, request_finished):
    assert signal.disconnect(close_old_connections)
"""


def test_an_exception_that_the_app_has_answered_is_a_response() -> None:
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


def test_an_error_while_the_response_is_read_is_one_of_the_attempt() -> None:
    def app(_: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"begun"
        raise ValueError("broken")

    assert repr(WsgiSender(app)(PUSH).error) == "ValueError('broken')"


def test_what_ends_the_test_is_not_an_error_of_the_handler() -> None:
    """`pytest.fail`, an exit and a keyboard interrupt are not errors of the handler."""

    def app(*_: object) -> list[bytes]:
        pytest.fail("no")

    with pytest.raises(pytest.fail.Exception):
        WsgiSender(app)(PUSH)


def test_what_is_not_a_wsgi_app_is_refused_at_once() -> None:
    async def asgi(*_: object) -> None:
        pass

    class Asgi:
        async def __call__(self, *_: object) -> None:
            pass

    for app in (asgi, Asgi()):
        how = f"app is {quoted(app)}, which is an ASGI app: pass send=, a function that uses its "
        with pytest.raises(TypeError, match=f"^{re.escape(how)}test client$"):
            WsgiSender(app)  # type: ignore[arg-type]
    how = r'^app is "app\.main", which is not a WSGI app: pass one, or send=$'
    with pytest.raises(TypeError, match=how):
        WsgiSender("app.main")  # type: ignore[arg-type]
