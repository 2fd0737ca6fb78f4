"""`gtaskqueue_puller` against a running server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from pullqueue import Queue
from pullqueue.gtaskqueue.api import TaskQueueApi
from pullqueue.gtaskqueue.programs import Order
from pullqueue.gtaskqueue.puller import Puller, gtaskqueue_puller
from pullqueue.server.lifecycle import Server

SCRIPT = Path(sys.executable).with_name("gtaskqueue_puller")


UPPER = "import sys; open(sys.argv[2], 'w').write(open(sys.argv[1]).read().upper())"


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
