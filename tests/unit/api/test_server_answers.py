"""pullqueue.server.http_request: what the server refuses by itself, and answers in parts."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from wsgiref.validate import validator

import pytest
from flask import Response
from plain_http import QUEUE, ask, raw
from werkzeug.test import Client

from pullqueue import Emulator, NewTask
from pullqueue.server.app import create_app
from pullqueue.server.http_server import HttpServer
from pullqueue.server.lifecycle import Server


class TestRefusalsOfTheServer:
    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"GARBAGE\r\n\r\n", 400),
            (b"get / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/9.9\r\n\r\n", 505),
            (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 413),
            (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n", 414),
        ],
    )
    def test_they_come_in_the_envelope(
        self, server: Server, request_bytes: bytes, status: int
    ) -> None:
        """What the server refuses before the application sees it is JSON, too."""
        line, answer = raw(server, request_bytes)

        assert line.startswith(f"HTTP/1.1 {status} ")
        assert answer["error"]["code"] == status
        assert answer["error"]["errors"][0]["domain"] == "global"

    @pytest.mark.parametrize(
        "head",
        [
            "HTTP/1.1\r\nContent-Length: -1",
            "HTTP/1.1\r\nContent-Length: +4",
            "HTTP/1.1\r\nContent-Length: 0_4",
            "HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 0",
            "HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
            "HTTP/1.0\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked",
        ],
    )
    def test_a_body_whose_end_is_not_clear(self, server: Server, head: str) -> None:
        """A proxy might take the rest for a request: so nothing of it is read, or answered."""
        line, answer = raw(
            server, f"POST {QUEUE}/tasks {head}\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode()
        )

        assert line.startswith("HTTP/1.1 400 ")
        assert answer["error"]["message"].startswith("where the body ends is not clear: give one")

    def test_the_same_length_twice(self, connection: HTTPConnection) -> None:
        """It leaves no doubt."""
        body = b'{"payloadBase64": ""}'
        connection.putrequest("POST", f"{QUEUE}/tasks")
        for name in ("Content-Length", "content-length"):
            connection.putheader(name, str(len(body)))
        connection.endheaders(body)

        assert connection.getresponse().status == 200

    @pytest.mark.parametrize(
        ("trailers", "kept"),
        [
            ("", True),
            ("X-Sum: 1\r\nX-More: 2\r\n", True),
            ("X: 1\n", False),
            ("X: 1\r\n" * 200, False),
        ],
    )
    def test_trailers(self, server: Server, trailers: str, *, kept: bool) -> None:
        """What stands behind the last chunk is not taken for the next request."""
        head = f"POST {QUEUE}/tasks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = f'15\r\n{{"payloadBase64": ""}}\r\n0\r\n{trailers}\r\n'
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(f"{head}{chunks}GET {QUEUE} HTTP/1.1\r\n\r\n".encode())
            plain.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: plain.recv(65536), b""))

        assert re.findall(rb"^HTTP/1.1 (\d+)", answers, re.MULTILINE) == [b"200"] * (1 + kept)

    def test_a_path_with_two_slashes_at_its_start(self, server: Server) -> None:
        """Whoever gave a root URL with a slash at its end is told what to do."""
        line, answer = raw(server, f"GET /{QUEUE} HTTP/1.1\r\n\r\n".encode())

        assert line.startswith("HTTP/1.1 400 ")
        assert "give a path with one slash at its start" in answer["error"]["message"]

    def test_a_body_in_broken_chunks(self, server: Server) -> None:
        """Chunks that are none are the client's mistake."""
        line, answer = raw(
            server,
            f"POST {QUEUE}/tasks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        )

        assert line.startswith("HTTP/1.1 400 ")
        assert answer["error"]["errors"][0]["reason"] == "badRequest"

    def test_a_body_that_ends_too_soon(self, server: Server, emulator: Emulator) -> None:
        """A client that goes away within its body has added nothing."""
        head = f"POST {QUEUE}/tasks HTTP/1.1\r\nContent-Length: 99\r\n\r\n".encode()
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(head + b'{"payloadBase64": ""}')
            plain.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: plain.recv(65536), b""))

        assert answer.startswith(b"HTTP/1.1 400 ")
        assert emulator.queue("pull").list_tasks() == []

    def test_a_body_in_chunks(self, connection: HTTPConnection) -> None:
        """A body whose length is not announced is read to its end."""
        connection.request("POST", f"{QUEUE}/tasks", iter([b'{"payloadBase64":', b'"aGk="}']))

        assert connection.getresponse().status == 200

    def test_an_oversized_body_leaves_a_readable_answer(
        self, server: Server, connection: HTTPConnection
    ) -> None:
        """The sender of 17 MiB gets to read 413, and can go on with another connection."""
        connection.request("POST", f"{QUEUE}/tasks", b"x" * (17 * 1024 * 1024))
        response = connection.getresponse()
        answer = json.loads(response.read())

        assert response.status == 413
        assert answer["error"]["errors"][0]["reason"] == "uploadTooLarge"
        assert ask(connection).status == 200

    @pytest.mark.parametrize(("size", "closes"), [(1024 * 1024, False), (400 * 1024 * 1024, True)])
    def test_a_body_that_nobody_reads(self, server: Server, size: int, *, closes: bool) -> None:
        """A small body is passed over; before a large one, the connection is closed."""
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(
                f"POST /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
            )
            if not closes:
                plain.sendall(b"x" * size)
            head = plain.recv(65536)

        assert head.startswith(b"HTTP/1.1 404 ")
        assert (b"Connection: close\r\n" in head) is closes

    def test_chunks_that_nobody_reads(self, server: Server) -> None:
        """The rest of a body in chunks is never taken for the next request."""
        head = "POST /nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(head.encode())
            answer = b"".join(iter(lambda: plain.recv(65536), b""))

        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close\r\n" in answer


class TestUsualAnswers:
    @pytest.mark.parametrize(
        "request_line",
        ["GET {}", "HEAD {}", "POST {}/tasks/lease?numTasks=1&leaseSecs=0", "DELETE {}/tasks/"],
    )
    def test_the_head(self, server: Server, emulator: Emulator, request_line: str) -> None:
        """It is what cheroot writes, which still answers the last request of a connection."""
        line = request_line.format(QUEUE)
        names = ["", ""]
        if "DELETE" in line:
            names = [task.name for task in emulator.queue("pull").add_many([NewTask()] * 2)]
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(f"{line}{names[0]} HTTP/1.1\r\n\r\n".encode())
            usual = plain.recv(65536)
            plain.sendall(f"{line}{names[1]} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
            last = b"".join(iter(lambda: plain.recv(65536), b""))

        assert _head(last) == sorted([*_head(usual), b"Connection: close"])

    def test_a_body_that_nobody_reads(self, server: Server) -> None:
        """It is passed over before the next request."""
        request = (
            b"GET /discovery/v1/apis HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        )
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(request * 2)
            plain.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: plain.recv(65536), b""))

        assert re.findall(rb"^HTTP/1.1 (\d+)", answers, re.MULTILINE) == [b"200", b"200"]

    @pytest.mark.parametrize("buffered", [True, False])
    @pytest.mark.parametrize(
        ("verb", "path", "status", "size", "length"),
        [
            ("GET", "", 200, 77, "77"),
            ("HEAD", "", 200, 0, "77"),
            ("DELETE", "/tasks/one", 204, 0, None),
        ],
    )
    def test_under_another_server(
        self,
        emulator: Emulator,
        *,
        buffered: bool,
        verb: str,
        path: str,
        status: int,
        size: int,
        length: str | None,
    ) -> None:
        """The application returns its answers where no server of ours sends them at once."""
        emulator.queue("pull").add(name="one")
        client = Client(validator(create_app(emulator)))  # which holds against PEP 3333

        with client.open(f"{QUEUE}{path}", method=verb, buffered=buffered) as response:
            assert len(response.data) == size

        assert (response.status_code, response.headers.get("Content-Length")) == (status, length)

    def test_a_server_that_stops(
        self, connection: HTTPConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It keeps no connection then, and its last answer says so."""
        monkeypatch.setattr(HttpServer, "can_add_keepalive_connection", False)

        assert ask(connection).headers["Connection"] == "close"


def _head(answer: bytes) -> list[bytes]:
    """Give the lines of a head in order, but for the time in it."""
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return sorted(b"Date" if line.startswith(b"Date: ") else line for line in lines)


class TestAnswersInParts:
    @pytest.fixture
    def streaming(self, emulator: Emulator) -> Iterator[Server]:
        """Give a server with a view that answers bit by bit."""
        server = Server(emulator)

        def view(parts: int) -> Response:
            return Response(b"part" for _ in range(parts))

        server._app.add_url_rule("/stream/<int:parts>", view_func=view)
        with server:
            yield server

    @pytest.mark.parametrize("parts", [0, 1, 3])
    def test_in_chunks(self, streaming: Server, parts: int) -> None:
        """An answer of unknown length arrives whole, and the connection is kept."""
        with closing(HTTPConnection(streaming.host, streaming.port, timeout=5)) as connection:
            for _ in range(2):
                connection.request("GET", f"/stream/{parts}")
                response = connection.getresponse()
                assert response.headers["Transfer-Encoding"] == "chunked"
                assert response.read() == b"part" * parts
                assert not response.will_close

    @pytest.mark.parametrize("parts", [0, 3])
    def test_to_old_clients(self, streaming: Server, parts: int) -> None:
        """A client of HTTP/1.0 is told the end by the end of the connection."""
        with socket.create_connection((streaming.host, streaming.port), timeout=5) as plain:
            plain.sendall(f"GET /stream/{parts} HTTP/1.0\r\n\r\n".encode())
            answer = b"".join(iter(lambda: plain.recv(65536), b""))

        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert body == b"part" * parts


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 5_000_000])
def test_a_large_answer(emulator: Emulator, size: int) -> None:
    """It arrives whole, and the connection is kept."""
    server = Server(emulator)
    server._app.add_url_rule("/large", view_func=lambda: Response(b"x" * size))
    with server, closing(HTTPConnection(server.host, server.port, timeout=5)) as connection:
        for _ in range(2):
            connection.request("GET", "/large")
            response = connection.getresponse()
            assert response.read() == b"x" * size
            assert not response.will_close
