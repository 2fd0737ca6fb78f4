"""Scenes: a server that really delivers, on a manual clock, and what was done to its queues."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from push_app import PushApp, push_app, until
from stores import store_url
from werkzeug.test import Client

from pullqueue import Emulator, HttpRequest, Limits, ManualClock, NewTask, PullQueueError, Task
from pullqueue.api.handlers import EMPTY_HEADER
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.verbs import insert
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources.clock import ClockMove, MovedClock, move_clock
from pullqueue.resources.operations import parse_body
from pullqueue.resources.service import set_fault
from pullqueue.runtime.delivery import Delivery
from pullqueue.runtime.fault_registry import NewFault
from pullqueue.runtime.sender_threads import SenderThreads
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app
from pullqueue.stores import open_store

Step: TypeAlias = tuple[Any, ...]
"""The name of a method, and its arguments."""

KINDS = {
    "mail": HttpRequest("/mail"),
    "cmyk": HttpRequest("/status/500/cmyk"),
    "busy": HttpRequest("/status/503/busy"),
    "odd": HttpRequest("/fails/1/odd"),
    "hangs": HttpRequest("/slow"),
    "dead": HttpRequest("/mail", target="dead"),
    "away": HttpRequest("https://api.example.com/mail"),
}
"""What a push task is sent to: one that succeeds, fails, is held, or goes nowhere."""
_HELD_SECONDS = 0.3
"""How long a delivery waits for an attempt that is held."""
LEASE = "/taskqueue/v1beta2/projects/p/taskqueues/{}/tasks/lease"


def steps_of(script: str) -> list[Step]:
    """Return the steps of a text; a fault is one of attempts, unless its kind is named."""
    found: list[Step] = []
    for name, *words in map(str.split, script.split("; ")):
        pairs = [word.rpartition("=") for word in words]
        values: list[Any] = [int(value) if value.isdigit() else value for _, _, value in pairs]
        fields = {key: value for (key, _, _), value in zip(pairs, values, strict=True) if key}
        attempt = {} if "kind" in fields else {"kind": "fail", "call": "attempt"}
        found.append((name, *([attempt | fields] if fields else values)))
    return found


@dataclass
class Scene:
    """A server without sockets of its own, the app to which it sends, and its clock."""

    state: ServerState
    app: PushApp
    leased: list[Task] = field(default_factory=list)
    """What workers have leased and not deleted."""
    limited: list[int] = field(default_factory=list)
    """When a lease of a worker got nothing because of the lease rate."""

    @property
    def clock(self) -> ManualClock:
        clock = self.state.emulator.clock
        assert isinstance(clock, ManualClock)
        return clock

    @property
    def delivery(self) -> Delivery:
        assert self.state.delivery is not None
        return self.state.delivery

    def queue(self, name: str) -> Queue:
        return self.state.emulator.queue(name)

    def play(self, steps: Sequence[Step]) -> None:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
            self.settle()

    # -- what people, apps and workers do --------------------------------------------------------

    def add(
        self, queue: str, kind: str, count: int, delay: float = 0, tag: str | None = None
    ) -> None:
        request = KINDS[kind] if self.queue(queue).is_push else None
        eta = self.clock.now() + timedelta(seconds=delay)
        tasks = [NewTask(eta=eta, request=request, tag=tag if request is None else None)] * count
        for start in range(0, count, 100):
            insert(self.queue(queue), tasks[start : start + 100], absolute_urls=True)

    def pause(self, queue: str) -> None:
        self.queue(queue).pause()

    def resume(self, queue: str) -> None:
        self.queue(queue).resume()
        self.state.wake()

    def fault(self, fields: dict[str, object]) -> None:
        set_fault(self.state, parse_body(fields, NewFault))

    def clear_faults(self) -> None:
        self.state.faults.clear()

    def jump(self, seconds: float) -> None:
        """Move the clock, and let nothing be delivered meanwhile."""
        self.clock.advance(seconds)
        self.state.wake()

    def deliver(self, seconds: float) -> MovedClock:
        """Move the clock, and deliver meanwhile, as far as no attempt is held."""
        return move_clock(
            self.state, ClockMove(advance=seconds, deliver=True, seconds=_HELD_SECONDS)
        )

    def lease(self, queue: str, count: int, seconds: int, tag: str | None = None) -> None:
        """Lease as a worker does, over REST."""
        query: dict[str, int | str] = {"numTasks": count, "leaseSecs": seconds}
        query |= {} if tag is None else {"groupByTag": "true", "tag": tag}
        client = Client(create_app(self.state.emulator, state=self.state))
        response = client.post(LEASE.format(queue), query_string=query)
        empty = [each.number for each in self.state.faults.list() if each.kind == "empty_leases"]
        is_by_fault = self.state.requests.latest()[0].fault in empty
        if EMPTY_HEADER in response.headers and not is_by_fault:
            self.limited.append(self.clock.now_usec())
        found = response.get_json() or {}
        names = [item["id"] for item in found.get("items", ())]
        with suppress(PullQueueError):
            self.leased += [self.queue(queue).get_task(name) for name in names]

    def burst(self, queue: str, calls: int) -> None:
        """Lease one task in each of many calls."""
        for _ in range(calls):
            self.lease(queue, 1, 300)

    def look(self, queue: str, count: int) -> None:
        """Lease as an operator does, by a command."""
        client = Client(create_app(self.state.emulator, state=self.state))
        client.post(f"/_emulator/queues/{queue}/lease", json={"max_tasks": count})

    def remove(self, queue: str, count: int) -> None:
        """Delete the first tasks as an operator does, by a command."""
        client = Client(create_app(self.state.emulator, state=self.state))
        names = [task.name for task in self.queue(queue).list_tasks(count)]
        client.post(f"/_emulator/queues/{queue}/change", json={"action": "delete", "tasks": names})

    def done(self) -> None:
        """Delete what is leased, as workers do."""
        for task in self.leased:
            self.queue(task.queue_name).delete_tasks(task)
        self.leased.clear()

    # -- what is so ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until nothing may start, and no attempt runs but those that the app holds."""
        delivery = self.delivery

        def is_settled() -> bool:
            before, looks = self._progress(), delivery._looks_begun
            if delivery.settle(0.05):
                return True
            until(lambda: delivery._looks_ended > looks + 1)
            counts = delivery.dispatcher.counts.total()
            return before == self._progress() and counts == self.app.running.total()

        until(is_settled)

    def _progress(self) -> tuple[int, int, int]:
        events = sum(len(queue.events()) for queue in self.state.emulator.queues)
        return events, self.app.running.total(), self.delivery.dispatcher.counts.total()

    def recent(self, name: str, *kinds: EventKind) -> list[Event]:
        """Return the events of some kinds in the last minute, each as often as it counts."""
        since_usec = self.clock.now_usec() - 60_000_000
        found = [each for each in self.queue(name).events() if each.usec > since_usec]
        return [each for each in found if each.kind in kinds for _ in range(each.attempts)]

    def running(self, name: str) -> set[str]:
        """Return the names of the tasks whose attempts are under way, by their history."""
        last = {each.task_name: each.kind for each in self.queue(name).events()}
        return {task for task, kind in last.items() if kind is EventKind.ATTEMPT_STARTED}

    def tasks(self, name: str) -> list[Task]:
        return self.queue(name).list_tasks(10_000)

    def due(self, name: str) -> list[Task]:
        """Return the tasks that wait although their time has come, the first of them first."""
        now_usec, running = self.clock.now_usec(), self.running(name)
        return [
            task
            for task in self.tasks(name)
            if task.eta_usec <= now_usec and task.name not in running
        ]

    def waiting(self, name: str) -> list[Task]:
        """Return the tasks whose time has not come, those that run left out."""
        now_usec, running = self.clock.now_usec(), self.running(name)
        return [
            task
            for task in self.tasks(name)
            if task.eta_usec > now_usec and task.name not in running
        ]

    def attempted_since(self, name: str, usec: int) -> set[str]:
        """Return the names of the tasks of which attempts have started since a time."""
        return {
            each.task_name
            for each in self.queue(name).events()
            if each.kind is EventKind.ATTEMPT_STARTED and each.usec >= usec
        }


@contextmanager
def dead_port() -> Iterator[int]:
    """Reserve a port at which nobody listens."""
    with closing(socket.socket()) as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@contextmanager
def scene(config: str, *, threads: int = 64, store: str = "memory") -> Iterator[Scene]:
    """Begin a scene with a store of a kind; what is held is released at its end."""
    app = PushApp()
    with (
        push_app(app),
        dead_port() as port,
        store_url(store) as url,
        closing(
            Emulator.from_text(
                config,
                clock=ManualClock(),
                limits=Limits(leases_per_second=PRODUCTION_LEASES_PER_SECOND),
                store=open_store(url),
            )
        ) as emulator,
    ):
        addresses = PushAddresses([app.url, f"dead=http://127.0.0.1:{port}"])
        state = ServerState(emulator, push_to=addresses, senders=SenderThreads(threads))
        begun = Scene(state, app)
        begun.delivery.start()
        try:
            yield begun
        finally:
            app.released.set()
            state.stop()
