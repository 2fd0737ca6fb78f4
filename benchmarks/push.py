"""Push tasks: `run_tasks` beside bare calls of werkzeug's test client, and beside itself.

Costs are seconds of the processor, of an app of Flask whose handler does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from time import process_time

import flask
from werkzeug.test import Client

from benchmarks.measuring import Figure, Options, compare, timed
from pullqueue import Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.testing import run_tasks

QUEUE_YAML = "queue:\n- name: web\n  rate: 5/s\n"
TASKS = 1_000
SHALLOW = 1_000
DEEP = 100_000
BATCH = 100
BODY = b"to=ada"
FORM = "application/x-www-form-urlencoded"
REQUEST = HttpRequest("/mail", headers=(("content-type", FORM),))

AT_MOST_A_CALL = 2.0
GROWTH = 1.5

app = flask.Flask(__name__)


@app.post("/mail")
def handle() -> str:
    """Do nothing."""
    return ""


def measure(options: Options) -> Iterator[Figure]:
    """Measure a run, and its growth."""
    shallow, deep = Queue(SHALLOW), Queue(DEEP)
    what = f"run_tasks of {TASKS:,} tasks"
    sides = (
        (shallow, bare_calls, f"{TASKS:,} bare calls of werkzeug's client", AT_MOST_A_CALL, ""),
        (deep, shallow.turn, f"{SHALLOW:,} waiting", GROWTH, f", {DEEP:,} waiting"),
    )
    for side, peer, name, at_most, suffix in sides:
        costs = compare(side.turn, peer, rounds=options.rounds)
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

    def __init__(self, waiting: int) -> None:
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
        self._add(TASKS, NewTask(BODY, request=REQUEST))
        run = partial(run_tasks, self._emulator, app, max_attempts=TASKS + 1)
        return timed({"run": (1, run)}, clock=process_time)


def bare_calls() -> Mapping[str, float]:
    """Call the handler as a test without pullqueue would."""
    client = Client(app, use_cookies=False)

    def call() -> None:
        for _ in range(TASKS):
            client.post("/mail", data=BODY, content_type=FORM).close()

    return timed({"run": (1, call)}, clock=process_time)
