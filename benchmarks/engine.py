"""The engine: beside Google's stub, and beside itself with fewer tasks.

Costs are seconds of the processor. Both sides are called without the SDK's client, which would be
the same on both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.measuring import Figure, Options, Turn, compare, timed
from pullqueue import (
    AttemptRecord,
    Emulator,
    HttpRequest,
    NewTask,
    SystemClock,
    Task,
    TaskState,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.sdk.imports import messages, taskqueue_stub
from pullqueue.sdk.stub import EmulatorStub, seconds_of

CONFIG = QueueConfig(
    queues=(QueueSettings(name="q", mode=QueueMode.PULL), QueueSettings(name="push"))
)
REQUEST = HttpRequest("/work", headers=(("X-Mine", "7"),))
CLOCK = SystemClock()
SHALLOW = 1_000
BATCH = 100
TAGS = 10
PAYLOAD = b"x" * 100
LEASE_SECONDS = 3600
REPEATS = {1: 300, BATCH: 10}
"""Cycles in a turn, by the number of tasks in a call."""
TURNS_A_ROUND = 20
"""Of a single batch: short turns, so that the queues keep their depth."""

SPEED_OF_GOOGLES_STUB = 4.0
GROWTH = 1.5
BYTES_PER_TASK = 700.0


def measure(options: Options) -> Iterator[Figure]:
    """Measure cycles, growth and memory."""
    # First, while the process has no memory to use again.
    before = resident_bytes()
    deep = EngineSide(options.depth)
    grown = resident_bytes() - before
    yield from _growth(deep, EngineSide(SHALLOW), options)
    yield Figure(
        what=f"memory of a task, {options.depth:,} tasks, without its payload",
        value=grown / options.depth - len(PAYLOAD),
        unit="bytes",
        at_most=BYTES_PER_TASK,
    )
    del deep
    waiting = options.depth // 10
    yield from _growth(PushSide(waiting), PushSide(SHALLOW), options, depth=waiting)
    yield from _cycles(options)


# -- growth --------------------------------------------------------------------------------------


class EngineSide:
    """A queue of the engine, with tasks of 100 bytes under ten tags."""

    def __init__(self, depth: int) -> None:
        self.queue = Emulator(CONFIG).queue("q")
        self._numbers = count()
        for _ in range(depth // BATCH):
            self.queue.add_many(self._new_tasks())

    def _new_tasks(self) -> list[NewTask]:
        numbers = [next(self._numbers) for _ in range(BATCH)]
        return [NewTask(b"%0100d" % n, f"n{n:08d}", f"tag{n % TAGS}") for n in numbers]

    def cycle(self, size: int) -> None:
        """Add tasks, lease as many, and delete these."""
        if size == 1:
            self.queue.add(PAYLOAD)
        else:
            self.queue.add_many([NewTask(PAYLOAD) for _ in range(size)])
        self.queue.delete_tasks(self.queue.lease_tasks(LEASE_SECONDS, size))

    def turn(self) -> dict[str, float]:
        """Make each kind of call; the queue keeps its depth."""
        queue, tasks, leased = self.queue, self._new_tasks(), list[Task]()
        works: dict[str, tuple[int, Callable[[], object]]] = {
            f"add {BATCH}": (1, lambda: queue.add_many(tasks)),
            f"lease {BATCH}": (1, lambda: leased.extend(queue.lease_tasks(LEASE_SECONDS, BATCH))),
            f"delete {BATCH}": (1, lambda: queue.delete_tasks(leased)),
            "add, lease, delete 1": (20, lambda: self.cycle(1)),
            # A lease of no time: the tasks are available again, after all others.
            "lease 5 of a tag": (5, lambda: queue.lease_tasks_by_tag(0, 5, "tag7")),
            f"list the first {BATCH}": (5, lambda: queue.list_tasks(BATCH)),
        }
        return timed(works, clock=process_time)


class PushSide:
    """A push queue whose tasks are scheduled and wait for a retry in turn."""

    def __init__(self, depth: int) -> None:
        self.queue = Emulator(CONFIG).queue("push")
        self._numbers = count()
        later = self.queue.clock.now() + timedelta(days=1)
        for place in range(depth):
            if place % 2:
                self.queue.add(PAYLOAD, eta=later, request=REQUEST)
            else:
                self._attempt(500)

    def _attempt(self, status: int) -> None:
        added = self.queue.add(PAYLOAD, request=REQUEST)
        started = start_attempt(self.queue, added, lease_seconds=600, attempts=AttemptRecord())
        attempts = AttemptRecord(finished=1, responses=1, executions=1, status=status)
        finish_attempt(
            self.queue,
            started,
            attempts=attempts,
            backoff_seconds=3600 + next(self._numbers),
        )

    def turn(self) -> dict[str, float]:
        """Make each kind of call; the queue keeps its depth."""
        queue = self.queue
        works: dict[str, tuple[int, Callable[[], object]]] = {
            "add, attempt, succeed": (20, lambda: self._attempt(200)),
            "list the due tasks": (20, lambda: queue.list_tasks(BATCH, state=TaskState.AVAILABLE)),
            "list tasks to be retried": (5, lambda: queue.list_tasks(5, state=TaskState.RETRYING)),
            "statistics": (20, queue.fetch_statistics),
            "next change": (20, queue.next_change_usec),
            "last lease end": (20, queue.last_lease_end_usec),
        }
        return timed(works, clock=process_time)


def _growth(
    deep: EngineSide | PushSide,
    shallow: EngineSide | PushSide,
    options: Options,
    depth: int | None = None,
) -> Iterator[Figure]:
    kind = "push tasks" if isinstance(deep, PushSide) else "tasks"
    costs = compare(deep.turn, shallow.turn, rounds=options.rounds * TURNS_A_ROUND)
    for what, (value, peer_value) in costs.items():
        yield Figure(
            what=f"{what}, {depth or options.depth:,} {kind}",
            value=value * 1e6,
            unit="us",
            peer=f"{SHALLOW:,} {kind}",
            peer_value=peer_value * 1e6,
            at_most=GROWTH,
        )


def resident_bytes() -> int:
    """Return how much memory the process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- Google's stub -------------------------------------------------------------------------------


class StubSide:
    """A stub of the SDK, called with the SDK's messages."""

    def __init__(self, stub: Any) -> None:  # noqa: ANN401 - the SDK has no types
        self._call = stub.MakeSyncCall
        self._numbers = count()
        for _ in range(SHALLOW // BATCH):
            self._add(BATCH)

    def _add(self, size: int) -> None:
        request = messages.TaskQueueBulkAddRequest()
        for _ in range(size):
            # Google's stub loses most of the names that it generates for a batch.
            name = b"" if size == 1 else b"n%08d" % next(self._numbers)
            request.add_request.add(
                queue_name=b"q",
                task_name=name,
                mode=1,
                body=PAYLOAD,
                eta_usec=CLOCK.now_usec(),
            )
        self._call("taskqueue", "BulkAdd", request, messages.TaskQueueBulkAddResponse())

    def cycle(self, size: int) -> None:
        """Add tasks, lease as many, and delete these."""
        self._add(size)
        lease = messages.TaskQueueQueryAndOwnTasksRequest(
            queue_name=b"q", lease_seconds=LEASE_SECONDS, max_tasks=size
        )
        leased = messages.TaskQueueQueryAndOwnTasksResponse()
        self._call("taskqueue", "QueryAndOwnTasks", lease, leased)
        names = [task.task_name for task in leased.task]
        assert len(names) == size
        delete = messages.TaskQueueDeleteRequest(queue_name=b"q", task_name=names)
        self._call("taskqueue", "Delete", delete, messages.TaskQueueDeleteResponse())


def _turn(side: EngineSide | StubSide) -> Turn:
    works = {
        f"add, lease, delete {size}": (repeats, partial(side.cycle, size))
        for size, repeats in REPEATS.items()
    }
    return partial(timed, works, clock=process_time)


def _cycles(options: Options) -> Iterator[Figure]:
    sides: dict[str, tuple[EngineSide | StubSide, float | None]] = {
        "": (EngineSide(SHALLOW), SPEED_OF_GOOGLES_STUB),
        ", pullqueue's stub": (StubSide(EmulatorStub.over(Emulator(CONFIG))), None),
    }
    for through, (side, at_least) in sides.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "queue.yaml").write_text("queue:\n- name: q\n  mode: pull\n", "utf-8")
            google = taskqueue_stub.TaskQueueServiceStub(
                root_path=folder, gettime=seconds_of(CLOCK)
            )
            costs = compare(_turn(side), _turn(StubSide(google)), rounds=options.rounds)
        for what, (value, peer_value) in costs.items():
            yield Figure(
                what=what + through,
                value=value * 1e6,
                unit="us",
                peer="Google's stub",
                peer_value=peer_value * 1e6,
                at_least=at_least,
            )
