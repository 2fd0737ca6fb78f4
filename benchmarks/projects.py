"""Projects of a server: what each of many costs, and what a test that has one of its own takes.

Costs are processor time and memory of the server: of PostgreSQL's not, which is left out unless the
environment variable PULLQUEUE_TEST_POSTGRES names one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread

from benchmarks.measuring import Figure, Options
from benchmarks.servers import cpu_seconds_of
from benchmarks.soak import memory_mib
from benchmarks.stores import emptied

PROJECTS = 1_000
TESTS = 50
MOST_MS, MOST_KB = 20, 100
QUEUES = "queue:\n- {name: pull, mode: pull}\n- {name: mails, rate: 5/s}\n"

Call = Callable[[str, str, object], object]


def measure(options: Options) -> Iterator[Figure]:
    """Measure projects in each store, and tests on a server in memory."""
    projects = min(PROJECTS, options.depth)
    with tempfile.TemporaryDirectory() as folder:
        urls = ["memory", f"sqlite:///{folder}/tasks.db"]
        database = os.environ.get("PULLQUEUE_TEST_POSTGRES")
        if database:
            urls.append(emptied(database, "benchmark"))
        for url in urls:
            with serving(Path(folder), url) as (pid, call):
                yield from _costs(url.partition(":")[0], pid, call, projects)
    with (
        tempfile.TemporaryDirectory() as folder,
        handler() as address,
        serving(Path(folder), "memory", "--push-to", address) as (pid, call),
    ):
        yield from _tests(pid, call, address, min(TESTS, options.depth))


@contextmanager
def serving(folder: Path, url: str, *options: str) -> Iterator[tuple[int, Call]]:
    """Run a server with a store; yield its process, and what calls it."""
    port = folder / "port"
    port.unlink(missing_ok=True)
    arguments = ("serve", "--port", "0", "--port-file", str(port), "--store", url, *options)
    with Popen([sys.executable, "-m", "pullqueue", *arguments], stdout=PIPE, stderr=DEVNULL) as run:
        assert run.stdout is not None
        while not port.exists():
            assert run.stdout.readline(), "the server has ended"
        connection = HTTPConnection("127.0.0.1", int(port.read_text()), timeout=60)

        def call(method: str, path: str, body: object) -> object:
            content = json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, text
            return json.loads(text)

        try:
            yield run.pid, call
        finally:
            run.terminate()
            connection.close()


def _costs(store: str, pid: int, call: Call, projects: int) -> Iterator[Figure]:
    """Make projects, add a task to each, and delete them."""
    call("POST", "/_emulator/projects", {"name": "first", "queue_yaml": QUEUES})
    memory = memory_mib(pid)
    for what in ("make", "delete"):
        started, seconds = time.perf_counter(), cpu_seconds_of(pid)
        for number in range(projects):
            name = f"p{number}"
            if what == "make":
                call("POST", "/_emulator/projects", {"name": name, "queue_yaml": QUEUES})
                tasks = {"tasks": [{"payload": "x"}]}
                call("POST", f"/_emulator/queues/pull/tasks?project={name}", tasks)
            else:
                call("DELETE", f"/_emulator/projects/{name}", {})
        taken = cpu_seconds_of(pid) - seconds, time.perf_counter() - started
        for clock, value in zip(("processor", "wall"), taken, strict=True):
            yield Figure(
                what=f"{store}: {what} one of {projects} projects, {clock}",
                value=value / projects * 1e3,
                unit="ms",
                at_most=MOST_MS,
            )
        if what == "make":
            yield Figure(
                what=f"{store}: memory of one of {projects} projects",
                value=(memory_mib(pid) - memory) / projects * 1024,
                unit="KB",
                at_most=MOST_KB,
            )


def _tests(pid: int, call: Call, address: str, tests: int) -> Iterator[Figure]:
    """Do what a test does with a project of its own: one task that is sent to a handler."""
    parent = "projects/{}/locations/us-central1"
    walls, seconds = [], cpu_seconds_of(pid)
    for number in range(tests):
        name = f"test-{number}"
        started, within = time.perf_counter(), f"/v2/{parent.format(name)}"
        call("POST", "/_emulator/projects", {"name": name, "clock": "manual"})
        call("POST", f"{within}/queues", {"name": f"{parent.format(name)}/queues/orders"})
        task = {"task": {"httpRequest": {"url": f"{address}/x"}}}
        call("POST", f"{within}/queues/orders/tasks", task)
        ran = call("POST", f"/_emulator/run?project={name}", {})
        assert isinstance(ran, dict), ran
        assert [each["status"] for each in ran["attempts"]] == [204], ran
        call("DELETE", f"/_emulator/projects/{name}", {})
        walls.append(time.perf_counter() - started)
    processor = (cpu_seconds_of(pid) - seconds) / tests
    for clock, value in (("processor", processor), ("wall", median(walls))):
        yield Figure(what=f"a test with a project, {clock}", value=value * 1e3, unit="ms")


@contextmanager
def handler() -> Iterator[str]:
    """Serve a handler that succeeds at once; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Succeed."""
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""
