"""The bridge of the API, beside an empty Flask view on the same server that gives the same answers.

Each call is made as bytes over a plain socket, so that the client is not what is measured, and by
the SDK's own client, as an app under `pullqueue exec` makes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from google.appengine.runtime.default_api_stub import DefaultApiStub

from benchmarks.measuring import Figure, Options
from benchmarks.rest import OF_THE_EMPTY_VIEW
from benchmarks.rest_client import HOST, Connection, request_bytes
from benchmarks.rest_servers import ANSWER, serving
from pullqueue.sdk import connect
from pullqueue.sdk.environment import BRIDGE_PATH
from pullqueue.sdk.imports import apiproxy_stub_map, messages, remote_api, taskqueue

SUITE = "bridge"
QUEUE = "cycle"
CALLS = ("add", "lease", "delete")
REPEATS = {1: 100, 100: 5}
"""How often in a row a call is made, by how many tasks it is for."""
PAYLOAD = b"x" * 100
LEASE_SECONDS = 3600


def measure(options: Options) -> Iterator[Figure]:
    """Add, lease and delete, one task and a hundred at a time, for as long as rounds of a rate."""
    os.environ.setdefault("HTTP_HOST", "localhost")
    with serving() as address:
        apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", DefaultApiStub())
        for count in REPEATS:
            with ExitStack() as stack:
                ours, empty = (
                    (Plain(stack.enter_context(Connection(port)), count), App(port, count))
                    for port in (address.emulator, address.empty)
                )
                _cycle(ours, empty)
                end = time.perf_counter() + options.rounds * options.seconds
                taken = [_cycle(ours, empty)]
                while time.perf_counter() < end:
                    taken.append(_cycle(ours, empty))
            yield from _figures(count, taken)


def _figures(count: int, taken: list[Times]) -> Iterator[Figure]:
    for client in (Plain, App):
        for call in CALLS:
            value, peer_value = (
                median(times[client, call, side] for times in taken) for side in ("ours", "empty")
            )
            yield Figure(
                suite=SUITE,
                what=f"{call} {count}, {client.NAME}",
                value=value * 1e6,
                unit="us/call",
                peer="an empty Flask view",
                peer_value=peer_value * 1e6,
                # An app's calls; those over a plain socket only tell what of it is ours.
                limit=OF_THE_EMPTY_VIEW if count == 1 and client is App else None,
            )


class Plain:
    """The calls over a plain socket, made ready beforehand."""

    NAME = "plain socket"

    def __init__(self, connection: Connection, count: int) -> None:
        self.connection = connection
        self.count = count
        self.answers = [b""]

    def seconds(self, call: str) -> float:
        """Make a call some times in a row, keep the answers, and give how long one took."""
        wires = [getattr(self, call)() for _ in range(REPEATS[self.count])]
        started = time.perf_counter()
        answers = [self.connection.ask(wire) for wire in wires]
        taken = time.perf_counter() - started
        self.answers = answers
        return taken / len(wires)

    def add(self) -> bytes:
        """Give the call that adds tasks."""
        message = messages.TaskQueueBulkAddRequest()
        for _ in range(self.count):
            message.add_request.add(
                queue_name=QUEUE.encode(), task_name=b"", eta_usec=0, mode=1, body=PAYLOAD
            )
        return _wire("BulkAdd", message)

    def lease(self) -> bytes:
        """Give the call that leases tasks."""
        message = messages.TaskQueueQueryAndOwnTasksRequest(
            queue_name=QUEUE.encode(), lease_seconds=LEASE_SECONDS, max_tasks=self.count
        )
        return _wire("QueryAndOwnTasks", message)

    def delete(self) -> bytes:
        """Give the call that deletes the tasks of an answer."""
        answer = remote_api.Response.FromString(self.answers.pop()).response
        leased = messages.TaskQueueQueryAndOwnTasksResponse.FromString(answer).task
        assert len(leased) == self.count  # noqa: S101 - a benchmark of successes
        message = messages.TaskQueueDeleteRequest(
            queue_name=QUEUE.encode(), task_name=[task.task_name for task in leased]
        )
        return _wire("Delete", message)


class App:
    """The same calls as an app makes them."""

    NAME = "SDK's client"

    def __init__(self, port: int, count: int) -> None:
        self.address = f"{HOST}:{port}"
        self.count = count
        self.queue = taskqueue.Queue(QUEUE)
        self.leased: list[list[Any]] = []

    def seconds(self, call: str) -> float:
        """Make a call some times in a row, and give how long one took."""
        connect(self.address)
        works: list[Callable[[], object]]
        works = [getattr(self, call)() for _ in range(REPEATS[self.count])]
        started = time.perf_counter()
        for work in works:
            work()
        return (time.perf_counter() - started) / len(works)

    def add(self) -> Callable[[], object]:
        """Give the call that adds tasks."""
        tasks = [taskqueue.Task(payload=PAYLOAD, method="PULL") for _ in range(self.count)]
        return partial(self.queue.add, tasks)

    def lease(self) -> Callable[[], object]:
        """Give the call that leases tasks."""
        lease = partial(self.queue.lease_tasks, LEASE_SECONDS, self.count)
        return lambda: self.leased.append(lease())

    def delete(self) -> Callable[[], object]:
        """Give the call that deletes tasks that were leased."""
        tasks = self.leased.pop()
        assert len(tasks) == self.count  # noqa: S101 - a benchmark of successes
        return partial(self.queue.delete_tasks, tasks)


Side = tuple[Plain, App]
Times = dict[tuple[type[Plain | App], str, str], float]


def _cycle(ours: Side, empty: Side) -> Times:
    """Make each call at both servers through both clients; the empty view repeats our answer."""
    times: Times = {}
    for call in CALLS:
        times[Plain, call, "ours"] = ours[0].seconds(call)
        empty[0].connection.ask(request_bytes("PUT", ANSWER, ours[0].answers[-1]))
        times[Plain, call, "empty"] = empty[0].seconds(call)
        times[App, call, "ours"] = ours[1].seconds(call)
        times[App, call, "empty"] = empty[1].seconds(call)
    return times


def _wire(method: str, message: Any) -> bytes:  # noqa: ANN401 - the SDK has no types
    wire = remote_api.Request(
        service_name="taskqueue",
        method=method,
        request_id="ticket",
        request=message.SerializeToString(),
    )
    return request_bytes("POST", BRIDGE_PATH, wire.SerializeToString())
