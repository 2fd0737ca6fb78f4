"""The operation that returns the server's numbers to Prometheus, in its text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pullqueue
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.resources.operations import operation
from pullqueue.resources.queue_resource import build_resource
from pullqueue.runtime.state import ServerState

_Sample: TypeAlias = tuple[Mapping[str, object], float]
"""Labels and value. No label needs an escape: names of queues are letters, digits and hyphens."""

_STATES = ("available", "leased", "scheduled", "running", "retrying")
_GAUGES = (
    ("exhausted", "exhausted_tasks", "Exhausted tasks that are stored."),
    ("bytes_stored", "stored_bytes", "Payloads, names and tags."),
    ("leased_last_minute", "leased_last_minute", "Tasks leased in the last minute."),
    ("leased_last_hour", "leased_last_hour", "Tasks leased in the last hour."),
    ("oldest_age_seconds", "oldest_task_age_seconds", "Seconds since the earliest eta, if past."),
)
"""Field of a queue, name and description of the metric."""


@operation("GET", "/metrics", content_type="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(state: ServerState) -> str:
    """Return the numbers of queues and requests to Prometheus."""
    return "".join([*_of_queues(state), *_of_delivery(state), *_of_server(state)])


def _of_queues(state: ServerState) -> Iterator[str]:
    queues = [build_resource(state, queue) for queue in state.emulator.queues]
    by_state = [
        ({"queue": queue.name, "state": each}, getattr(queue, each))
        for queue in queues
        for each in _STATES
    ]
    yield _metric("tasks", "Tasks in a queue, by state.", by_state)
    for field, name, text in _GAUGES:
        numbers = [({"queue": queue.name}, getattr(queue, field) or 0) for queue in queues]
        yield _metric(name, text, numbers)


def _of_delivery(state: ServerState) -> Iterator[str]:
    delivery = state.delivery
    if delivery is None:
        return
    attempts = [
        ({"queue": name, "status": status}, count)
        for (name, status), count in delivery.attempts.counts.copy().items()
    ]
    text = "Attempts to send push tasks, by status; 0: no response."
    yield _metric("attempts_total", text, attempts, kind="counter")
    rates = [
        ({"queue": queue.name}, delivery.dispatcher.enforced_rate(queue))
        for queue in state.emulator.queues
        if queue.is_push
    ]
    text = "Maximum number of push tasks that are started per second."
    yield _metric("enforced_rate", text, rates)


def _of_server(state: ServerState) -> Iterator[str]:
    log = state.requests
    requests = [
        ({"verb": verb, "status": status}, count)
        for (verb, status), count in log.counts.copy().items()
    ]
    yield _metric("requests_total", "Requests to the API.", requests, kind="counter")
    text = "Total duration of all requests, in seconds."
    yield _metric("request_seconds_total", text, [({}, log.seconds)], kind="counter")
    yield _metric(
        "clock_seconds", "The clock.", [({}, state.emulator.now_usec() / USEC_PER_SECOND)]
    )
    yield _metric("info", "What runs.", [({"version": pullqueue.__version__}, 1)])


def _metric(name: str, text: str, samples: Iterable[_Sample], *, kind: str = "gauge") -> str:
    lines = [f"# HELP pullqueue_{name} {text}", f"# TYPE pullqueue_{name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{each}"' for label, each in labels.items())
        lines.append(f"pullqueue_{name}{{{shown}}} {float(value)}")
    return "\n".join([*lines, ""])
