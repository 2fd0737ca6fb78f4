"""The server: beside empty Flask views on the same HTTP server, beside moto, and over gRPC.

Costs are seconds on the wall, of one request after the other on a kept connection.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from functools import partial

import grpc
import requests

from benchmarks.measuring import Figure, Options, Turn, compare, timed
from benchmarks.servers import (
    DEPTH,
    LARGE,
    Connection,
    Served,
    cpu_seconds_of,
    emulator_and_empty_views,
    moto,
)
from pullqueue.address import DEFAULT_HOST as HOST
from pullqueue.cloudtasks.messages import FULL, message_class

QUEUES = "/taskqueue/v1beta2/projects/s~app/taskqueues"
INSERT = f"{QUEUES}/q/tasks"
TASK = json.dumps({"queueName": "q", "payloadBase64": base64.b64encode(b"x" * 100).decode()})
LEASE = f"{QUEUES}/deep/tasks/lease?numTasks=1&leaseSecs=600000"
LEASE_LARGE = f"{QUEUES}/large/tasks/lease?numTasks={LARGE}&leaseSecs=0"
ONE = f"lease 1, {DEPTH:,} tasks"
MANY = f"lease {LARGE} tasks of 1 KB"
CYCLES = 150
"""In a turn."""
TURNS_A_ROUND = 4
"""Of requests: many short turns, so that both sides have the same share of a busy machine."""

SPEED_OF_AN_EMPTY_VIEW = 0.8
COST_OF_JSON = 1.5
SPEED_OF_MOTO = 2.5
PROCESSOR_OF_MOTO = 0.25


def measure(options: Options) -> Iterator[Figure]:
    """Measure requests over REST, cycles and gRPC."""
    with emulator_and_empty_views() as served:
        with Connection(served.port) as ours, Connection(served.empty_port) as empty:
            yield from _beside_empty_views(ours, empty, options)
            yield from _grpc(served, ours, options)
        yield from _beside_moto(served, options)


def _beside_empty_views(ours: Connection, empty: Connection, options: Options) -> Iterator[Figure]:
    inserted, leased = (len(ours.post(*request)) for request in ((INSERT, TASK), (LEASE,)))
    compact = f"{MANY}, prettyPrint=false"
    sides: dict[Connection, dict[str, tuple[str, ...]]] = {
        ours: {
            "insert 1": (INSERT, TASK),
            ONE: (LEASE,),
            MANY: (LEASE_LARGE,),
            compact: (f"{LEASE_LARGE}&prettyPrint=false",),
        },
        empty: {
            "insert 1": (f"/constant/{inserted}", TASK),
            ONE: (f"/constant/{leased}",),
            MANY: ("/large",),
            compact: ("/large",),
        },
    }
    turns = [
        partial(
            timed,
            {what: (_times(what), partial(side.post, *request)) for what, request in work.items()},
        )
        for side, work in sides.items()
    ]
    for what, (value, peer_value) in compare(*turns, rounds=options.rounds * TURNS_A_ROUND).items():
        large = what.startswith(MANY)
        yield Figure(
            what=what,
            value=value * 1e6,
            unit="us",
            peer="json.dumps in a Flask view" if large else "an empty Flask view",
            peer_value=peer_value * 1e6,
            at_most=COST_OF_JSON if large else None,
            at_least=None if large else SPEED_OF_AN_EMPTY_VIEW,
        )


def _times(what: str) -> int:
    return 2 if what.startswith(MANY) else 150


def _grpc(served: Served, ours: Connection, options: Options) -> Iterator[Figure]:
    with grpc.insecure_channel(
        f"{HOST}:{served.grpc_port}", options=[("grpc.max_receive_message_length", -1)]
    ) as channel:
        one, many = _leasing(channel, "deep", 1, 600_000), _leasing(channel, "large", LARGE, 0)
        turns = [
            partial(timed, {what: (_times(what), work) for what, work in works.items()})
            for works in (
                {ONE: one, MANY: many},
                {ONE: partial(ours.post, LEASE), MANY: partial(ours.post, LEASE_LARGE)},
            )
        ]
        costs = compare(*turns, rounds=options.rounds * TURNS_A_ROUND)
    for what, (value, peer_value) in costs.items():
        yield Figure(
            what=f"{what}, Cloud Tasks over gRPC",
            value=value * 1e6,
            unit="us",
            peer="v1beta2 over REST",
            peer_value=peer_value * 1e6,
        )


def _leasing(channel: grpc.Channel, queue: str, tasks: int, seconds: int) -> Callable[[], object]:
    request = message_class("v2beta2", "LeaseTasksRequest")(
        parent=f"projects/app/locations/us-central1/queues/{queue}",
        max_tasks=tasks,
        lease_duration={"seconds": seconds},
        response_view=FULL,
    )
    lease = channel.unary_unary("/google.cloud.tasks.v2beta2.CloudTasks/LeaseTasks")
    metadata = [("x-goog-request-params", f"parent={request.parent}")]
    return partial(lease, request.SerializeToString(), metadata=metadata)


def _beside_moto(served: Served, options: Options) -> Iterator[Figure]:
    payload = base64.urlsafe_b64encode(b"x" * 1024).decode()
    root = f"http://{HOST}:{served.port}{QUEUES}/cycle/tasks"
    with moto() as (moto_served, sqs), requests.Session() as session:
        session.trust_env = False

        def our_cycle() -> None:
            session.post(root, json={"queueName": "cycle", "payloadBase64": payload}).json()
            leased = session.post(f"{root}/lease?numTasks=1&leaseSecs=600").json()
            session.delete(f"{root}/{leased['items'][0]['id']}")

        def their_cycle() -> None:
            sqs("SendMessage", MessageBody="x" * 1024)
            (message,) = sqs("ReceiveMessage", VisibilityTimeout=600)["Messages"]
            sqs("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])

        costs = compare(
            _cycles(our_cycle, served.pid),
            _cycles(their_cycle, moto_served.pid),
            rounds=options.rounds,
        )
    for what, (value, peer_value) in costs.items():
        on_the_wall = what == "cycle"
        yield Figure(
            what="insert, lease, delete 1 with requests"
            + ("" if on_the_wall else ", the server's processor"),
            value=value * 1e6,
            unit="us",
            peer="moto_server (SQS)",
            peer_value=peer_value * 1e6,
            at_least=SPEED_OF_MOTO if on_the_wall else None,
            at_most=None if on_the_wall else PROCESSOR_OF_MOTO,
        )


def _cycles(cycle: Callable[[], object], pid: int) -> Turn:
    def take() -> dict[str, float]:
        before = cpu_seconds_of(pid)
        costs = timed({"cycle": (CYCLES, cycle)})
        return {**costs, "processor": (cpu_seconds_of(pid) - before) / CYCLES}

    return take
