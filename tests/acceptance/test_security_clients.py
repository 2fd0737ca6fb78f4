"""Clients that send or read slowly, too much, or too often: other clients do not notice.

The times allowed are about a hundred times what it takes on an idle machine.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

TASKS = "/_emulator/queues/pull/tasks"
INSERT = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"
HOST = b"HTTP/1.1\r\nHost: localhost\r\n"
MIB = 1 << 20


class ServerProcess:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline().rpartition(":")[2])

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Return a connection over which bytes were sent, and which reads little at once."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(120)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent)
        return connection

    def get(self, path: str = INSERT) -> bytes:
        """Return the body of a successful response, asked for over a connection of its own."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            assert response.status == 200
            return response.read()

    def add(self, payload: str) -> None:
        """Add a task."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("POST", TASKS, json.dumps({"tasks": [{"payload": payload}]}))
            assert connection.getresponse().status == 200

    @property
    def peak_bytes(self) -> int:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def stop(self) -> str:
        """Ask the process to end, and return its log; open connections do not keep it."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Yield a function that starts a server which may open so many files."""
    (tmp_path / "queue.yaml").write_text("queue:\n- name: pull\n  mode: pull\n")
    with ExitStack() as stack:

        def start(files: int = 4096) -> ServerProcess:
            process = subprocess.Popen(
                [
                    "sh",
                    "-c",
                    f"ulimit -n {files}; exec {sys.executable} -m pullqueue serve --port 0",
                ],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate, timeout=60)
            stack.callback(process.kill)
            return ServerProcess(process)

        yield start


def test_a_chunk_of_600_megabytes(start: Callable[..., ServerProcess]) -> None:
    """It ends with a refusal, in little memory, and others are answered meanwhile."""
    server = start()
    before = server.peak_bytes
    head = b"POST %b %bTransfer-Encoding: chunked\r\n\r\n25800000\r\n" % (INSERT.encode(), HOST)
    with server.connect(head) as connection, suppress(ConnectionError):
        for megabyte in range(600):
            connection.sendall(b" " * MIB)
            if megabyte % 100 == 0:
                server.get()

    assert megabyte < 599
    assert server.peak_bytes - before < 40 * MIB
    server.stop()


def test_a_chunk_that_could_not_end(start: Callable[..., ServerProcess]) -> None:
    """Its announced size alone costs nothing."""
    server = start()
    head = b"POST %b %bTransfer-Encoding: chunked\r\n\r\n" % (INSERT.encode(), HOST)
    with ExitStack() as stack:
        for size in (b"ffffffffffffffff", b"ffffffffff", b"7fffffffffffffff"):
            stack.enter_context(server.connect(head + size + b"\r\nx"))
        server.get()
        log = server.stop()

    assert log == ""


def test_more_connections_than_files(start: Callable[..., ServerProcess]) -> None:
    """A server that reaches its limit says so in a line, and recovers when clients leave."""
    server = start(files=256)
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(server.connect())
        assert server.process.stderr is not None
        assert "reached the connection limit" in server.process.stderr.readline()
    server.get()
    log = server.stop()

    assert len(log.splitlines()) <= 1


def test_no_file_is_left(start: Callable[..., ServerProcess]) -> None:
    """A server without a descriptor for another client says so once, and then goes on."""
    resource = pytest.importorskip("resource")
    server = start()
    server.get()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 4096))
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(server.connect())
        assert server.process.stderr is not None
        assert "Too many open files" in server.process.stderr.readline()
    server.get()
    log = server.stop()

    assert log == ""


def test_300_slow_senders(start: Callable[..., ServerProcess]) -> None:
    """Half a request occupies no thread: others are answered, and the server stops at once."""
    server = start()
    with ExitStack() as stack:
        for sent in (
            b"",
            b"GET / HT",
            b"POST /x %b" % HOST,
            b"POST %b %bContent-Length: 99\r\n\r\n{" % (INSERT.encode(), HOST),
            b"POST %b %bTransfer-Encoding: chunked\r\n\r\n5\r\n{" % (INSERT.encode(), HOST),
        ):
            for _ in range(60):
                stack.enter_context(server.connect(sent))
            server.get()
        server.stop()


def test_300_slow_readers(start: Callable[..., ServerProcess]) -> None:
    """Unread responses of 1 MB occupy no thread, and little memory."""
    server = start()
    server.add("x" * 1_000_000)
    name = json.loads(server.get())["items"][0]["id"]
    request = b"GET %b/%b %b\r\n" % (INSERT.encode(), name.encode(), HOST)
    before = server.peak_bytes
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(server.connect(request))
        server.get()
        assert server.peak_bytes - before < 300 * MIB
        server.stop()
