"""The SDK's client on pullqueue's stub, beside the same client on Google's own stub.

Times are those of the processor, which a busy machine does not stretch.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import Figure, Options, medians
from pullqueue import Emulator
from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.sdk.imports import apiproxy_stub_map, taskqueue, taskqueue_stub
from pullqueue.sdk.stub import PullQueueStub

SUITE = "sdk"
PEER = "Google's stub"

BATCH = 100
LEASE = 1000
TAGS = 10
PAYLOAD = b"x" * 100
SINGLES = 300
MANY_QUEUES = 100
LEASE_SECONDS = 3600
LEASES_PER_TASK = 1_000_000
DEEPEST_PEER = 100_000
FEW_ROUNDS = 3
"""Of what is deeper than that."""
QUICK = 20_000
"""How many tasks make a round, where the queue holds fewer."""

SLOWEST_SHALLOW = 1.0
"""Of Google's stub's time, up to 1 000 tasks deep."""
SLOWEST_DEEP = 1 / 1.5
"""The same from 100 000 tasks on."""
SLOWEST_MANY_QUEUES = 1 / 10
"""The same for single adds with 100 queues."""
LARGEST_GROWTH = 1.5
"""Of the time for a task, between 1 000 and 1 000 000 tasks."""


_Times = dict[str, dict[str, float]]
"""Of each side, for each thing that is done: microseconds a task."""


class MovingClock(Clock):
    """What the client and a stub go by: a microsecond later each time that the client looks."""

    mktime = staticmethod(time.mktime)

    def __init__(self) -> None:
        self.usec = 1_760_000_000 * USEC_PER_SECOND

    def now_usec(self) -> int:
        """Give the time in microseconds since the epoch."""
        return self.usec

    def time(self) -> float:
        """Give the time in seconds since the epoch."""
        self.usec += 1
        return self.usec / USEC_PER_SECOND


class Side:
    """A stub, and the clock that it and the client go by."""

    def __init__(self, stub: Any, clock: MovingClock) -> None:  # noqa: ANN401 - the SDK has no types
        self.stub = stub
        self.clock = clock
        self.queue = taskqueue.Queue("q0")
        self.numbers = iter(range(1 << 40))

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the client use this side."""
        apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", self.stub)
        taskqueue.taskqueue.time = self.clock
        try:
            yield
        finally:
            taskqueue.taskqueue.time = time

    def add(self, count: int) -> None:
        """Add tasks in batches, tagged in turn."""
        # Names are given: Google's stub loses most of those that it makes up in a batch.
        for start in range(0, count, BATCH):
            self.queue.add(
                [
                    taskqueue.Task(
                        payload=PAYLOAD,
                        method="PULL",
                        name=f"n{next(self.numbers):09d}",
                        tag=f"tag{number % TAGS}",
                    )
                    for number in range(start, min(start + BATCH, count))
                ]
            )

    def add_singly(self) -> None:
        """Add tasks one at a time."""
        for _ in range(SINGLES):
            self.queue.add(taskqueue.Task(payload=PAYLOAD, method="PULL"))

    def lease(self) -> None:
        """Lease every task."""
        self.clock.usec += (LEASE_SECONDS + 1) * USEC_PER_SECOND
        while self.queue.lease_tasks(LEASE_SECONDS, LEASE):
            pass

    def lease_by_tag(self) -> None:
        """Lease every task, by named tags."""
        self.clock.usec += (LEASE_SECONDS + 1) * USEC_PER_SECOND
        for number in range(TAGS):
            while self.queue.lease_tasks_by_tag(LEASE_SECONDS, LEASE, f"tag{number}"):
                pass

    def seconds_to_delete(self) -> float:
        """Lease every task and delete it; tell how long the deleting takes."""
        self.clock.usec += (LEASE_SECONDS + 1) * USEC_PER_SECOND
        seconds = 0.0
        while tasks := self.queue.lease_tasks(LEASE_SECONDS, LEASE):
            started = time.process_time()
            self.queue.delete_tasks(tasks)
            seconds += time.process_time() - started
        return seconds


def google_side(queues: int = 1) -> Side:
    """Make Google's stub over a queue.yaml with so many queues."""
    clock = MovingClock()
    folder = tempfile.mkdtemp(prefix="pullqueue-benchmark-")
    entries = "".join(
        f"- name: q{number}\n  mode: pull\n"
        f"  retry_parameters:\n    task_retry_limit: {LEASES_PER_TASK}\n"
        for number in range(queues)
    )
    Path(folder, "queue.yaml").write_text(f"queue:\n{entries}", encoding="utf-8")
    return Side(taskqueue_stub.TaskQueueServiceStub(root_path=folder, gettime=clock.time), clock)


def pullqueue_side(queues: int = 1) -> Side:
    """Make pullqueue's stub with so many queues."""
    clock = MovingClock()
    retry = RetryParameters(task_retry_limit=LEASES_PER_TASK)
    config = QueueConfig(
        queues=tuple(
            QueueSettings(name=f"q{number}", mode=QueueMode.PULL, retry_parameters=retry)
            for number in range(queues)
        )
    )
    return Side(PullQueueStub.over(Emulator(config, clock=clock)), clock)


def measure(options: Options) -> Iterator[Figure]:
    """Measure both stubs at every depth; Google's not beyond 100 000, where it takes minutes."""
    os.environ.setdefault("HTTP_HOST", "localhost")
    shallow: dict[str, float] = {}
    shallow_peer: dict[str, float] = {}
    for depth, taken in _taken(options).items():
        for what in taken[0]["pullqueue"]:
            typical = {name: median(one[name][what] for one in taken) for name in taken[0]}
            yield _figure(what, depth, typical, shallow)
            if PEER in typical:
                before = shallow_peer.setdefault(what, typical[PEER])
                if depth > min(options.depths):
                    yield _growth_of_peer(what, depth, typical[PEER], before, min(options.depths))
    yield from _many_queues(options)


def _taken(options: Options) -> dict[int, list[_Times]]:
    """Measure every depth in each round, and the least before and behind: it is their peer."""
    least = min(options.depths)
    taken: dict[int, list[_Times]] = {depth: [] for depth in options.depths}
    for number in range(options.rounds):
        for depth in taken:
            if depth <= DEEPEST_PEER or number < FEW_ROUNDS:
                taken[depth] += _round(depth)
                if depth > least:
                    taken[least] += _round(least)
    return taken


def _round(depth: int) -> list[_Times]:
    """Measure a depth once, or several times where that is quickly done."""
    sides = {"pullqueue": pullqueue_side}
    if depth <= DEEPEST_PEER:
        sides[PEER] = google_side
    return [
        {name: _times(make(), depth) for name, make in sides.items()}
        for _ in range(max(1, QUICK // depth))
    ]


def _times(side: Side, depth: int) -> dict[str, float]:
    """Give microseconds a task for each thing that is done with a queue of some depth."""
    with side.used():
        seconds = {
            f"add, {BATCH} at a time": _cpu_seconds(lambda: side.add(depth)),
            f"lease, {LEASE} at a time": _cpu_seconds(side.lease),
            f"lease by tag, {LEASE} at a time": _cpu_seconds(side.lease_by_tag),
            f"delete, {LEASE} at a time": side.seconds_to_delete(),
        }
        return {what: taken / depth * 1e6 for what, taken in seconds.items()}


def _figure(what: str, depth: int, typical: dict[str, float], shallow: dict[str, float]) -> Figure:
    ours = typical["pullqueue"]
    if PEER in typical:
        shallow.setdefault(what, ours)
        limit = SLOWEST_DEEP if depth >= DEEPEST_PEER else SLOWEST_SHALLOW
        peer, value = PEER, typical[PEER]
    else:
        limit, peer, value = LARGEST_GROWTH, "itself, shallow", shallow[what]
    return Figure(
        suite=SUITE,
        what=what,
        value=ours,
        unit="us/task",
        depth=depth,
        peer=peer,
        peer_value=value,
        limit=limit,
    )


def _growth_of_peer(
    what: str, depth: int, value: float, before: float, shallow_depth: int
) -> Figure:
    return Figure(
        suite=SUITE,
        what=f"{what}, {PEER}",
        value=value,
        unit="us/task",
        depth=depth,
        peer=f"the same at {shallow_depth}",
        peer_value=before,
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def _many_queues(options: Options) -> Iterator[Figure]:
    sides = {"pullqueue": pullqueue_side, PEER: google_side}

    def adding(make: Callable[[int], Side]) -> Callable[[], float]:
        def add() -> float:
            side = make(MANY_QUEUES)
            with side.used():
                return _cpu_seconds(side.add_singly) / SINGLES * 1e6

        return add

    typical = medians({name: adding(make) for name, make in sides.items()}, rounds=options.rounds)
    yield Figure(
        suite=SUITE,
        what=f"add singly, {MANY_QUEUES} queues",
        value=typical["pullqueue"],
        unit="us/task",
        peer=PEER,
        peer_value=typical[PEER],
        limit=SLOWEST_MANY_QUEUES,
    )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    depths = tuple(map(int, sys.argv[1:])) or Options().depths
    for figure in measure(Options(depths=depths)):
        print(
            f"{figure.what:32} depth {figure.depth or '-':>8}  {figure.value:8.2f} {figure.unit}  "
            f"{figure.peer} {figure.peer_value:8.2f}  ratio {figure.ratio:.2f}  "
            f"limit {figure.limit or '-'}  {'MISSED' if figure.met is False else 'met'}"
        )
