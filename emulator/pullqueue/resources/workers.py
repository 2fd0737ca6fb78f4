"""Operations on workers: the clients, and which tasks they have leased."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Annotated

from msgspec import Meta

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.events import Interface
from pullqueue.observe.clients import IN_PROCESS, Client
from pullqueue.resources.models import NOT_RECORDED
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, Time


class Worker(Model):
    """A client, what it did last, and its leases."""

    client: Annotated[
        str,
        Meta(
            description="E-mail address of its credentials, or its User-Agent; under `pullqueue "
            "exec` program and process id. `not recorded`: of leases that are too old to be "
            "recorded, or came with a snapshot."
        ),
    ]
    address: Annotated[str, Meta(description="Address of its last call; empty if unknown.")]
    interfaces: list[Interface]
    queues: list[str]
    calls: Count
    failed: Annotated[Count, Meta(description="Calls that were refused or failed.")]
    last: Annotated[Time | None, Meta(description="Time of its last call; null if not known.")]
    last_method: str
    leased: Annotated[Count, Meta(description="Tasks that it leased, or renewed, last.")]
    expired: Annotated[
        Count, Meta(description="Tasks that are available because its lease has expired.")
    ]
    longest_seconds: Annotated[
        float | None,
        Meta(description="How long ago it leased, or renewed, the first of those tasks."),
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
        counts = queue.count_leases()
        for client, each in counts.items():
            name = client or IN_PROCESS
            expired[name] += each.expired
            if each.first_usec is not None:
                leased[name] += each.leased
                queues[name].add(queue.name)
                first_usec[name] = min(each.first_usec, first_usec.get(name, each.first_usec))
        missing = queue.fetch_statistics().leased - sum(each.leased for each in counts.values())
        if missing > 0:
            leased[NOT_RECORDED] += missing
            queues[NOT_RECORDED].add(queue.name)
    clients = state.requests.clients.latest()
    names = {client.name for client in clients}
    now_usec = state.emulator.now_usec()
    clients += [
        Client(name, queues=dict.fromkeys(sorted(queues[name])))
        for name in leased
        if name not in names
    ]
    return [
        Worker(
            client=client.name,
            address=client.address,
            interfaces=list(client.interfaces),
            queues=list(client.queues),
            calls=client.calls,
            failed=client.failed,
            last=client.last or None,
            last_method=client.method,
            leased=leased[client.name],
            expired=expired[client.name],
            longest_seconds=(now_usec - first_usec[client.name]) / USEC_PER_SECOND
            if client.name in first_usec
            else None,
        )
        for client in clients
    ]
