"""Every limit at its edge: one less, the limit itself, one more.

First those of `Limits`, each lowered where its own number would be slow to reach; then those that
interfaces check, or pass on, through each interface.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from cloudtasks_api import LOCATION, ApiRefused, RestApi
from interfaces import PUSH, STORAGE_LIMIT_BYTES, Interface, PushInterface
from tables import each_row
from werkzeug.test import Client

from pullqueue import (
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    PullQueueError,
    Queue,
)
from pullqueue.clock import movable_clock
from pullqueue.cloudtasks.versions import V2, V2BETA3
from pullqueue.config.model import QueueSettings, Rate
from pullqueue.engine import verbs
from pullqueue.limits import BUCKET_SIZE, CONCURRENT_REQUESTS, RATE_PER_SECOND
from pullqueue.server.app import create_app

QUEUES = """
queue:
- {name: pull, mode: pull}
- {name: push, rate: 5/s}
- name: once
  mode: pull
  retry_parameters: {task_retry_limit: 1}
"""
USEC = 1_000_000
DAY_USEC = 86_400 * USEC
Permits = Callable[[Emulator, int], bool]
"""Returns whether an emulator permits so much."""

EDGES: dict[str, tuple[Permits, int, int, int]] = {}
"""By limit: what is permitted, the number that is set, the largest that is permitted then, and one
more of its unit."""


def edge(limit: int, *, most: int | None = None, unit: int = 1) -> Callable[[Permits], Permits]:
    """Add the edge of the limit with the name of a function."""

    def add(permits: Permits) -> Permits:
        EDGES[permits.__name__] = permits, limit, limit if most is None else most, unit
        return permits

    return add


def accepts(call: Callable[[], object]) -> bool:
    try:
        call()
    except (PullQueueError, ApiRefused):
        return False
    return True


def rest(emulator: Emulator, verb: str, path: str, **body: Any) -> int:
    """Return the status of a request to the Task Queue API."""
    url = f"/taskqueue/v1beta2/projects/app/taskqueues/{path}"
    return Client(create_app(emulator)).open(url, method=verb, json=body or None).status_code


def created(emulator: Emulator, queue: str = "push", **task: Any) -> bool:
    """Return whether Cloud Tasks creates a task."""
    call = RestApi(Client(create_app(emulator)), version=V2)
    return accepts(lambda: call("CreateTask", parent=f"{LOCATION}/queues/{queue}", task=task))


def name_is_free_after(emulator: Emulator, queue: Queue, usec: int) -> bool:
    """Return whether the name of a deleted task can be used again after a time."""
    queue.add(name="a")
    queue.delete_tasks("a")
    movable_clock(emulator).advance(usec / USEC)
    return accepts(lambda: queue.add(name="a"))


@edge(60)
def lease_seconds(emulator: Emulator, seconds: int) -> bool:
    queue = emulator.queue("pull")
    queue.add()
    (task,) = queue.lease_tasks(1, 1)
    extends = accepts(lambda: queue.modify_task_lease(task, seconds))
    leases = accepts(lambda: queue.lease_tasks(seconds, 1))
    assert leases == extends
    return leases


@edge(20)
def lease_payload_bytes(emulator: Emulator, size: int) -> bool:
    queue = emulator.queue("pull")
    queue.add_many([NewTask(b"x" * 5), NewTask(b"x" * (size - 5))])
    return len(queue.lease_tasks(60, 2)) == 2


@edge(20)
def rest_lease_payload_bytes(emulator: Emulator, size: int) -> bool:
    emulator.queue("pull").add_many([NewTask(b"x" * 5), NewTask(b"x" * (size - 5))])
    rest(emulator, "POST", "pull/tasks/lease?leaseSecs=60&numTasks=2")
    return emulator.queue("pull").fetch_statistics().leased == 2


@edge(3)
def leases_per_second(emulator: Emulator, calls: int) -> bool:
    queue = emulator.queue("pull")
    queue.add_many([NewTask()] * calls)
    return not any(verbs.lease(queue, 60, 1).rate_limited for _ in range(calls))


@edge(100)
def push_task_bytes(emulator: Emulator, size: int) -> bool:
    """URL, headers and body count together."""
    request = HttpRequest("/a", headers=(("name", "värde"),))
    body = b"x" * (size - len("/aname") - len("värde".encode()))
    return accepts(lambda: emulator.queue("push").add(body, request=request))


@edge(1000)
def cloud_tasks_task_bytes(emulator: Emulator, size: int) -> bool:
    """The whole message as production stores it, whose size a refusal names.

    It has no headers that are not sent.
    """
    ignored = {"X-CloudTasks-A": "x" * 1000}

    def create(length: int) -> object:
        body = b64encode(b"x" * length).decode()
        task = {"httpRequest": URL | {"body": body, "headers": ignored}}
        return call("CreateTask", parent=f"{LOCATION}/queues/push", task=task)

    call = RestApi(Client(create_app(emulator)), version=V2)
    with pytest.raises(ApiRefused, match=r"the task has \d+ bytes") as refused:
        create(2000)
    stored = int(refused.value.advice.split()[3])
    return accepts(lambda: create(2000 - (stored - size)))


@edge(100, most=99)
def http_headers_bytes(emulator: Emulator, size: int) -> bool:
    """They have less, as documented."""
    headers = {"name": "x" * (size - len("name"))}
    return created(emulator, httpRequest=URL | {"headers": headers})


@edge(3)
def tasks_per_batch_delete(emulator: Emulator, count: int) -> bool:
    call = RestApi(Client(create_app(emulator)), version=V2BETA3)
    parent = f"{LOCATION}/queues/pull"
    names = [f"{parent}/tasks/a{number}" for number in range(count)]
    return accepts(lambda: call("BatchDeleteTasks", parent=parent, names=names))


@edge(60, most=60 * USEC)
def eta_seconds_ahead(emulator: Emulator, usec: int) -> bool:
    eta_usec = emulator.now_usec() + usec
    return accepts(lambda: emulator.queue("pull").add_many([NewTask(eta_usec=eta_usec)]))


@edge(5)
def tag_characters(emulator: Emulator, length: int) -> bool:
    """Characters, not bytes; the same when tasks are leased."""
    queue = emulator.queue("pull")
    adds = accepts(lambda: queue.add(tag="ü" * length))
    assert adds == accepts(lambda: queue.lease_tasks_by_tag(60, 1, "ü" * length))
    return adds


@edge(60, most=60 * USEC, unit=-1)
def tombstone_seconds(emulator: Emulator, usec: int) -> bool:
    return name_is_free_after(emulator, emulator.queue("pull"), usec)


def made(emulator: Emulator) -> Queue:
    """Return a pull queue that was created at run time."""
    return emulator.create_queue(QueueSettings(name="made", mode=emulator.queue("pull").mode))


@edge(60, most=60 * USEC - 1)
def created_queue_task_seconds(emulator: Emulator, usec: int) -> bool:
    """At that age a task is gone."""
    queue = made(emulator)
    queue.add()
    movable_clock(emulator).advance(usec / USEC)
    return queue.fetch_statistics().tasks == 1


@edge(60, most=60 * USEC, unit=-1)
def created_queue_tombstone_seconds(emulator: Emulator, usec: int) -> bool:
    return name_is_free_after(emulator, made(emulator), usec)


@edge(60, most=60 * USEC, unit=-1)
def created_v2_queue_tombstone_seconds(emulator: Emulator, usec: int) -> bool:
    call = RestApi(Client(create_app(emulator)), version=V2)
    call("CreateQueue", parent=LOCATION, queue={"name": f"{LOCATION}/queues/made"})
    return name_is_free_after(emulator, emulator.queue("made"), usec)


@edge(60, most=60 * USEC, unit=-1)
def deleted_queue_seconds(emulator: Emulator, usec: int) -> bool:
    made(emulator)
    emulator.delete_queue("made")
    movable_clock(emulator).advance(usec / USEC)
    return accepts(lambda: made(emulator))


@edge(1000)
def rest_body_bytes(emulator: Emulator, size: int) -> bool:
    body = b'{"queueName": "pull", "payloadBase64": ""}'.ljust(size)
    url = "/taskqueue/v1beta2/projects/app/taskqueues/pull/tasks"
    response = Client(create_app(emulator)).post(url, data=body)
    assert response.status_code in (200, 413)
    return response.status_code == 200


@edge(3)
def tasks_in_memory(emulator: Emulator, count: int) -> bool:
    """Of all queues together, and a batch is stored whole or not at all."""
    emulator.queue("push").add()
    added = accepts(lambda: emulator.queue("pull").add_many([NewTask()] * (count - 1)))
    assert emulator.queue("pull").fetch_statistics().tasks == (count - 1 if added else 0)
    return added


def exhausted(emulator: Emulator, *payloads: bytes) -> int:
    """Exhaust tasks and return how many of them are kept."""
    queue = emulator.queue("once")
    queue.add_many([NewTask(payload) for payload in payloads])
    queue.lease_tasks(1, len(payloads))
    movable_clock(emulator).advance(1)
    return len(queue.exhausted)


@edge(3)
def events_kept(emulator: Emulator, count: int) -> bool:
    queue = emulator.queue("pull")
    for _ in range(count):
        queue.add()
    return len(queue.events()) == count


def adds(emulator: Emulator, queue: str, payload: bytes = b"", **task: Any) -> bool:
    """Return whether a queue accepts a task."""
    return accepts(lambda: emulator.queue(queue).add(payload, **task))


def pushes(emulator: Emulator, url: str = "/", **request: Any) -> bool:
    """Return whether the push queue accepts a request."""
    return adds(emulator, "push", request=HttpRequest(url, **request))


URL = {"url": "http://localhost/"}
BRIEF: dict[str, tuple[int, int, Permits]] = {
    "tasks_per_add": (
        3,
        1,
        lambda e, n: accepts(lambda: e.queue("pull").add_many([NewTask()] * n)),
    ),
    "tasks_per_lease": (3, 1, lambda e, n: accepts(lambda: e.queue("pull").lease_tasks(60, n))),
    "task_bytes": (10, 1, lambda e, size: adds(e, "pull", b"x" * size)),
    "task_name_characters": (5, 1, lambda e, length: adds(e, "pull", name="n" * length)),
    "url_characters": (20, 1, lambda e, length: pushes(e, "/".ljust(length, "u"))),
    "min_deadline_seconds": (15, -1, lambda e, s: pushes(e, deadline_seconds=s)),
    "max_deadline_seconds": (3600, 1, lambda e, s: pushes(e, deadline_seconds=s)),
    "http_deadline_seconds": (
        *(1800, 1),
        lambda e, s: created(e, httpRequest=URL, dispatchDeadline=f"{s}s"),
    ),
    "exhausted_kept": (3, 1, lambda e, n: exhausted(e, *[b""] * n) == n),
    "exhausted_payload_bytes": (20, 1, lambda e, n: exhausted(e, b"x" * 5, b"x" * (n - 5)) == 2),
}
"""By limit: the number that is set, its unit, and what is permitted."""
EDGES |= {name: (permits, limit, limit, unit) for name, (limit, unit, permits) in BRIEF.items()}


@each_row("name", Limits._fields)
def test_a_limit_permits_what_is_at_it_and_nothing_past_it(name: str) -> None:
    permits, limit, most, unit = EDGES[name]
    permitted = [
        permits(
            Emulator.from_text(
                QUEUES, clock=ManualClock(), limits=Limits(**{name: limit}), project="app"
            ),
            most + step * unit,
        )
        for step in (-1, 0, 1)
    ]

    assert permitted == [True, True, False]


Uses = Callable[[Interface, int], object]
"""Uses an interface with so much of something."""


def add_eta(interface: Interface, usec: int) -> None:
    now = interface.emulator.clock.now()
    interface.add(b"", eta=now + timedelta(microseconds=usec))


def modify(interface: Interface, seconds: int) -> None:
    interface.add(b"")
    (held,) = interface.lease(60, 1)
    interface.modify(held, seconds)


def store(interface: Interface, size: int) -> None:
    """Store so many bytes in two queues; the first has a payload and a name of half of them."""
    half = size // 2
    interface.add(b"x" * (half - 1), name="a")
    interface.add(b"x" * (size - half - 1), name="b", queue="limited")


WEEK = 604_800
INTERFACE_EDGES: dict[str, tuple[Uses, tuple[int, ...], tuple[int, ...]]] = {
    "name": (lambda i, length: i.add(b"", name="n" * length), (1, 499, 500), (501,)),
    "tag": (lambda i, length: i.add(b"", tag="ü" * length), (1, 499, 500), (501,)),
    "payload": (lambda i, size: i.add(b"x" * size), (0, 2047, 2048), (2049,)),
    "eta": (add_eta, (0, 30 * DAY_USEC - 1, 30 * DAY_USEC), (30 * DAY_USEC + 1,)),
    "tasks": (lambda i, count: i.lease(60, count), (1, 999, 1000), (-1, 1001)),
    "lease": (lambda i, seconds: i.lease(seconds, 1), (0, 1, WEEK - 1, WEEK), (-1, WEEK + 1)),
    "extension": (modify, (0, 1, WEEK - 1, WEEK), (-1, WEEK + 1)),
    "storage": (store, (STORAGE_LIMIT_BYTES - 1, STORAGE_LIMIT_BYTES), (STORAGE_LIMIT_BYTES + 1,)),
}
"""What is used, how much is permitted, and how much is not."""


@each_row("name", INTERFACE_EDGES)
def test_each_interface_has_the_limits_of_the_engine(interface: Interface, name: str) -> None:
    use, permitted, refused = INTERFACE_EDGES[name]
    for size in permitted:
        interface.reset()
        use(interface, size)
    interface.reset()
    for size in refused:
        with interface.refuses(OverQuotaError if name == "storage" else ValueError):
            use(interface, size)


def test_push_tasks_have_the_limits_of_pull_tasks(push: PushInterface) -> None:
    """Of the eta, and of all that is stored; nothing is stored of what is refused."""
    push.add(b"x", queue=PUSH, name="a")
    beside_payload = push.emulator.store.count_bytes() - 1
    for over in (-1, 0, 1):
        push.reset()
        payload = b"x" * (STORAGE_LIMIT_BYTES - beside_payload + over)
        eta = push.emulator.clock.now() + timedelta(microseconds=30 * DAY_USEC + over)

        with push.refuses(OverQuotaError) if over > 0 else nullcontext():
            push.add(payload, queue=PUSH, name="a")
        assert push.count(queue=PUSH) == (over <= 0)
        push.reset()
        with push.refuses(ValueError) if over > 0 else nullcontext():
            push.add(b"", queue=PUSH, eta=eta)
        assert push.count(queue=PUSH) == (over <= 0)


SETTINGS: dict[str, tuple[Callable[[float], QueueSettings], tuple[float, ...], tuple[float, ...]]]
SETTINGS = {
    "rate": (
        lambda number: QueueSettings(name="q", rate=Rate(count=number, unit="s")),
        (0, 499, RATE_PER_SECOND),
        (-1, 501),
    ),
    "bucket_size": (
        lambda number: QueueSettings(name="q", bucket_size=int(number)),
        (0, 499, BUCKET_SIZE),
        (-1, 501),
    ),
    "max_concurrent_requests": (
        lambda number: QueueSettings(name="q", max_concurrent_requests=int(number)),
        (1, 4999, CONCURRENT_REQUESTS),
        (-1, 5001),
    ),
    "name": (lambda length: QueueSettings(name="q" * int(length)), (1, 99, 100), (0, 101)),
}


@each_row("name", SETTINGS)
def test_a_queue_made_at_run_time_has_the_limits_of_queue_yaml(name: str) -> None:
    make, permitted, refused = SETTINGS[name]
    for number in permitted:
        Emulator.from_text(QUEUES).create_queue(make(number))
    for number in refused:
        with pytest.raises(PullQueueError):
            Emulator.from_text(QUEUES).create_queue(make(number))
