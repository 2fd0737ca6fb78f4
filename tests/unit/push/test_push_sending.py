"""Sending push tasks to WSGI apps in this process, and over HTTP."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import flask
import pytest
from push_app import push_app

from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.push.sending import HttpSender, WsgiSender, environ_restored

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


class TestWsgi:
    def test_what_an_app_receives(self) -> None:
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

    def test_an_http_target(self) -> None:
        """Host, scheme and path are those of the URL."""
        app = flask.Flask(__name__)

        @app.post("/work")
        def work() -> str:
            return flask.request.url

        request = PUSH._replace(url="https://u@API.example.com:8443/work?q=%C3%A4#x")

        assert WsgiSender(app)(request).body == b"https://api.example.com:8443/work?q=\xc3\xa4"

    def test_redirects_and_cookies(self) -> None:
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

    def test_context(self) -> None:
        """What a handler does to context variables ends with the attempt."""
        variable: ContextVar[str] = ContextVar("variable", default="test's")
        app = flask.Flask(__name__)

        @app.post("/mail")
        def mail() -> str:
            variable.set("handler's")
            return variable.get()

        assert WsgiSender(app)(PUSH).body == b"handler's"
        assert variable.get() == "test's"

    def test_environment(self) -> None:
        """It is as it was before the block, whatever was added, changed and deleted."""
        before = dict(os.environ)

        with environ_restored():
            os.environ["PULLQUEUE_TEST_X"] = "1"
            os.environ["PATH"] = ""
            del os.environ["TZ"]

        assert dict(os.environ) == before

    @pytest.mark.parametrize("testing", [True, False])
    def test_an_exception_of_flask(self, testing: bool) -> None:  # noqa: FBT001
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

    def test_an_exception_that_the_app_has_answered(self) -> None:
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

    def test_an_error_while_the_response_is_read(self) -> None:
        """The app's iterator is part of the attempt."""

        def app(_: Any, start_response: Any) -> Iterator[bytes]:
            start_response("200 OK", [])
            yield b"begun"
            raise ValueError("broken")

        assert repr(WsgiSender(app)(PUSH).error) == "ValueError('broken')"

    def test_an_end_of_the_test_without_a_response(self) -> None:
        """`pytest.fail`, an exit and a keyboard interrupt are not errors of the handler."""

        def app(*_: object) -> list[bytes]:
            pytest.fail("no")

        with pytest.raises(pytest.fail.Exception):
            WsgiSender(app)(PUSH)

    def test_what_is_not_a_wsgi_app(self) -> None:
        """It is refused at once."""

        async def asgi(*_: object) -> None:
            pass

        with pytest.raises(TypeError, match="is an ASGI app: pass send="):
            WsgiSender(asgi)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r'^app is "app\.main", which is not a WSGI app'):
            WsgiSender("app.main")  # type: ignore[arg-type]


@contextmanager
def raw_server(*scripts: Callable[[socket.socket], object]) -> Iterator[str]:
    """Run one script for each connection, one after the other, and yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                with server.accept()[0] as connection, suppress(OSError):
                    script(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


@pytest.fixture
def sender() -> Iterator[HttpSender]:
    """A sender that is closed at the end."""
    sender = HttpSender()
    yield sender
    sender.close()


def answer(text: bytes) -> Callable[[socket.socket], None]:
    """Return a script that reads a request, sends some bytes and closes the connection."""

    def script(connection: socket.socket) -> None:
        read_request(connection)  # or the connection would be reset
        connection.sendall(text)

    return script


def read_request(connection: socket.socket) -> None:
    """Read a request to its end."""
    received = b""
    while not received.endswith(PUSH.body):
        received += connection.recv(1 << 16)


def silence(connection: socket.socket) -> None:
    """Send nothing until the connection is closed."""
    while connection.recv(1 << 16):
        pass


def drip(beginning: bytes) -> Callable[[socket.socket], None]:
    """Return a script that sends something and then a byte now and then, until it is stopped."""

    def script(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            time.sleep(0.01)  # noqa: TID251 - a slow server
            connection.sendall(b"x")

    return script


class TestHttp:
    def test_what_is_sent(self, sender: HttpSender) -> None:
        """Method, path below that of the address, headers and body; Host is the address's."""
        with push_app() as app:
            response = sender.send(PUSH, f"{app.url}/base/")

        assert response == PushResponse(200)
        [request] = app.received
        assert (request.method, request.path) == ("POST", "/base/mail?x=1")
        assert request.headers == {
            "Host": app.url.removeprefix("http://"),
            "Accept-Encoding": "identity",
            "Content-Length": "6",
            "Content-Type": "text/plain",
            "X-Mine": "ä".encode().decode("latin-1"),
        }
        assert request.body == b"to=ada"

    def test_an_http_target(self, sender: HttpSender) -> None:
        """Its Host is that of the URL, wherever it is sent."""
        request = PUSH._replace(url="https://api.example.com/ä#x", method="GET", body=b"")
        with push_app() as app:
            sender.send(request, app.url)

        [received] = app.received
        assert (received.method, received.path) == ("GET", "/%C3%A4")
        assert received.headers["Host"] == "api.example.com"
        assert "Content-Length" not in received.headers

    def test_redirects_are_not_followed(self, sender: HttpSender) -> None:
        """A redirect is a response like others."""
        with raw_server(answer(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n")) as url:
            assert sender.send(PUSH, url).status == 302

    def test_connections_are_kept(self, sender: HttpSender) -> None:
        """The next request uses the same connection, unless the server closes it."""
        with push_app() as app:
            assert [sender.send(PUSH, app.url).status for _ in range(3)] == [200] * 3
        closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        with raw_server(*[answer(closing)] * 3) as url:
            assert [sender.send(PUSH, url).status for _ in range(3)] == [200] * 3

        assert len({request.port for request in app.received}) == 1

    def test_a_kept_connection_that_was_closed(self, sender: HttpSender) -> None:
        """A server may close a connection that it has kept: the next request opens another."""
        closed = threading.Event()

        def close(connection: socket.socket) -> None:
            answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(connection)
            connection.close()
            closed.set()

        with raw_server(close, answer(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")) as url:
            assert sender.send(PUSH, url).status == 200
            closed.wait(60)
            assert sender.send(PUSH, url).status == 201

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            (answer(b""), "connection lost: Remote end closed connection without response"),
            (answer(b"not HTTP\r\n\r\n"), "connection lost: not HTTP"),
            (answer(b"x" * 60_000), f"connection lost: {'x' * 97}..."),
            (answer(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200), "got more than 100 headers"),
            (answer(b"HTTP/1.1 200 OK\r\nA: " + b"1" * 70_000), "when reading header line"),
        ],
    )
    def test_no_valid_response(self, script: Any, reason: str, sender: HttpSender) -> None:
        """It is an attempt without a response, and the reason says why."""
        with raw_server(script) as url:
            response = sender.send(PUSH, url)

        assert response.status is None
        assert str(response.reason).endswith(reason)

    def test_a_refused_connection(self, sender: HttpSender) -> None:
        """It is an attempt without a response."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        assert sender.send(PUSH, f"http://127.0.0.1:{port}") == PushResponse(
            None, reason="connection refused"
        )

    @pytest.mark.parametrize(
        "script",
        [
            pytest.param(silence, id="silence"),
            pytest.param(drip(b""), id="in the status line"),
            pytest.param(drip(b"HTTP/1.1 200 OK\r\nX-Slow: "), id="in the headers"),
            pytest.param(drip(b"HTTP/1.1 200 OK\r\n\r\n"), id="in the body"),
        ],
    )
    def test_a_response_that_never_ends(self, script: Any, sender: HttpSender) -> None:
        """The deadline is for the whole response, whether nothing or now and then a byte comes."""
        with raw_server(script) as url:
            response = sender.send(PUSH._replace(deadline_seconds=0.1), url)

        assert response == PushResponse(None, reason="no response within 0.1 s")

    def test_a_success_whose_body_is_cut(self, sender: HttpSender) -> None:
        """Only the status counts."""
        with raw_server(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as url:
            assert sender.send(PUSH, url) == PushResponse(200, b"abc")
        with raw_server(
            answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na")
        ) as u:
            assert sender.send(PUSH, u).status == 200

    def test_an_endless_response(self, sender: HttpSender) -> None:
        """No more than the largest response of App Engine is read, and little of it is kept."""

        def flood(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(b"x" * (1 << 20))

        with raw_server(flood) as url:
            assert sender.send(PUSH, url) == PushResponse(200, b"x" * 4096)

    def test_a_response_before_the_body_is_read(self, sender: HttpSender) -> None:
        """A server may refuse a body and close the connection without reading it."""

        def refuse(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

        with raw_server(refuse) as url:
            assert sender.send(PUSH._replace(body=b"x" * (1 << 24)), url).status == 413

    def test_stopping(self) -> None:
        """Requests under way end without a response, and later ones do not start."""
        sender = HttpSender()
        arrived = threading.Event()

        def wait(connection: socket.socket) -> None:
            read_request(connection)
            arrived.set()
            connection.recv(1)

        with ExitStack() as stack:
            url = stack.enter_context(raw_server(wait))
            responses: list[PushResponse] = []
            thread = threading.Thread(target=lambda: responses.append(sender.send(PUSH, url)))
            thread.start()
            arrived.wait(60)
            sender.close()
            thread.join(60)

        assert responses == [PushResponse(None, reason="the server stopped")]
