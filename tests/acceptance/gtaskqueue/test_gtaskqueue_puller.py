"""`gtaskqueue_puller` against a running server."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pullqueue import Queue, TransientError
from pullqueue.engine.events import EventKind
from pullqueue.gtaskqueue.puller import gtaskqueue_puller
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults

SCRIPT = Path(sys.executable).with_name("gtaskqueue_puller")


UPPER = "import sys; open(sys.argv[2], 'w').write(open(sys.argv[1]).read().upper())"

Pull = Callable[..., Result]


@pytest.fixture
def pull(server: Server) -> Iterator[Pull]:
    """Return a function that runs a program of Python for all tasks of the queue."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def pull(program: str, *flags: str) -> Result:
        return CliRunner().invoke(
            gtaskqueue_puller,
            [
                *("--project_name=app", "--taskqueue_name=pull", f"--api_host={server.url}"),
                f"--executable_binary={shlex.join([sys.executable, '-c', program])}",
                *("--sleep_before_next_poll_secs=0.05", "--sleep_interval_secs=0.1"),
                *("--exit_when_empty", *flags),
            ],
        )

    yield pull
    for number, handler in handlers.items():
        signal.signal(number, handler)


class Receiver(BaseHTTPRequestHandler):
    """Takes the output of programs."""

    status = 200
    received: list[tuple[str, bytes, str | None, str | None]]

    def do_POST(self) -> None:
        """Record what is posted."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = self.headers
        self.received.append((self.path, body, headers["Content-Type"], headers["Authorization"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    """Yield the address of a server that takes output, and what it received."""
    handler = type("Handler", (Receiver,), {"received": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/done?name=", handler
        http.shutdown()
        thread.join()


def test_a_program_for_each_task(
    pull: Pull, queue: Queue, receiver: tuple[str, type[Receiver]], tmp_path: Path
) -> None:
    """The payload goes in by a file, the output is posted, and the task is deleted."""
    url, handler = receiver
    (tmp_path / "token").write_text("secret\n")
    for place in range(10):
        queue.add(f"work {place}", name=f"n{place}")

    pull(UPPER, f"--output_url={url}", f"-appengine_access_token_file={tmp_path / 'token'}")

    assert queue.list_tasks() == []
    assert sorted(handler.received) == [
        (f"/done?name=n{place}", f"WORK {place}".encode(), "byte-array", "Bearer secret")
        for place in range(10)
    ]


def test_output_that_nobody_takes(
    pull: Pull, queue: Queue, receiver: tuple[str, type[Receiver]]
) -> None:
    """The task stays: its lease runs out, and it is tried again."""
    url, handler = receiver
    handler.status = 500
    queue.add(b"work")

    pull(UPPER, f"--output_url={url}", "--lease_secs=1")

    assert len(handler.received) >= 1
    assert queue.fetch_statistics().tasks == 1


@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("raise SystemExit(1)", ""),
        ("import time; time.sleep(60)", "--task_timeout_secs=0.3"),
        ("", "--executable_binary=./program"),
    ],
    ids=["fails", "takes too long", "cannot be started"],
)
def test_a_program_that_does_not_end_well(
    pull: Pull, queue: Queue, folder: Path, program: str, flag: str
) -> None:
    """Its task stays, leased until the lease runs out."""
    (folder / "program").touch(mode=0o755)
    queue.add(b"work", name="a")

    assert pull(program, *flag.split()).exit_code == 0
    assert queue.get_task("a").retry_count == 1


def test_a_long_program(pull: Pull, queue: Queue, tmp_path: Path) -> None:
    """Its lease is extended as long as it runs, so that it runs once."""
    queue.add(b"work", name="a")

    def kinds() -> list[str]:
        return [event.kind.value for event in queue.history("a")]

    def end_it() -> None:
        until(lambda: kinds().count("extended") > 1)
        (tmp_path / "end").touch()

    with ThreadPoolExecutor(1) as executor:
        ended = executor.submit(end_it)
        pull(meet(tmp_path, 2), "--lease_secs=2", "--sleep_before_next_poll_secs=60")
        ended.result()

    assert queue.list_tasks() == []
    assert kinds()[:3] == ["added", "leased", "extended"]
    assert kinds().count("leased") == 1


def test_a_lease_that_was_lost(pull: Pull, queue: Queue, tmp_path: Path) -> None:
    """A task that is leased again while its program runs is not given to a second program."""
    queue.add(b"work", name="a")

    def take_away() -> None:
        until(lambda: queue.get_task("a").retry_count == 1)
        queue.modify_task_lease(queue.get_task("a"), 0)
        until(lambda: queue.get_task("a").retry_count == 2)
        (tmp_path / "done").touch()

    with ThreadPoolExecutor(1) as executor:
        taken = executor.submit(take_away)
        pull(meet(tmp_path, 2), "--num_tasks=2", "--min_running_tasks=1")
        taken.result()

    assert queue.list_tasks() == []
    assert len(list(tmp_path.iterdir())) == 2


def test_several_at_once(pull: Pull, queue: Queue, tmp_path: Path) -> None:
    """As many programs run side by side as was asked for: each waits until all have begun."""
    for _ in range(4):
        queue.add(b"work")

    pull(meet(tmp_path, 4), "--num_tasks=4")

    assert queue.list_tasks() == []


def meet(folder: Path, count: int) -> str:
    """Return a program that makes a file and ends when there are so many."""
    return (
        "import os, pathlib, sys, time\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "(folder / str(os.getpid())).touch()\n"
        f"while len(list(folder.iterdir())) < {count}: time.sleep(0.02)\n"
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not condition():
        threading.Event().wait(0.02)


class TestPace:
    """Room for two programs and three tasks: the second waits for the third, but not forever."""

    PROGRAM = (
        "import pathlib, sys, time\n"
        "third = pathlib.Path({file!r})\n"
        "name = open(sys.argv[1]).read()\n"
        "if name == 'third': third.touch()\n"
        "until = time.monotonic() + {seconds}\n"
        "while name == 'second' and not third.exists() and time.monotonic() < until:\n"
        "    time.sleep(0.02)\n"
    )

    @pytest.mark.parametrize(
        ("flags", "waits", "waiting_seconds"),
        [
            ([], True, 0.5),
            (["--min_running_tasks=1"], False, 60),
            (["--timeout_secs_for_next_lease_request=0.1"], False, 60),
        ],
    )
    def test_when_to_lease(
        self,
        pull: Pull,
        queue: Queue,
        tmp_path: Path,
        flags: list[str],
        *,
        waits: bool,
        waiting_seconds: float,
    ) -> None:
        """When all programs have ended, or few enough are left, or one ended long enough ago."""
        for name in ("first", "second", "third"):
            queue.add(name, name=name)
        program = self.PROGRAM.format(file=str(tmp_path / "third"), seconds=waiting_seconds)

        pull(program, "--num_tasks=2", *flags)

        events = [(event.task_name, event.kind) for event in queue.events()]
        leased, deleted = ("third", EventKind.LEASED), ("second", EventKind.DELETED)
        assert (events.index(deleted) < events.index(leased)) == waits

    def test_the_rate_of_calls(self, pull: Pull, queue: Queue) -> None:
        """After two deletions the next lease waits as long as these two may take."""
        for _ in range(3):
            queue.add(b"work")

        pull("", "--num_tasks=2", "--taskapi_requests_per_sec=4")

        leases = [event.usec for event in queue.events() if event.kind is EventKind.LEASED]
        assert leases[2] - leases[0] >= 500_000


@pytest.fixture
def flags(server: Server) -> list[str]:
    """Return the flags that name the queue."""
    return ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]


def test_a_log_file(queue: Queue, flags: list[str], tmp_path: Path) -> None:
    """What goes wrong is logged there, and not on standard error."""
    queue.add(b"work", name="a")
    file = tmp_path / "puller.log"
    program = f"--executable_binary={sys.executable} -c exit(3)"

    done = subprocess.run(
        [SCRIPT, *flags, program, f"-log_output_file={file}", "-exit_when_empty"],
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert done.stderr == b""
    assert file.read_text().endswith(
        " - pullqueue.puller - WARNING - task a: the program ended with status 3\n"
    )


def test_stopping(queue: Queue, flags: list[str]) -> None:
    """A signal ends the programs and releases their tasks at once."""
    queue.add(b"work", name="a")
    sleeper = f"--executable_binary={sys.executable} -c 'import time; time.sleep(60)'"
    with subprocess.Popen(
        [SCRIPT, *flags, sleeper, "--lease_secs=600"], stderr=subprocess.PIPE
    ) as process:
        try:
            until(lambda: queue.get_task("a").retry_count == 1)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    assert process.returncode == 0
    assert [event.kind.value for event in queue.history("a")][-1] == "released"


def test_a_program_that_is_not_there(queue: Queue, flags: list[str]) -> None:
    """It is reported before any task is leased."""
    queue.add(b"work", name="a")

    for program in ("/nowhere", "", "'"):
        done = CliRunner().invoke(gtaskqueue_puller, [*flags, f"--executable_binary={program}"])

        assert done.exit_code == 2
        assert "Error: Invalid value for '--executable_binary': " in done.stderr
    assert queue.get_task("a").retry_count == 0


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--taskqueue_name=pul", 'Queue not found. (queue "pul" is not in '),
        ("--api_host=http://127.0.0.1:9", "no task queue responds at "),
    ],
)
def test_no_queue_to_empty(pull: Pull, flag: str, reason: str) -> None:
    """With --exit_when_empty a queue that cannot be asked is an error, not a reason to wait."""
    done = pull("", flag)

    assert done.exit_code == 1
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("verb", "flags", "logged", "left"),
    [
        ("lease_tasks", ["--num_tasks=2"], "no task could be leased: ", 0),
        ("modify_task_lease", ["--lease_secs=1"], "task a: the lease is not extended: ", 0),
        ("delete_tasks", [], "task a: is done, but not deleted: ", 1),
    ],
)
def test_a_server_that_fails_for_a_while(
    pull: Pull,
    server: Server,
    queue: Queue,
    caplog: pytest.LogCaptureFixture,
    *,
    verb: str,
    flags: list[str],
    logged: str,
    left: int,
) -> None:
    """It is logged, and the work goes on; what cannot be deleted stays until its lease ends."""
    queue.add(b"work", name="a")
    after = 1 if verb == "lease_tasks" else 0
    Faults(server.emulator).fail(verb, TransientError, after=after, times=1)

    pull("import time; time.sleep(0.7)", "--min_running_tasks=1", *flags)

    assert len(queue.list_tasks()) == left
    assert [line for line in caplog.messages if line.startswith(logged)]
