"""Operations on workers: the clients, and which tasks they have leased."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from msgspec import Meta

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.control.clients import Client
from pullqueue.control.models import IN_PROCESS, Count, Model, Time
from pullqueue.control.operations import operation
from pullqueue.control.state import ServerState
from pullqueue.engine.events import Event, Interface
from pullqueue.engine.queue import Queue, walk
from pullqueue.tasks import Task, TaskState

_PAGE = 1_000
_LOOKED_AT = 20_000
"""Tasks of a queue in each state that are looked at: those whose leases end first."""


class Worker(Model):
    """A client, what it did last, and its leases."""

    client: Annotated[
        str,
        Meta(
            description="E-mail address of its credentials, or its User-Agent; under `pullqueue "
            "exec` program and process id."
        ),
    ]
    address: Annotated[str, Meta(description="Address of its last call; empty if unknown.")]
    interfaces: list[Interface]
    queues: list[str]
    calls: Count
    failed: Annotated[Count, Meta(description="Calls that were refused or failed.")]
    last: Annotated[Time | None, Meta(description="Time of its last call; null if not known.")]
    last_method: str
    leased: Annotated[Count, Meta(description="Tasks that it has leased now.")]
    expired: Annotated[
        Count, Meta(description="Tasks that are available because its lease has expired.")
    ]
    longest_seconds: Annotated[
        float | None, Meta(description="How long it has had the task that it leased first.")
    ]


@operation("GET", "/workers", key="workers")
def list_workers(state: ServerState) -> list[Worker]:
    """List the clients of the queues with their leases; the one that called last is first."""
    leased, expired = Counter[str](), Counter[str]()
    first_usec: dict[str, int] = {}
    queues: defaultdict[str, set[str]] = defaultdict(set)
    for queue in state.emulator.queues:
        if queue.is_push:
            continue
        tasks = islice(walk(queue, page=_PAGE, state=TaskState.LEASED), _LOOKED_AT)
        for lease in queue.last_leases([task.name for task in tasks]).values():
            name = _client_of(lease)
            leased[name] += 1
            queues[name].add(queue.name)
            first_usec[name] = min(lease.usec, first_usec.get(name, lease.usec))
        etas = {task.name: task.eta_usec for task in _tried(queue)}
        for name, lease in queue.last_leases(etas).items():
            # A task that was released became available before the end of its lease.
            if lease.until_usec is not None and lease.until_usec <= etas[name]:
                expired[_client_of(lease)] += 1
    clients = {client.name: client for client in state.requests.clients.latest()}
    unknown = [name for name in leased if name not in clients]
    now_usec = state.emulator.now_usec()
    return [
        _worker(
            clients.get(name) or Client(name, "", queues=dict.fromkeys(sorted(queues[name]))),
            leased=leased[name],
            expired=expired[name],
            seconds=(now_usec - first_usec[name]) / USEC_PER_SECOND if name in first_usec else None,
        )
        for name in [*clients, *unknown]
    ]


def _tried(queue: Queue) -> Iterator[Task]:
    """Yield the available tasks that were leased before."""
    available = islice(walk(queue, page=_PAGE, state=TaskState.AVAILABLE), _LOOKED_AT)
    return (task for task in available if task.retry_count)


def _client_of(lease: Event) -> str:
    return (lease.origin.client if lease.origin is not None else "") or IN_PROCESS


def _worker(client: Client, *, leased: int, expired: int, seconds: float | None) -> Worker:
    return Worker(
        client=client.name,
        address=client.address,
        interfaces=list(client.interfaces),
        queues=list(client.queues),
        calls=client.calls,
        failed=client.failed,
        last=client.last or None,
        last_method=client.method,
        leased=leased,
        expired=expired,
        longest_seconds=seconds,
    )
