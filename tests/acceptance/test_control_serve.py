"""What `pullqueue serve` does for those who run it, and how much it bears."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from programs import completed
from served import Served, free_port, serving

from pullqueue.cli._client import FailedError
from pullqueue.cli._port_file import ServerOfFile

PROGRAM = Path(sys.executable).with_name("pullqueue")
QUEUE = "/taskqueue/v1beta2/projects/p/taskqueues/pull"
QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a queue.yaml."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


def names(served: Served) -> dict[str, bool]:
    """Return the queues, and whether each is disabled."""
    return {queue["name"]: queue["disabled"] for queue in served.control("/queues")["queues"]}


def test_watching_the_file(folder: Path) -> None:
    """Changes of queue.yaml are applied shortly after; a broken file changes nothing and is
    reported in the log and to the console.
    """
    file = folder / "queue.yaml"
    with serving("--watch", folder=folder) as served:
        file.write_text(f"{QUEUE_YAML}- name: new\n  mode: pull\n")
        assert "added new" in served.log_line("is applied")
        assert names(served) == {"pull": False, "new": False}

        file.write_text("queue:\n- name: a b\n")
        assert "queue.yaml:2:9" in served.log_line("is not applied")
        assert "queue.yaml:2:9" in served.control("/config")["problem"]
        assert names(served) == {"pull": False, "new": False}

        file.write_text("queue:\n- name: new\n  mode: pull\n")
        assert "disabled pull" in served.log_line("is applied")
        assert names(served) == {"new": False, "pull": True}


def test_a_hang_up_reloads(folder: Path) -> None:
    """As service managers ask for it, without --watch."""
    with serving(folder=folder) as served:
        (folder / "queue.yaml").write_text(f"{QUEUE_YAML}- name: new\n  mode: pull\n")
        served.process.send_signal(signal.SIGHUP)

        assert "added new" in served.log_line("is applied")


def test_the_port_file(folder: Path) -> None:
    """It holds the port while the server runs, and is gone afterwards."""
    file = folder / "port"
    with serving("--port-file", str(file), folder=folder) as served:
        served.control("/health")

        assert served.url.endswith(f":{file.read_text().strip()}")

    assert not file.exists()


def test_a_port_file_that_cannot_be_written(folder: Path) -> None:
    """The server says so and does not start."""
    done = completed([PROGRAM, "serve", "--port", "0", "--port-file", "no/such/folder"], cwd=folder)

    assert done.returncode == 3
    assert 'cannot write "no/such/folder": no such file or directory' in done.stderr


def test_the_port_file_of_another_server(folder: Path) -> None:
    """A second server refuses it, and the first one's stays as it is."""
    file = folder / "port"
    with serving("--port-file", str(file), folder=folder) as first:
        done = completed([PROGRAM, "serve", "--port", "0", "--port-file", str(file)], cwd=folder)

        assert first.url.endswith(f":{file.read_text().strip()}")

    assert done.returncode == 3
    assert f'"{file}" is the port file of a running server' in done.stderr


@pytest.mark.parametrize("content", ["1\n", "x" * 100_000, None])
def test_a_port_file_that_was_left_over(folder: Path, content: str | None) -> None:
    """It is replaced, but where another server has written it since, it is left alone."""
    file = folder / "port"
    if content is not None:
        file.write_text(content)
    with serving("--port-file", str(file), folder=folder) as served:
        assert served.url.endswith(f":{file.read_text().strip()}")
        file.write_text("2\n")

    assert file.read_text() == "2\n"


def test_the_port_file_of_a_server_that_was_killed(folder: Path) -> None:
    """The server can be started again at the same port."""
    file, options = folder / "port", ["--port", str(free_port())]
    for _ in range(2):
        with serving(*options, "--port-file", str(file), folder=folder) as served:
            assert served.url.endswith(f":{file.read_text().strip()}")
            served.process.kill()
            served.process.wait()

    assert file.exists()


@pytest.mark.parametrize("name", ["port", ".port.part"])
def test_a_port_file_is_never_written_through_a_link(folder: Path, name: str) -> None:
    """Whoever can make links in the directory cannot have other files overwritten."""
    target = folder / "precious"
    target.write_text("kept")
    (folder / name).symlink_to(target)

    with subprocess.Popen(
        [PROGRAM, "serve", "--port", "0", "--port-file", "port"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        errors = process.communicate(timeout=60)[1]

    assert target.read_text() == "kept"
    assert errors == (
        'pullqueue: cannot write "port": is a symbolic link, not a regular file\n'
        if name == "port"
        else ""
    )


@contextmanager
def waiting(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `wait` for the server of the file `port`."""
    with subprocess.Popen(
        [PROGRAM, "wait", "--port-file", "port", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit status of a `wait`, and what it printed."""
    return process.wait(60), process.communicate()[1]


HAS_ENDED = 'pullqueue: the server of "port" has ended: see what it printed\n'


@pytest.mark.parametrize("left", [False, True])
def test_waiting_for_the_server_of_a_port_file(folder: Path, *, left: bool) -> None:
    """It may start later, and a file may be left over from one that was killed."""
    if left:
        (folder / "port").write_text(f"{free_port()}\n")
    with waiting(folder) as wait, serving("--port-file", "port", folder=folder):
        assert ended(wait) == (0, "")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_waiting_for_a_server_that_ends(folder: Path, end: signal.Signals) -> None:
    """It fails as soon as the server has ended, even if another has started in its place."""
    file = folder / "port"
    with serving("--port-file", "port", folder=folder) as served:
        server = ServerOfFile(file)
        assert server.look() == (served.url, None)
        served.process.send_signal(end)
        served.process.wait()
    deleted = not file.exists()
    with (
        serving("--port-file", "port", folder=folder) if deleted else nullcontext(),
        pytest.raises(FailedError, match=r'^the server of ".+/port" has ended: see what'),
    ):
        server.look()


@pytest.mark.parametrize("cause", ["queue.yaml", "port", "before", "option", "value"])
def test_waiting_for_a_server_that_does_not_start(folder: Path, cause: str) -> None:
    """It fails without its timeout, whoever else listens at the port."""
    options = ["--port", "0"]
    with serving(folder=folder) as other:
        if cause == "port":
            options = ["--port", other.url.rpartition(":")[2]]
        elif cause == "option":
            options = ["--prot", "0"]
        elif cause == "value":
            options = ["--port", "http"]
        else:
            (folder / "queue.yaml").write_text("queue: 1\n")
        command = [str(PROGRAM), "serve", *options, "--port-file", "port"]
        if cause == "before":
            assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
        with waiting(folder, "--timeout", "1000") as wait:
            if cause != "before":
                subprocess.run(command, cwd=folder, capture_output=True, check=False)
            assert ended(wait) == (3, HAS_ENDED)


def test_waiting_for_a_server_at_another_address(folder: Path) -> None:
    """With --url the server is asked there; the file still shows whether it runs."""
    with serving("--host", "127.0.0.2", "--port-file", "port", folder=folder) as served:
        with waiting(folder, "--url", served.url) as wait:
            assert ended(wait) == (0, "")
        with waiting(folder, "--timeout", "0") as wait:
            assert "after 0 s, no pullqueue responds at http://127.0.0.1:" in ended(wait)[1]


def test_waiting_for_a_server_that_was_never_started(folder: Path) -> None:
    """The message says what is missing."""
    with waiting(folder, "--timeout", "0") as wait:
        assert ended(wait) == (
            1,
            'pullqueue: after 0 s, there is no port file "port": start a server with --port-file\n',
        )
    with waiting(folder, "--port-file", "no/port", "--timeout", "1000") as wait:
        message = 'pullqueue: cannot read "no/port": its folder does not exist\n'
        assert ended(wait) == (3, message)
    (folder / "port").write_text("1\n")
    with waiting(folder, "--timeout", "0") as wait:
        assert 'the server of "port" has ended, and no other has started' in ended(wait)[1]


@pytest.mark.parametrize("kind", ["text", "json"])
def test_logs_cannot_be_forged(folder: Path, kind: str) -> None:
    """Control characters of a request, which forge lines and steer terminals, are escaped."""
    with serving("--log-level", "debug", "--log-format", kind, folder=folder) as served:
        for path in ("/%0aERROR%20forged%1b[31m%c2%9b", f"{QUEUE}/tasks/x%0d%0aforged%1b"):
            with pytest.raises(OSError, match="404"):
                urlopen(f"{served.url}{path}", timeout=60)  # noqa: S310
            line = served.log_line("forged")

            assert line.startswith("DEBUG pullqueue.requests: GET" if kind == "text" else "{")
            assert line.rstrip("\n").isprintable()


FAILING = r"""
import logging
from pullqueue.cli._service import set_up_logs
set_up_logs(log_format="text", log_level="info")
try:
    raise ValueError("a\nERROR forged\x1b[31m\x85INFO forged")
except ValueError:
    logging.getLogger("pullqueue.server").exception("it failed")
"""


def test_tracebacks_cannot_be_forged() -> None:
    """Nor those of an error whose text came with a request."""
    done = completed([sys.executable, "-c", FAILING], check=True)

    first, *lines = done.stderr.split("\n")[:-1]
    assert first == "ERROR pullqueue.server: it failed"
    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert r"  ERROR forged\x1b[31m" in lines


def test_logs_as_json(folder: Path) -> None:
    """One object a line; requests have their verb, path and status."""
    with serving("--log-format", "json", "--log-level", "debug", folder=folder) as served:
        urlopen(f"{served.url}{QUEUE}", timeout=60).close()  # noqa: S310

        line = json.loads(served.log_line("requests"))

    assert line["logger"] == "pullqueue.requests"
    assert (line["verb"], line["path"], line["status"]) == ("GET", QUEUE, 200)
    assert set(line) == {"time", "level", "logger", "message", "verb", "path", "status"}


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_word_to_the_service_manager(folder: Path, kind: str) -> None:
    """Ready when it is, and stopping when it is asked to."""
    address = str(folder / "notify") if kind == "file" else f"\0pullqueue-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        with serving(folder=folder, NOTIFY_SOCKET=address.replace("\0", "@")) as served:
            assert manager.recv(100) == b"READY=1"
            served.control("/ready")

        assert manager.recv(100) == b"STOPPING=1"


def test_a_service_manager_that_is_gone(folder: Path) -> None:
    """The server runs nevertheless."""
    with serving(folder=folder, NOTIFY_SOCKET=str(folder / "nobody")) as served:
        assert "cannot report" in served.log_line("service manager")
        assert served.control("/health") == {"status": "ok"}


def test_other_names(folder: Path) -> None:
    """A name in the Host header is answered only if it is the server's, or allowed."""
    with serving("--allow-host", "queues", folder=folder) as served:
        host, port = served.url.removeprefix("http://").split(":")
        statuses = []
        for name in ("queues:80", "elsewhere"):
            connection = HTTPConnection(host, int(port), timeout=60)
            connection.request("GET", "/_emulator/health", headers={"Host": name})
            statuses.append(connection.getresponse().status)
            connection.close()

    assert statuses == [200, 403]


def test_more_tasks_than_there_may_be(folder: Path) -> None:
    """They are refused with the way out; those that are there can be used."""
    with serving("--max-tasks", "2", folder=folder) as served:
        url = f"{served.url}/_emulator/queues/pull/tasks"
        body = json.dumps({"tasks": [{}, {}]}).encode()
        urlopen(Request(url, body), timeout=60).close()  # noqa: S310
        with pytest.raises(OSError, match="403"):
            urlopen(Request(url, body), timeout=60)  # noqa: S310

        assert served.control("/queues/pull")["queue"]["tasks"] == 2
