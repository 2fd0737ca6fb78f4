"""Google's two commands against a running server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pullqueue import Emulator, Queue
from pullqueue.gtaskqueue.api import TaskQueueApi
from pullqueue.gtaskqueue.command import gtaskqueue
from pullqueue.gtaskqueue.programs import Order
from pullqueue.gtaskqueue.puller import Puller, gtaskqueue_puller
from pullqueue.rest.server import Server

SCRIPT = Path(sys.executable).with_name("gtaskqueue_puller")
UPPER = "import sys; open(sys.argv[2], 'w').write(open(sys.argv[1]).read().upper())"

Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a running server with one pull queue."""
    with Server(Emulator.from_text("queue: [{name: pull, mode: pull}]")) as server:
        yield server


@pytest.fixture
def queue(server: Server) -> Queue:
    """Give its queue."""
    return server.emulator.queue("pull")


@pytest.fixture
def run(server: Server) -> Run:
    """Give a function that runs `gtaskqueue` with a method and further flags."""

    def run(method: str, *flags: str) -> Result:
        server_flags = ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]
        return CliRunner().invoke(gtaskqueue, [method, *server_flags, *flags])

    return run


def puller_of(server: Server, program: str, *, output_url: str | None = None) -> Puller:
    """Give a puller that runs a program of Python."""
    order = Order(
        command=[sys.executable, "-c", program],
        lease_secs=1,
        timeout_seconds=20,
        output_url=output_url,
        output_token="secret" if output_url else None,
    )
    return Puller(
        TaskQueueApi(server.url, "app", "pull"),
        order,
        at_once=4,
        refill_below=4,
        pause_seconds=0.1,
        tag=None,
    )


class Receiver(BaseHTTPRequestHandler):
    """Takes the output of programs."""

    status = 200
    received: list[tuple[str, bytes, str | None]]

    def do_POST(self) -> None:
        """Remember what is posted."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body, self.headers["Authorization"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    """Give the address of a server that takes output, and what it received."""
    handler = type("Handler", (Receiver,), {"received": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/done?name=", handler
        http.shutdown()
        thread.join()


def test_the_queue(run: Run, queue: Queue) -> None:
    """Its name and statistics are shown."""
    queue.add(b"work")

    shown = json.loads(run("getqueue").stdout)

    assert shown["id"] == "projects/s~app/taskqueues/pull"
    assert shown["stats"]["totalTasks"] == 1


def test_tasks(run: Run, queue: Queue) -> None:
    """Listed, shown, leased and deleted."""
    queue.add(b"one", name="a", tag="t")
    queue.add(b"two", name="b")

    assert [task["id"] for task in json.loads(run("listtasks").stdout)["items"]] == ["a", "b"]
    assert json.loads(run("gettask", "--task_name=b").stdout)["payloadBase64"] == "dHdv"
    leased = json.loads(run("leasetask", "--lease_secs=60", "--num_tasks=5").stdout)["items"]
    assert [task["id"] for task in leased] == ["a", "b"]
    assert json.loads(run("leasetask", "--tag=t").stdout) == {"kind": "taskqueue#tasks"}
    assert run("deletetask", "--task_name", "a").exit_code == 0
    again = run("deletetask", "--task_name", "a")
    assert again.exit_code == 1
    assert "The task name is invalid." in again.stderr


def test_clearing(run: Run, queue: Queue) -> None:
    """All tasks are deleted, more than one list has."""
    for _ in range(230):
        queue.add(b"work")
    queue.lease_tasks(60, 3)

    assert run("clear").stdout == "230 tasks deleted\n"
    queue.add(b"work")
    assert run("clear").stdout == "1 task deleted\n"
    assert queue.list_tasks() == []


def test_the_spelling_of_the_project(server: Server) -> None:
    """--project and --project_name are one flag; a queue must be named."""
    flags = ["--project_name=app", "--taskqueue_name=pull", f"--api_host={server.url}"]

    assert CliRunner().invoke(gtaskqueue, ["getqueue", *flags]).exit_code == 0
    assert CliRunner().invoke(gtaskqueue, ["getqueue", flags[0]]).exit_code == 2


def test_no_server(run: Run) -> None:
    """What went wrong is told in one line, with what to do."""
    done = run("getqueue", "--api_host=http://127.0.0.1:9")
    nowhere = run("getqueue", "--api_host=localhost")

    assert done.exit_code == nowhere.exit_code == 1
    assert done.stderr == (
        "Error: no task queue answers at http://127.0.0.1:9 (connection refused): start one with "
        "`pullqueue serve`, or say where it is with --api_host or PULLQUEUE_EMULATOR_HOST\n"
    )
    assert nowhere.stderr == (
        "Error: --api_host is 'localhost', which is no address: give HOST:PORT, such as "
        "localhost:8124\n"
    )


def test_another_server(run: Run, server: Server) -> None:
    """What has no task queues is told from a queue that is not there."""
    done = run("getqueue", f"--api_host={server.url}/console")

    assert done.exit_code == 1
    assert f"no task queue answers at {server.url}/console (it answers 404 " in done.stderr


def test_a_program_for_each_task(
    server: Server, queue: Queue, receiver: tuple[str, type[Receiver]]
) -> None:
    """The payload goes in by a file, the output is posted, and the task is deleted."""
    url, handler = receiver
    for place in range(10):
        queue.add(f"work {place}", name=f"n{place}")

    puller_of(server, UPPER, output_url=url).run(until_empty=True)

    assert queue.list_tasks() == []
    assert sorted(handler.received) == [
        (f"/done?name=n{place}", f"WORK {place}".encode(), "Bearer secret") for place in range(10)
    ]


def test_output_that_nobody_takes(
    server: Server, queue: Queue, receiver: tuple[str, type[Receiver]]
) -> None:
    """The task stays: its lease runs out, and it is tried again."""
    url, handler = receiver
    handler.status = 500
    queue.add(b"work")

    puller_of(server, UPPER, output_url=url).run(until_empty=True)

    assert len(handler.received) >= 1
    assert queue.fetch_statistics().tasks == 1


def test_a_program_that_fails(server: Server, queue: Queue) -> None:
    """Its task stays, leased until the lease runs out."""
    queue.add(b"work", name="a")

    puller_of(server, "raise SystemExit(1)").run(until_empty=True)

    assert queue.get_task("a").retry_count >= 1


def test_a_long_program(server: Server, queue: Queue) -> None:
    """Its lease is extended as long as it runs, so that it runs once."""
    queue.add(b"work", name="a")

    puller_of(server, "import time; time.sleep(2.5)").run(until_empty=True)

    assert queue.list_tasks() == []
    kinds = [event.kind.value for event in queue.history("a")]
    assert kinds[:3] == ["added", "leased", "extended"]
    assert kinds.count("leased") == 1


def test_a_program_that_takes_too_long(server: Server, queue: Queue) -> None:
    """It is ended, and its task stays."""
    queue.add(b"work", name="a")
    flags = ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]
    program = f"{sys.executable} -c 'import time; time.sleep(60)'"

    done = CliRunner().invoke(
        gtaskqueue_puller,
        [
            *flags,
            f"--executable_binary={program}",
            "--task_timeout_secs=0.3",
            "--sleep_interval_secs=0",
            "--exit_when_empty",
        ],
    )

    assert done.exit_code == 0
    assert queue.get_task("a").retry_count == 1


def test_several_at_once(server: Server, queue: Queue) -> None:
    """Four programs run side by side."""
    for _ in range(4):
        queue.add(b"work")
    puller = puller_of(server, "import time; time.sleep(0.6)")

    puller.run(until_empty=True)

    assert queue.list_tasks() == []
    assert (
        all(event.kind.value != "extended" for event in queue.events())
        or queue.fetch_statistics().leased_last_minute == 4
    )


def test_stopping(server: Server, queue: Queue) -> None:
    """A signal ends the programs and gives their tasks back at once."""
    queue.add(b"work", name="a")
    sleeper = f"{sys.executable} -c 'import time; time.sleep(60)'"
    with subprocess.Popen(
        [
            SCRIPT,
            "--project=app",
            "--taskqueue_name=pull",
            f"--api_host={server.url}",
            f"--executable_binary={sleeper}",
            "--lease_secs=600",
        ],
        stderr=subprocess.PIPE,
    ) as process:
        attempt = threading.Event()
        while not queue.get_task("a").retry_count:
            attempt.wait(0.05)
        process.send_signal(signal.SIGTERM)
        process.wait(20)

    assert process.returncode == 0
    assert [event.kind.value for event in queue.history("a")][-1] == "released"


def test_a_program_that_is_not_there(server: Server, queue: Queue) -> None:
    """It is told in one line before any task is leased."""
    queue.add(b"work", name="a")
    flags = ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]

    for program in ("/nowhere", "", "'"):
        done = CliRunner().invoke(gtaskqueue_puller, [*flags, f"--executable_binary={program}"])

        assert done.exit_code == 2
        assert done.stderr.startswith(f"Error: --executable_binary is {program!r}")
        assert done.stderr.count("\n") == 1
    assert queue.get_task("a").retry_count == 0


def test_a_program_that_cannot_be_started(server: Server, queue: Queue, tmp_path: Path) -> None:
    """The task stays."""
    queue.add(b"work", name="a")
    program = tmp_path / "program"
    program.touch(mode=0o755)
    flags = ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]

    done = CliRunner().invoke(
        gtaskqueue_puller, [*flags, f"--executable_binary={program}", "--exit_when_empty"]
    )

    assert done.exit_code == 0
    assert queue.get_task("a").retry_count == 1


def test_no_queue_to_empty(server: Server) -> None:
    """With --exit_when_empty a queue that cannot be asked is an error, not a reason to wait."""
    for queue, host, reason in (
        ("pul", server.url, "Queue not found. (queue 'pul' is not in "),
        ("pull", "http://127.0.0.1:9", "no task queue answers at "),
    ):
        done = CliRunner().invoke(
            gtaskqueue_puller,
            [
                "--project=app",
                f"--taskqueue_name={queue}",
                f"--api_host={host}",
                "--exit_when_empty",
            ],
        )

        assert done.exit_code == 1
        assert reason in done.stderr
