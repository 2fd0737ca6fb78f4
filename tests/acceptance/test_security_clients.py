"""Clients that send or read slowly, too much, or too often: other clients do not notice."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from forking import forked
from programs import running
from stores import LONG
from tables import each_row

TASKS = "/_emulator/queues/pull/tasks"
INSERT = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"
HOST = b"HTTP/1.1\r\nHost: localhost\r\n"
MIB = 1 << 20
SERVE = """
import os, resource, sys
from pullqueue.cli import main
resource.setrlimit(resource.RLIMIT_NOFILE, [int(sys.argv[1])] * 2)
print(os.getpid(), flush=True)
main(["serve", "--port", "0"])
"""


class ServerProcess:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.pid = int(process.stdout.readline())
        self.port = int(process.stdout.readline().rpartition(":")[2])

    def reset_peak(self) -> int:
        """Return how much memory the process has now, and measure its peak from there."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.peak_bytes

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Return a connection over which bytes were sent, and which reads little at once."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(120)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent)
        return connection

    def get(self, path: str = INSERT) -> bytes:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            assert response.status == 200
            return response.read()

    def add(self, payload: str) -> None:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("POST", TASKS, json.dumps({"tasks": [{"payload": payload}]}))
            assert connection.getresponse().status == 200

    @property
    def peak_bytes(self) -> int:
        """The most memory that the process has had since the last reset."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def stop(self) -> str:
        """Ask the process to end, and return its log; open connections do not keep it."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


@contextmanager
def limited(folder: Path, files: int = 4096) -> Iterator[ServerProcess]:
    (folder / "queue.yaml").write_text("queue:\n- name: pull\n  mode: pull\n")
    with running(forked("python-program"), "-c", SERVE, str(files), cwd=folder) as process:
        yield ServerProcess(process)


@pytest.fixture(scope="module")
def slow() -> Iterator[ExitStack]:
    """Yield a stack for connections that stay open until the server has stopped."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def server(slow: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a server that logs nothing, and stops at once though clients are connected."""
    with limited(tmp_path_factory.mktemp("clients")) as server:
        yield server
        log = server.stop().splitlines()
        assert [line for line in log if "deleted with this server" not in line] == []


def test_a_chunk_of_600_megabytes_is_refused_in_little_memory(server: ServerProcess) -> None:
    before = server.reset_peak()
    sent = 600 if LONG else 100  # the limit is 512
    head = b"POST %b %bTransfer-Encoding: chunked\r\n\r\n25800000\r\n" % (INSERT.encode(), HOST)
    with server.connect(head) as connection, suppress(ConnectionError):
        for megabyte in range(sent):
            connection.sendall(b" " * MIB)
            if megabyte % 50 == 0:
                server.get()

    assert megabyte < 599
    assert server.peak_bytes - before < 40 * MIB


def test_more_connections_than_files_end_no_server(tmp_path: Path) -> None:
    """Than it expects, and than it may have: the limit can become lower while it runs."""
    resource = pytest.importorskip("resource")
    with limited(tmp_path, files=256) as server:
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(server.connect())
            assert server.process.stderr is not None
            assert "reached the connection limit" in server.process.stderr.readline()
        server.get()

        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 256))
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(server.connect())
            assert server.process.stderr is not None
            assert any("Too many open files" in line for line in server.process.stderr)
        server.get()

        assert len(server.stop().splitlines()) <= 1


HEAD = b"POST %b %b" % (INSERT.encode(), HOST)


@each_row(
    "sent",
    [
        b"",
        b"GET / HT",
        HEAD,
        HEAD + b"Content-Length: 99\r\n\r\n{",
        *(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n%b\r\n{" % size
            for size in (b"5", b"ffffffffffffffff", b"ffffffffff", b"7fffffffffffffff")
        ),
    ],
)
def test_slow_senders_occupy_no_thread_whatever_size_they_announce(
    server: ServerProcess, slow: ExitStack, sent: bytes
) -> None:
    for _ in range(60):
        slow.enter_context(server.connect(sent))

    server.get()


def test_slow_readers_occupy_no_thread_and_little_memory(
    server: ServerProcess, slow: ExitStack
) -> None:
    server.add("x" * 1_000_000)
    name = json.loads(server.get())["items"][0]["id"]
    request = b"GET %b/%b %b\r\n" % (INSERT.encode(), name.encode(), HOST)
    before = server.reset_peak()
    for _ in range(100):
        slow.enter_context(server.connect(request))

    server.get()
    # About 60 MiB however many there are; in memory, the responses alone would take 130.
    assert server.peak_bytes - before < 120 * MIB
