"""Operations that show the server at a glance: its state, its settings, what happens per minute."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import UNSET

import pullqueue
from pullqueue.clock import ManualClock, from_usec
from pullqueue.engine.events import MINUTE_USEC, EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import QueueStatistics
from pullqueue.observe.users import User
from pullqueue.resources.clock import ClockResource, get_clock
from pullqueue.resources.operations import operation
from pullqueue.resources.queues import collect_statistics, list_shown_queues
from pullqueue.runtime.fault_registry import FaultResource
from pullqueue.runtime.situation import why_kept
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Positive, Time, about

FLOW_KINDS: Final[Mapping[str, Sequence[EventKind]]] = {
    "added": (EventKind.ADDED,),
    "leased": (EventKind.LEASED, EventKind.ATTEMPT_STARTED),
    "deleted": (EventKind.DELETED, EventKind.PURGED, EventKind.ATTEMPT_SUCCEEDED),
    "delivered": (EventKind.ATTEMPT_SUCCEEDED,),
    "failed": (EventKind.ATTEMPT_FAILED,),
    "exhausted": (EventKind.EXHAUSTED,),
}
"""The events that each number of a minute counts."""
_MINUTES = 24 * 60
"""Minutes of a queue that are returned at most."""


class PushSummary(Model):
    """How push tasks are delivered."""

    addresses: Annotated[list[str], about("Where push tasks are sent; empty: they are kept.")]
    tasks: Annotated[Count, about("Tasks of all push queues.")]
    kept: Annotated[
        dict[str, str],
        about("Push queues with tasks that are not delivered, and how to deliver them."),
    ]


class Summary(Model):
    """What makes the server behave differently from an idle one with a running clock."""

    clock: ClockResource
    faults: Annotated[list[FaultResource], about("Faults that can still trigger.")]
    paused: Annotated[list[str], about("Queues that are paused.")]
    exhausted: Annotated[
        dict[str, Count], about("Number of exhausted tasks of the queues that have any.")
    ]
    unlisted: Annotated[
        dict[str, Count],
        about("Number of tasks of queues that the store has and queue.yaml does not."),
    ]
    push: Annotated[
        PushSummary | None, about("Delivery of push tasks; null if there is no push queue.")
    ]


class ServerInfo(Model):
    """Addresses, store and settings of the server."""

    url: Annotated[str, about("Empty where another program serves the app.")]
    grpc: Annotated[str | None, about("HOST:PORT of Cloud Tasks over gRPC.")]
    store: Annotated[str, about("memory, or the URL of the store, without password.")]
    auth: Annotated[str, about("none, or acl: callers need a token.")]
    project: Annotated[str | None, about("The only project that is accepted; null if any is.")]
    file: str
    profile: Annotated[str | None, about("Rules that the file must follow.")]
    manual_clock: bool
    push_to: Annotated[list[str], about("Where push tasks are sent.")]
    cron_jobs: Annotated[Count, about("Jobs of cron.yaml, which `/cron` lists.")]
    services: Annotated[list[str], about("Other services of App Engine that are answered here.")]
    data: Annotated[str | None, about("Folder of datastore and blobs; null: they are in memory.")]
    users: Annotated[list[User], about("Users of the app who are signed in.")]
    started: Annotated[Time, about("Time of the start, by the machine's clock.")]
    uptime_seconds: float
    version: str
    python: str


class FlowMinute(Model):
    """What happened to the tasks of a queue in one minute, as numbers of tasks."""

    time: Annotated[Time, about("When the minute began, by the emulator's clock.")]
    added: Count
    leased: Annotated[Count, about("Tasks leased, or attempts started.")]
    deleted: Annotated[Count, about("Tasks deleted, purged or sent successfully.")]
    delivered: Annotated[Count, about("Attempts that succeeded.")]
    failed: Annotated[Count, about("Attempts that failed.")]
    exhausted: Count

    @classmethod
    def of(cls, usec: int, counts: Mapping[EventKind, int]) -> FlowMinute:
        """Return a minute that began at a time."""
        numbers = {
            name: sum(counts.get(kind, 0) for kind in kinds) for name, kinds in FLOW_KINDS.items()
        }
        return cls(time=from_usec(usec).isoformat(), **numbers)


class FlowQuery(Model):
    """Which minutes to return."""

    minutes: Annotated[
        Maybe[Positive],
        about("Number of minutes to return, the last ones of the clock. Default: all."),
    ] = UNSET
    queue: Annotated[str, about("Only this queue.")] = ""


@operation("GET", "/summary")
def get_summary(state: ServerState) -> Summary:
    """Return what changes the behaviour: faults, paused queues, the clock, and what is left."""
    return build_summary(state, collect_statistics(state))


def build_summary(state: ServerState, queues: Sequence[tuple[Queue, QueueStatistics]]) -> Summary:
    """Return the summary of a server with these queues, all of them."""
    push = {queue: numbers.tasks for queue, numbers in queues if queue.is_push}
    kept = {queue.name: why_kept(state, queue) for queue in push if push[queue]}
    return Summary(
        clock=get_clock(state),
        faults=state.faults.list(active=True),
        paused=[queue.name for queue, _ in queues if queue.state is QueueState.PAUSED],
        exhausted={queue.name: numbers.exhausted for queue, numbers in queues if numbers.exhausted},
        unlisted=state.emulator.unlisted_tasks,
        push=PushSummary(
            addresses=list(state.push_to),
            tasks=sum(push.values()),
            kept={name: why for name, why in kept.items() if why},
        )
        if push
        else None,
    )


@operation("GET", "/server")
def get_server(state: ServerState) -> ServerInfo:
    """Return addresses, store and settings of the server."""
    emulator, file, services = state.emulator, state.config_file, state.services
    data = None if services is None else services.data
    return ServerInfo(
        url=state.url,
        grpc=state.grpc_address or None,
        store=emulator.store_url,
        auth="acl" if state.acl else "none",
        project=emulator.project,
        file=emulator.config.file,
        profile=None if file is None else file.profile,
        manual_clock=isinstance(emulator.clock, ManualClock),
        push_to=list(state.push_to),
        cron_jobs=len(state.cron.states),
        services=[] if services is None else services.answered,
        data=None if data is None else str(data.resolve()),
        users=list(state.users.values()),
        started=state.started.isoformat(),
        uptime_seconds=round(state.uptime_seconds, 3),
        version=pullqueue.__version__,
        python=platform.python_version(),
    )


@operation("GET", "/flow", key="flow")
def get_flow(state: ServerState, query: FlowQuery) -> dict[str, list[FlowMinute]]:
    """Return how many tasks were added, leased and deleted in each minute in which any were.

    Minutes are those of the emulator's clock; after a jump, those before it are still there.
    """
    now_usec = state.emulator.now_usec()
    names = [query.queue] if query.queue else [queue.name for queue in list_shown_queues(state)]
    minutes = query.minutes
    since_usec = 0 if minutes is UNSET else now_usec - (minutes - 1) * MINUTE_USEC
    flow = {}
    for name in names:
        counted = state.emulator.queue(name).flow(since_usec=since_usec)
        flow[name] = [FlowMinute.of(*item) for item in list(counted.items())[-_MINUTES:]]
    return flow
