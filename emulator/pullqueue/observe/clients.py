"""The clients of a server: which they are, and what they did last."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from pullqueue.engine.events import Interface
from pullqueue.structs import Time

_KEPT = 1_000
"""Clients that are known; those that did nothing for the longest time are dropped first."""
_KEPT_QUEUES = 100

IN_PROCESS: Final = "this process"
"""The name of a client that calls without a server, or that is not known."""


@dataclass
class Client:
    """One client: a service account, or a program by what it calls itself."""

    name: str
    last: Time = ""
    address: str = ""
    """Address of its last call."""
    method: str = ""
    """Its last method."""
    calls: int = 0
    failed: int = 0
    interfaces: dict[Interface, None] = field(default_factory=dict)
    queues: dict[str, None] = field(default_factory=dict)
    """The queues that it called, in the order of the first calls."""


class Clients:
    """The clients of a server. They are known for longer than their requests are."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        """By name, in the order of their last calls."""
        self._lock = threading.Lock()

    def count(
        self,
        name: str,
        *,
        time: Time,
        interface: Interface,
        address: str,
        method: str,
        queue: str,
        failed: bool,
    ) -> None:
        """Count a call of a client."""
        name = name or IN_PROCESS
        with self._lock:
            client = self._clients.pop(name, None) or Client(name)
            self._clients[name] = client
            client.last, client.address, client.method = time, address, method
            client.calls += 1
            client.failed += failed
            client.interfaces[interface] = None
            if queue and len(client.queues) < _KEPT_QUEUES:
                client.queues[queue] = None
            if len(self._clients) > _KEPT:
                del self._clients[next(iter(self._clients))]

    def latest(self) -> list[Client]:
        """Return the clients, the one that called last first."""
        with self._lock:
            return list(reversed(self._clients.values()))

    def clear(self) -> None:
        """Delete all."""
        with self._lock:
            self._clients.clear()
