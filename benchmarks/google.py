"""A task's whole life through the Python interface, beside Google's stub without the SDK's client.

Both are called as directly as they can be: Google's stub with messages that are ready, so that the
client's own work is on neither side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.engine_sides import CONFIG, PAYLOAD
from benchmarks.measuring import Figure, Options, medians
from benchmarks.sdk import google_side
from pullqueue import Emulator, ManualClock
from pullqueue.sdk.imports import messages

SUITE = "google"
SINGLES = 300
LEASE_SECONDS = 3600
DEPTH = 1_000
SHARE = 1 / 3
"""Of the time that Google's stub takes."""


def measure(options: Options) -> Iterator[Figure]:
    """Add, lease and delete one task at a time."""
    sides = {"engine": _engine(), "Google's stub": _google()}
    taken = medians(
        {name: _timed(live) for name, live in sides.items()}, rounds=max(options.rounds, 9)
    )
    yield Figure(
        suite=SUITE,
        what="a task's life, without the client",
        depth=DEPTH,
        value=taken["engine"] / SINGLES * 1e6,
        unit="us/task",
        peer="Google's stub",
        peer_value=taken["Google's stub"] / SINGLES * 1e6,
        limit=SHARE,
    )


def _timed(live: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        started = time.process_time()
        for _ in range(SINGLES):
            live()
        return time.process_time() - started

    return seconds


def _engine() -> Callable[[], object]:
    clock = ManualClock()
    queue = Emulator(CONFIG, clock=clock).queue("q")
    for _ in range(DEPTH):
        queue.add(PAYLOAD)

    def live() -> None:
        queue.add(PAYLOAD)
        queue.delete_tasks(queue.lease_tasks(LEASE_SECONDS, 1))

    return live


def _google() -> Callable[[], object]:
    side = google_side()
    call = side.stub.MakeSyncCall

    def add() -> None:
        request = messages.TaskQueueBulkAddRequest()
        task = request.add_request.add()
        task.queue_name, task.task_name = b"q0", b""
        task.mode, task.body = 1, PAYLOAD
        task.eta_usec = round(side.clock.time() * 1e6)
        call("taskqueue", "BulkAdd", request, messages.TaskQueueBulkAddResponse())

    def live() -> None:
        add()
        lease = messages.TaskQueueQueryAndOwnTasksRequest(
            queue_name=b"q0", lease_seconds=LEASE_SECONDS, max_tasks=1
        )
        leased = messages.TaskQueueQueryAndOwnTasksResponse()
        call("taskqueue", "QueryAndOwnTasks", lease, leased)
        names = [task.task_name for task in leased.task]
        delete = messages.TaskQueueDeleteRequest(queue_name=b"q0", task_name=names)
        call("taskqueue", "Delete", delete, messages.TaskQueueDeleteResponse())

    for _ in range(DEPTH):
        add()
    return live
