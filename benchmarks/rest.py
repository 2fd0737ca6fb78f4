"""REST beside an empty Flask view on the same server, beside a hand-made answer, and beside moto.

Servers run in a process of their own; the client is a loop over plain sockets, so that it is not
what is measured.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median

import requests

from benchmarks.measuring import Figure, Options, medians, seconds_of
from benchmarks.moto_peer import moto
from benchmarks.rest_client import HOST, Connection, request_bytes, seconds_per_request
from benchmarks.rest_servers import DEPTH, Address, serving

SUITE = "rest"
QUEUES = "/taskqueue/v1beta2/projects/s~app/taskqueues"
TASK = json.dumps({"queueName": "q", "payloadBase64": base64.b64encode(b"x" * 100).decode()})
LEASE_ONE = "tasks/lease?numTasks=1&leaseSecs=600000"
LEASE_MANY = "tasks/lease?numTasks=1000&leaseSecs=0"

OF_THE_EMPTY_VIEW = 1 / 0.6
"""Time per request, against the empty view's: at least 60 % of its requests per second."""
OF_A_HAND_MADE_ANSWER = 2.0
OF_MOTO = 1 / 4
TURNS = 10
"""In how many turns a round of cycles is measured."""
CYCLES_BEFORE = 5
"""Not measured at the beginning of a turn, when nobody has asked the server for a while."""
LONGEST_ANSWER_MS = 50.0


def measure(options: Options) -> Iterator[Figure]:
    """Measure all of it."""
    with serving() as address:
        yield from _rates(address, options)
        yield from _large_leases(address, options)
        yield from _longest_answers(address, options)
        yield from _cycles(address, options)


def _rates(address: Address, options: Options) -> Iterator[Figure]:
    asked = {
        "insert a task of 100 bytes": request_bytes("POST", f"{QUEUES}/q/tasks", TASK),
        "lease one task": request_bytes("POST", f"{QUEUES}/deep/{LEASE_ONE}"),
    }
    for what, wire in asked.items():
        with Connection(address.emulator) as connection:
            size = len(connection.ask(wire))
        empty = request_bytes("POST", f"/constant/{size}", TASK if "insert" in what else "")
        for connections in (1, 8):

            def rate(port: int, sent: bytes, connections: int = connections) -> Callable[[], float]:
                return lambda: seconds_per_request(
                    port, sent, connections=connections, seconds=options.seconds
                )

            taken = medians(
                {"ours": rate(address.emulator, wire), "empty": rate(address.empty, empty)},
                rounds=options.rounds,
            )
            yield Figure(
                suite=SUITE,
                what=f"{what}, {connections} kept connection{'s' if connections > 1 else ''}",
                value=taken["ours"] * 1e6,
                unit="us/request",
                depth=DEPTH if "lease" in what else None,
                peer="an empty Flask view",
                peer_value=taken["empty"] * 1e6,
                limit=OF_THE_EMPTY_VIEW,
            )


def _large_leases(address: Address, options: Options) -> Iterator[Figure]:
    tasks = [(f"{number:016x}", b"x" * 1024) for number in range(1000)]
    with Connection(address.emulator) as connection:
        for pretty in ("true", "false"):
            path = f"{QUEUES}/large/{LEASE_MANY}&prettyPrint={pretty}"
            request = request_bytes("POST", path)

            def ours(request: bytes = request) -> float:
                return median(seconds_of(lambda: connection.ask(request)) for _ in range(5))

            def by_hand() -> float:
                return median(seconds_of(lambda: hand_made(tasks)) for _ in range(5))

            taken = medians({"ours": ours, "by hand": by_hand}, rounds=options.rounds)
            yield Figure(
                suite=SUITE,
                what=f"lease 1000 tasks of 1 KB, prettyPrint={pretty}",
                value=taken["ours"] * 1e3,
                unit="ms",
                peer="the same answer made by hand, not indented",
                peer_value=taken["by hand"] * 1e3,
                limit=OF_A_HAND_MADE_ANSWER,
            )


def hand_made(tasks: list[tuple[str, bytes]]) -> bytes:
    """Encode and serialise an answer to a lease with the standard library."""
    items = [
        {
            "kind": "taskqueues#task",
            "id": name,
            "queueName": "projects/s~app/taskqueues/large",
            "enqueueTimestamp": "1767225600000000",
            "leaseTimestamp": "1767225600000000",
            "retry_count": 1,
            "payloadBase64": base64.urlsafe_b64encode(payload).decode(),
        }
        for name, payload in tasks
    ]
    return json.dumps({"kind": "taskqueue#tasks", "items": items}).encode()


def _longest_answers(address: Address, options: Options) -> Iterator[Figure]:
    tasks = f"{QUEUES}/deep/tasks"
    count = 100 * options.rounds
    with Connection(address.emulator) as connection:
        held = json.loads(
            connection.ask(request_bytes("POST", f"{tasks}/lease?numTasks=1000&leaseSecs=600"))
        )["items"]
        name = held[0]["id"]
        patch = json.dumps({"queueName": "deep"})
        calls: dict[str, Callable[[int], bytes]] = {
            "queue": lambda _: request_bytes("GET", f"{QUEUES}/deep?getStats=true"),
            "insert": lambda _: request_bytes("POST", tasks, TASK.replace('"q"', '"deep"')),
            "list": lambda _: request_bytes("GET", tasks),
            "get": lambda _: request_bytes("GET", f"{tasks}/{name}"),
            "lease 1": lambda _: request_bytes("POST", f"{QUEUES}/deep/{LEASE_ONE}"),
            "lease 100": lambda _: request_bytes(
                "POST", f"{tasks}/lease?numTasks=100&leaseSecs=600"
            ),
            "patch": lambda _: request_bytes("PATCH", f"{tasks}/{name}?newLeaseSeconds=600", patch),
            "delete": lambda number: request_bytes("DELETE", f"{tasks}/{held[1 + number]['id']}"),
        }
        for what, request in calls.items():
            sent = [request(number) for number in range(min(count, len(held) - 1))]
            taken = [seconds_of(partial(connection.ask, each)) for each in sent]
            yield Figure(
                suite=SUITE,
                what=f"longest of {len(taken)} answers: {what}",
                value=max(taken) * 1e3,
                unit="ms",
                depth=DEPTH,
                limit=LONGEST_ANSWER_MS,
            )


def _cycles(address: Address, options: Options) -> Iterator[Figure]:
    sessions = [requests.Session() for _ in range(3)]
    ours, empty, theirs = sessions
    with moto() as sqs, ExitStack() as stack:
        # To search the environment for proxies anew takes a client longer than it waits for us.
        for session in sessions:
            stack.enter_context(session).trust_env = False
        root = f"http://{HOST}:{address.emulator}{QUEUES}/cycle/tasks"
        payload = base64.urlsafe_b64encode(b"x" * 1024).decode()

        def cycle() -> None:
            ours.post(root, json={"queueName": "cycle", "payloadBase64": payload}).json()
            leased = ours.post(f"{root}/lease?numTasks=1&leaseSecs=600").json()
            ours.delete(f"{root}/{leased['items'][0]['id']}")

        def empty_cycle() -> None:
            for _ in range(3):
                empty.post(f"http://{HOST}:{address.empty}/constant/400", data=TASK)

        def their_cycle() -> None:
            sqs(theirs, "SendMessage", MessageBody="x" * 1024)
            (message,) = sqs(theirs, "ReceiveMessage", VisibilityTimeout=600)["Messages"]
            sqs(theirs, "DeleteMessage", ReceiptHandle=message["ReceiptHandle"])

        cycles = {
            "insert, lease and delete one task of 1 KB with requests": cycle,
            "three requests of an empty Flask view with requests": empty_cycle,
            "moto": their_cycle,
        }
        # In many short turns: a machine's speed may change within a second.
        turn = options.seconds / TURNS
        taken = medians(
            {what: partial(_seconds_per_cycle, work, turn) for what, work in cycles.items()},
            rounds=options.rounds * TURNS,
        )
    of_moto = taken.pop("moto")
    # The second says what is left to us: how much of the limit the client and Flask take alone.
    for (what, seconds), limit in zip(taken.items(), (OF_MOTO, None), strict=True):
        yield Figure(
            suite=SUITE,
            what=what,
            value=seconds * 1e3,
            unit="ms/cycle",
            peer="moto_server: send, receive and delete one message (SQS)",
            peer_value=of_moto * 1e3,
            limit=limit,
        )


def _seconds_per_cycle(work: Callable[[], None], seconds: float) -> float:
    for _ in range(CYCLES_BEFORE):
        work()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        work()
        count += 1
    return (time.perf_counter() - begin) / count
