"""What `pullqueue serve` does for those who run it: reloads, logs, limits, the port file."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from served import Served, serving

QUEUE = "/taskqueue/v1beta2/projects/p/taskqueues/pull"
QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"
OPTIONS = (
    *("--watch", "--allow-host", "queues", "--max-tasks", "2"),
    *("--log-format", "json", "--log-level", "debug"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a queue.yaml."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """Run a server with all options that do not exclude each other."""
    with serving(*OPTIONS, folder=folder) as served:
        yield served


def names(served: Served) -> dict[str, bool]:
    """Return the queues, and whether each is disabled."""
    return {queue["name"]: queue["disabled"] for queue in served.control("/queues")["queues"]}


def test_watching_the_file(folder: Path, served: Served) -> None:
    """Changes of queue.yaml are applied shortly after; a broken file changes nothing and is
    reported in the log and to the console.
    """
    file = folder / "queue.yaml"
    file.write_text(f"{QUEUE_YAML}- name: new\n  mode: pull\n")
    assert "added new" in served.log_line("is applied")
    assert names(served) == {"pull": False, "new": False}

    file.write_text("queue:\n- name: a b\n")
    assert "queue.yaml:2:9" in served.log_line("is not applied")
    assert "queue.yaml:2:9" in served.control("/config")["problem"]
    assert names(served) == {"pull": False, "new": False}

    file.write_text(QUEUE_YAML)
    assert "disabled new" in served.log_line("is applied")


def test_a_hang_up_reloads(served: Served) -> None:
    """As service managers ask for it; the file is also read if it has not changed."""
    served.process.send_signal(signal.SIGHUP)

    assert "no queue changed" in served.log_line("is applied")


def test_logs_as_json(served: Served) -> None:
    """One object a line; requests have their verb, path and status."""
    urlopen(f"{served.url}{QUEUE}", timeout=60).close()  # noqa: S310

    line = json.loads(served.log_line('"verb": "GET"'))

    assert line["logger"] == "pullqueue.requests"
    assert (line["verb"], line["path"], line["status"]) == ("GET", QUEUE, 200)
    assert set(line) == {"time", "level", "logger", "message", "verb", "path", "status"}


def test_other_names(served: Served) -> None:
    """A name in the Host header is answered only if it is the server's, or allowed."""
    host, port = served.url.removeprefix("http://").split(":")
    statuses = []
    for name in ("queues:80", "elsewhere"):
        connection = HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", "/_emulator/health", headers={"Host": name})
        statuses.append(connection.getresponse().status)
        connection.close()

    assert statuses == [200, 403]


def test_more_tasks_than_there_may_be(served: Served) -> None:
    """They are refused with the way out; those that are there can be used."""
    url = f"{served.url}/_emulator/queues/pull/tasks"
    body = json.dumps({"tasks": [{}, {}]}).encode()
    urlopen(Request(url, body), timeout=60).close()  # noqa: S310
    with pytest.raises(OSError, match="403"):
        urlopen(Request(url, body), timeout=60)  # noqa: S310

    assert served.control("/queues/pull")["queue"]["tasks"] == 2


def test_word_to_the_service_manager(folder: Path) -> None:
    """Ready when it is, and stopping when it is asked to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(60)
        with serving(folder=folder, NOTIFY_SOCKET=str(folder / "notify")) as served:
            assert manager.recv(100) == b"READY=1"
            served.control("/ready")

        assert manager.recv(100) == b"STOPPING=1"
