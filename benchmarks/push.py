"""Push tasks: `run_tasks` beside bare calls of werkzeug's test client, and a server beside a loop.

The app is one of Flask whose handler does nothing. Costs of `run_tasks` are seconds of the
processor; those of a server, and of the loop of http.client beside it, are seconds on the wall.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import flask
from werkzeug.test import Client

from benchmarks.measuring import Figure, Options, Turn, compare, timed
from benchmarks.servers import emulator_and_empty_views, running
from pullqueue import Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.address import DEFAULT_HOST as HOST
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, Rate
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

QUEUE_YAML = "queue:\n- name: web\n  rate: 5/s\n"
MAX_TASKS = 1_000
SHALLOW = 1_000
MAX_DEEP = 100_000
BATCH = 100
BODY = b"to=ada"
FORM = "application/x-www-form-urlencoded"
REQUEST = HttpRequest("/mail", headers=(("content-type", FORM),))

EMPTY_VIEW = HttpRequest("/constant/0", headers=(("content-type", FORM),))
AS_FAST_AS_POSSIBLE = QueueSettings(
    name="web", mode=QueueMode.PUSH, rate=Rate(count=1_000_000, unit="s"), bucket_size=MAX_TASKS
)

FAST_AND_PULL = """\
queue:
- name: web
  rate: 500/s
- name: pull
  mode: pull
"""
WORKERS = 8

AT_MOST_A_CALL = 2.0
GROWTH = 1.5
SPEED_OF_A_LOOP = 0.5
SPEED_BESIDE_WORKERS = 0.5

app = flask.Flask(__name__)
pause = threading.Event()


@app.post("/mail")
def handle() -> str:
    """Do nothing."""
    return ""


def measure(options: Options) -> Iterator[Figure]:
    """Measure runs and a server, and the growth of both."""
    tasks, deep = min(options.depth, MAX_TASKS), min(options.depth, MAX_DEEP)
    yield from _run_tasks(tasks, deep, options.rounds)
    with emulator_and_empty_views() as views:
        for waiting, suffix in ((0, ""), (deep, f", {deep:,} waiting")):
            with served(views.empty_port, tasks, waiting) as deliver:
                loop = partial(bare_loop, views.empty_port, tasks)
                for value, peer_value in compare(deliver, loop, rounds=options.rounds).values():
                    yield Figure(
                        what="a task delivered by a server" + suffix,
                        value=value * 1e6,
                        unit="us",
                        peer="a loop of http.client",
                        peer_value=peer_value * 1e6,
                        at_least=SPEED_OF_A_LOOP,
                    )
        with beside_workers(views.empty_port, tasks) as (busy, alone):
            for value, peer_value in compare(busy, alone, rounds=options.rounds).values():
                yield Figure(
                    what=f"a task of a queue of 500/s, SQLite, beside {WORKERS} REST workers",
                    value=value * 1e6,
                    unit="us",
                    peer="without them",
                    peer_value=peer_value * 1e6,
                    at_least=SPEED_BESIDE_WORKERS,
                )


def _run_tasks(tasks: int, waiting: int, rounds: int) -> Iterator[Figure]:
    shallow, deep = Queue(tasks, SHALLOW), Queue(tasks, waiting)
    what = f"run_tasks of {tasks:,} tasks"
    calls = partial(bare_calls, tasks)
    sides = (
        (shallow, calls, f"{tasks:,} bare calls of werkzeug's client", AT_MOST_A_CALL, ""),
        (deep, shallow.turn, f"{SHALLOW:,} waiting", GROWTH, f", {waiting:,} waiting"),
    )
    for side, peer, name, at_most, suffix in sides:
        costs = compare(side.turn, peer, rounds=rounds)
        for value, peer_value in costs.values():
            yield Figure(
                what=what + suffix,
                value=value * 1e3,
                unit="ms",
                peer=name,
                peer_value=peer_value * 1e3,
                at_most=at_most,
            )


class Queue:
    """A push queue with tasks that wait for their eta."""

    def __init__(self, tasks: int, waiting: int) -> None:
        self._tasks = tasks
        clock = ManualClock()
        self._emulator = Emulator.from_text(QUEUE_YAML, clock=clock)
        eta = clock.now() + timedelta(days=1)
        self._add(waiting, NewTask(BODY, eta=eta, request=REQUEST))

    def _add(self, count: int, task: NewTask) -> None:
        queue = self._emulator.queue("web")
        for _ in range(count // BATCH):
            queue.add_many([task] * BATCH)

    def turn(self) -> Mapping[str, float]:
        """Send tasks; those that wait stay."""
        self._add(self._tasks, NewTask(BODY, request=REQUEST))
        run = partial(run_tasks, self._emulator, app, max_attempts=self._tasks + 1)
        return timed({"run": (1, run)}, clock=process_time)


def bare_calls(tasks: int) -> Mapping[str, float]:
    """Call the handler as a test without pullqueue would."""
    client = Client(app, use_cookies=False)

    def call() -> None:
        for _ in range(tasks):
            client.post("/mail", data=BODY, content_type=FORM).close()

    return timed({"run": (1, call)}, clock=process_time)


@contextmanager
def served(port: int, tasks: int, waiting: int) -> Iterator[Turn]:
    """Yield what delivers tasks to a port; others wait for their eta meanwhile."""
    emulator = Emulator(QueueConfig(queues=(AS_FAST_AS_POSSIBLE,)))
    queue = emulator.queue("web")
    later = NewTask(BODY, eta=emulator.clock.now() + timedelta(days=1), request=EMPTY_VIEW)
    for _ in range(waiting // BATCH):
        queue.add_many([later] * BATCH)
    with Server(emulator, push_to=PushAddresses([f"http://{HOST}:{port}"])) as server:
        delivery = server.state.delivery
        assert delivery is not None

        def deliver() -> None:
            queue.resume()
            delivery.wake()
            while queue.fetch_statistics().tasks > waiting:
                pause.wait(0.01)

        def turn() -> Mapping[str, float]:
            queue.pause()
            for _ in range(tasks // BATCH):
                queue.add_many([NewTask(BODY, request=EMPTY_VIEW)] * BATCH)
            return {"task": timed({"all": (1, deliver)})["all"] / tasks}

        yield turn


@contextmanager
def beside_workers(app_port: int, tasks: int) -> Iterator[tuple[Turn, Turn]]:
    """Yield what delivers tasks while workers are busy, and while they are not."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "queue.yaml")
        file.write_text(FAST_AND_PULL)
        arguments = ["-m", "pullqueue", "serve", str(file), "--port", "0"]
        arguments += ["--store", f"sqlite:///{folder}/tasks.db", "--no-lease-rate-limit"]
        arguments += ["--push-to", f"http://{HOST}:{app_port}"]
        with running(arguments, stdout=subprocess.PIPE) as server:
            port = int(first_line(server).rpartition(":")[2])

            def alone() -> Mapping[str, float]:
                return {"task": deliver_over_http(port, tasks) / tasks}

            def busy() -> Mapping[str, float]:
                with ExitStack() as stack:
                    work = ["-m", "benchmarks.rest_worker", str(port)]
                    workers = [
                        stack.enter_context(running(work, stdout=subprocess.PIPE))
                        for _ in range(WORKERS)
                    ]
                    for worker in workers:
                        first_line(worker)
                    return alone()

            yield busy, alone


def first_line(process: subprocess.Popen[bytes]) -> str:
    """Return the first line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode()


def deliver_over_http(port: int, tasks: int) -> float:
    """Add tasks to a server and return how long it takes to deliver them, in seconds."""
    connection = HTTPConnection(HOST, port)

    def call(verb: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        data = None if body is None else json.dumps(body)
        connection.request(verb, f"/_emulator/queues/web{path}", data)
        return json.load(connection.getresponse())

    def deliver() -> None:
        call("POST", "/resume")
        while call("GET", "")["queue"]["tasks"]:
            pause.wait(0.02)

    call("POST", "/pause")
    for _ in range(tasks // BATCH):
        request = {"url": EMPTY_VIEW.url}
        call("POST", "/tasks", {"tasks": [{"payload": BODY.decode(), "request": request}] * BATCH})
    seconds = timed({"all": (1, deliver)})["all"]
    connection.close()
    return seconds


def bare_loop(port: int, tasks: int) -> Mapping[str, float]:
    """Send the same requests one after the other."""
    connection = HTTPConnection(HOST, port)

    def send() -> None:
        connection.request("POST", EMPTY_VIEW.url, BODY, {"Content-Type": FORM})
        connection.getresponse().read()

    costs = timed({"task": (tasks, send)})
    connection.close()
    return costs
