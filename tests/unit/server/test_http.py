"""pullqueue.server.http and lifecycle, over real sockets."""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any
from wsgiref.validate import validator

import pytest
import time_machine
from flask import Response
from freezegun import freeze_time
from plain_http import QUEUE, ask, exchange
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, ServerAddressError
from pullqueue.server.app import create_app, flask_app
from pullqueue.server.http import HttpServer
from pullqueue.server.lifecycle import Server

POST = f"POST {QUEUE}/tasks HTTP/1.1\r\nHost: localhost\r\n".encode()
TASK = b'{"payloadBase64": ""}'
CLIENTS = 40
"""More than there are threads that answer."""


class TestLifecycle:
    def test_it_can_be_started_and_stopped_again(self, emulator: Emulator) -> None:
        server = Server(emulator)
        with server:
            port = server.start().port
            assert port == server.port
            assert server.url == f"http://127.0.0.1:{port}"
        server.stop()

        with server, closing(HTTPConnection(server.host, server.port, timeout=60)) as connection:
            assert ask(connection).status == 200

    def test_its_port_is_free_for_the_next(self, emulator: Emulator) -> None:
        server = Server(emulator).start()
        port = server.port
        with closing(HTTPConnection(server.host, port, timeout=60)) as held:
            assert ask(held).status == 200
            server.stop()
            with (
                Server(emulator, port=port) as other,
                closing(HTTPConnection(other.host, port, timeout=60)) as connection,
            ):
                assert ask(connection).status == 200

    @pytest.mark.parametrize("sent", [b"", b"GET", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
    def test_a_stop_waits_for_no_client(self, emulator: Emulator, sent: bytes) -> None:
        server = Server(emulator).start()
        address = (server.host, server.port)
        with closing(HTTPConnection(*address, timeout=60)) as kept:
            ask(kept)
            with socket.create_connection(address, timeout=60) as silent:
                silent.sendall(sent)
                ask(kept)
                server.stop()

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=60)

    def test_its_threads_end_with_it(self, emulator: Emulator) -> None:
        before = set(threading.enumerate())
        with Server(emulator):
            during = set(threading.enumerate()) - before

        assert during
        assert all(thread.daemon for thread in during)
        assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 70])
def test_an_address_of_another_machine_is_refused(emulator: Emulator, host: str) -> None:
    message = rf"cannot listen on {host}:0: [^()]*; choose another address"
    with pytest.raises(ServerAddressError, match=message):
        Server(emulator, host=host).start()


def test_the_url_of_a_server_is_a_usable_address(emulator: Emulator) -> None:
    with Server(emulator, host="0.0.0.0") as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
    assert Server(emulator, host="::1", port=80).url == "http://[::1]:80"
    assert Server(emulator, host="::").url == "http://[::1]:0"


class TestConnections:
    def test_more_connections_than_threads_are_served_in_turn(self, server: Server) -> None:
        connections = [HTTPConnection(server.host, server.port, timeout=60) for _ in range(CLIENTS)]
        for _ in range(2):
            for connection in connections:
                connection.request("GET", QUEUE)
            for connection in connections:
                response = connection.getresponse()
                response.read()
                assert response.status == 200
                assert not response.will_close
        for connection in connections:
            connection.close()

    def test_a_client_that_never_pauses_does_not_keep_a_server_from_stopping(
        self, emulator: Emulator
    ) -> None:
        server = Server(emulator).start()
        asked = threading.Event()

        def ask_on() -> None:
            own = HTTPConnection(server.host, server.port, timeout=60)
            with closing(own), suppress(OSError, HTTPException):
                while True:
                    ask(own)
                    asked.set()

        client = threading.Thread(target=ask_on)
        client.start()
        assert asked.wait(60)
        server.stop()
        client.join(60)

        assert not client.is_alive()


class TestInvalidRequests:
    """What is not valid HTTP is refused by waitress, in plain text, and the connection closed."""

    @each_row(
        "sent",
        [
            b"GARBAGE\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"x" * (1 << 18)),
            # The end of the request: a proxy may see it elsewhere.
            POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n15\r\n%b\r\n0\r\n\r\n" % TASK,
            POST + b"Content-Length: 0\r\nContent-Length: 21\r\n\r\n" + TASK,
            POST + b"Content-Length: +21\r\n\r\n" + TASK,
            POST + b"Transfer-Encoding: chunked\r\n\r\n0x15\r\n%b\r\n0\r\n\r\n" % TASK,
        ],
    )
    def test_a_request_that_is_not_valid_http_is_refused(
        self, server: Server, emulator: Emulator, sent: bytes
    ) -> None:
        answer = exchange(server, sent + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        assert re.findall(rb"^HTTP/1\.[01] (\d+)", answer, re.MULTILINE) in (
            *([status] for status in (b"400", b"431", b"501")),
            [],
        )
        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize("target", ["//[", "http://[", "http://[::1/", "//evil/"])
    def test_strange_targets_cause_no_error_of_the_server(
        self,
        server: Server,
        connection: HTTPConnection,
        target: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        answer = exchange(server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        assert answer[:10] in (b"HTTP/1.1 4", b"")
        assert "Traceback" not in caplog.text
        assert len(caplog.records) <= 1
        assert ask(connection).status == 200

    @pytest.mark.parametrize(
        ("target", "status"),
        [
            ("http://localhost:1", 200),
            ("http://127.0.0.1", 200),
            ("http://evil.example", 403),
            ("HTTP://evil.example/.localhost", 403),
            ("http://localhost@evil.example", 403),
        ],
    )
    def test_a_target_with_a_host_must_name_this_server(
        self, server: Server, target: str, status: int
    ) -> None:
        head = f"GET {target}/_emulator/health HTTP/1.1\r\nHost: localhost\r\n\r\n"

        assert exchange(server, head.encode()).startswith(f"HTTP/1.1 {status} ".encode())

    @pytest.mark.parametrize("headers", ["", "Host: localhost\r\nHost: evil.example\r\n"])
    def test_a_request_with_none_or_two_hosts_is_refused(
        self, server: Server, headers: str
    ) -> None:
        answer = exchange(server, f"GET {QUEUE} HTTP/1.1\r\n{headers}\r\n".encode())

        assert answer.startswith(b"HTTP/1.1 4")

    def test_headers_with_underscores_are_not_taken_for_those_with_hyphens(
        self, server: Server, emulator: Emulator
    ) -> None:
        sent = POST + b"Content-Length: 21\r\nContent_Length: 5\r\nX_HTTP_Method_Override: GET\r\n"

        assert exchange(server, sent + b"\r\n" + TASK).startswith(b"HTTP/1.1 200")
        assert len(emulator.queue("pull").list_tasks()) == 1

    def test_a_body_that_ends_too_soon_adds_nothing(
        self, server: Server, emulator: Emulator
    ) -> None:
        head = f"POST {QUEUE}/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"

        assert exchange(server, head.encode() + b'{"payloadBase64": ""}') == b""
        assert emulator.queue("pull").list_tasks() == []


class TestBodies:
    def test_a_body_in_chunks_is_read_to_its_end(self, connection: HTTPConnection) -> None:
        connection.request("POST", f"{QUEUE}/tasks", iter([b'{"payloadBase64":', b'"aGk="}']))

        assert connection.getresponse().status == 200

    @pytest.mark.parametrize("chunks", [False, True])
    def test_bodies_that_are_too_large_are_refused(
        self, connection: HTTPConnection, *, chunks: bool
    ) -> None:
        body = b"x" * (17 << 20)
        connection.request("POST", f"{QUEUE}/tasks", iter([body]) if chunks else body)
        response = connection.getresponse()
        answer = json.loads(response.read())

        assert response.status == 413
        assert answer["error"]["errors"][0]["reason"] == "uploadTooLarge"
        text = f"Request payload size exceeds the limit: {16 << 20} bytes."
        assert answer["error"]["message"] == text
        assert ask(connection).status == 200

    @each_row("size", [1 << 16, (1 << 16) + 1, 5_000_000])
    def test_a_large_answer_arrives_whole(self, size: int) -> None:
        server = HttpServer(Response(b"x" * size), host="127.0.0.1", port=0)
        server.start()
        with ExitStack() as stack:
            stack.callback(server.stop)
            host, port = server.address
            connection = stack.enter_context(closing(HTTPConnection(host, port, timeout=60)))
            for _ in range(2):
                connection.request("GET", "/large")
                response = connection.getresponse()
                assert response.read() == b"x" * size
                assert not response.will_close


@pytest.mark.parametrize(
    ("verb", "path", "status", "size", "length"),
    [("GET", "", 200, 77, "77"), ("HEAD", "", 200, 0, "77"), ("DELETE", "/tasks/t", 204, 0, None)],
)
def test_the_application_runs_under_another_server(
    emulator: Emulator, *, verb: str, path: str, status: int, size: int, length: str | None
) -> None:
    emulator.queue("pull").add(name="t")
    client = Client(validator(create_app(emulator)))

    with client.open(f"{QUEUE}{path}", method=verb, buffered=True) as response:
        assert len(response.data) == size

    assert (response.status_code, response.headers.get("Content-Length")) == (status, length)


def test_servers_share_one_application() -> None:
    emulators = [Emulator.from_text(f"queue:\n- {{name: q{n}, mode: pull}}") for n in range(2)]
    with Server(emulators[0]) as first, Server(emulators[1]) as second:
        made = flask_app.cache_info().misses
        for server, found in ((first, (200, 404)), (second, (404, 200))):
            with closing(HTTPConnection(server.host, server.port, timeout=60)) as connection:
                paths = [f"/_emulator/queues/q{n}" for n in range(2)]
                assert tuple(ask(connection, "GET", path).status for path in paths) == found

        assert flask_app.cache_info().misses == made


def test_two_servers_log_each_trouble_once(
    emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """The same trouble within a minute costs one line without a traceback, at any server."""
    with Server(emulator), Server(emulator):
        for _ in range(3):
            try:
                raise OSError(24, "Too many open files")
            except OSError:
                logging.getLogger("waitress").warning("accept() failed here", exc_info=True)

    assert [record.getMessage() for record in caplog.records] == [
        "accept() failed here: [Errno 24] Too many open files"
    ]
    assert caplog.records[0].exc_info is None


def test_a_server_goes_on_after_an_error_of_freezegun(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that ends `freeze_time` while the server asks for the time makes it an IndexError."""
    real_time, failed = time.time, threading.Event()  # noqa: TID251 - is replaced

    def fail_once() -> float:
        if sys._getframe(1).f_globals["__name__"] == "waitress.server" and not failed.is_set():
            failed.set()
            raise IndexError
        return real_time()

    with Server(emulator) as server:
        connection = HTTPConnection(server.host, server.port, timeout=60)
        with closing(connection):
            first = ask(connection).status
            monkeypatch.setattr(time, "time", fail_once)
            statuses = [first, *(ask(connection).status for _ in range(3))]

    assert failed.is_set()
    assert statuses == [200] * 4


LATER = datetime(2040, 1, 1, tzinfo=UTC)
MOVES = {
    "freezegun, ticking": partial(freeze_time, LATER, tick=True),
    "freezegun, frozen": partial(freeze_time, LATER),
    "time-machine, ticking": partial(time_machine.travel, LATER, tick=True),
    "time-machine, frozen": partial(time_machine.travel, LATER, tick=False),
}
"""Time that is moved, and goes on from there or stops."""


Move = Callable[[], AbstractContextManager[Any]]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_no_connection_is_lost_and_the_emulator_goes_by_the_moved_time(move: Move) -> None:
    """Kept connections outlive time moved forward, stopped, and moved back."""
    emulator = Emulator.from_text("queue: [{name: pull, mode: pull}]")
    emulator.queue("pull").add(b"")
    with Server(emulator) as server, ExitStack() as stack:
        connections = [
            stack.enter_context(closing(HTTPConnection(server.host, server.port, timeout=60)))
            for _ in range(9)
        ]
        for connection in connections:
            ask(connection)
        sockets = [connection.sock for connection in connections]
        with move():
            # The server looks for idle connections whenever there is something to read.
            inside = [ask(connection).status for connection in connections * 2]
            ask(connections[0], "POST", f"{QUEUE}/tasks/lease?numTasks=1&leaseSecs=60")
            (task,) = emulator.queue("pull").list_tasks()
        after = [ask(connection).status for connection in connections]

        assert inside + after == [200] * 27
        assert [connection.sock for connection in connections] == sockets
    assert LATER <= task.eta <= LATER + timedelta(minutes=2)
