"""A lease over Cloud Tasks' gRPC beside the same lease over v1beta2, from the same server.

Both clients send bytes made beforehand and read bytes, so that they are not what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import grpc
from google.protobuf.duration_pb2 import Duration

from benchmarks.measuring import Figure, Options, medians, seconds_of
from benchmarks.rest import LEASE_MANY, LEASE_ONE, QUEUES
from benchmarks.rest_client import HOST, Connection, request_bytes
from benchmarks.rest_servers import serving
from pullqueue.cloudtasks.messages import FULL, message_class

SUITE = "cloudtasks"
METHOD = "/google.cloud.tasks.v2beta2.CloudTasks/LeaseTasks"
CALLS = 200


def measure(options: Options) -> Iterator[Figure]:
    """Measure leases of one task and of a thousand."""
    with (
        serving() as address,
        Connection(address.emulator) as connection,
        grpc.insecure_channel(
            f"{HOST}:{address.grpc}", options=[("grpc.max_receive_message_length", -1)]
        ) as channel,
    ):
        lease = channel.unary_unary(METHOD)
        for what, queue, path, tasks, seconds in (
            ("lease one task", "deep", LEASE_ONE, 1, 600_000),
            ("lease 1000 tasks of 1 KB", "large", LEASE_MANY, 1000, 0),
        ):
            wire = request_bytes("POST", f"{QUEUES}/{queue}/{path}")
            message = _request(queue, tasks, seconds)

            def ours(message: bytes = message, count: int = CALLS // min(tasks, 20)) -> float:
                return median(seconds_of(lambda: lease(message)) for _ in range(count))

            def theirs(wire: bytes = wire, count: int = CALLS // min(tasks, 20)) -> float:
                return median(seconds_of(lambda: connection.ask(wire)) for _ in range(count))

            ours(), theirs()
            taken = medians({"ours": ours, "theirs": theirs}, rounds=options.rounds)
            yield Figure(
                suite=SUITE,
                what=what,
                value=taken["ours"] * 1e6,
                unit="us/call",
                peer="the same over v1beta2",
                peer_value=taken["theirs"] * 1e6,
            )


def _request(queue: str, tasks: int, seconds: int) -> bytes:
    message = message_class("LeaseTasksRequest")(
        parent=f"projects/app/locations/us-central1/queues/{queue}",
        max_tasks=tasks,
        lease_duration=Duration(seconds=seconds),
        response_view=FULL,
    )
    return bytes(message.SerializeToString())
