"""Queues as the control routes show them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import to_builtins

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.config.model import QueueMode
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import QueueStatistics
from pullqueue.push.http_target import describe_target
from pullqueue.runtime.progress import Progress, find_progress
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, Time, about, iso_usec


class QueueResource(Model):
    """A queue with its numbers and settings."""

    name: str
    mode: QueueMode
    state: QueueState
    is_runtime: bool
    """True if it was created at run time, and is not in queue.yaml."""
    tasks: Count
    available: Count
    leased: Count
    scheduled: Count
    running: Count
    retrying: Count
    paused: Annotated[
        Count,
        about(
            "How many of the available tasks wait until the queue is resumed, or "
            "listed again: all, or 0."
        ),
    ]
    exhausted: Count
    oldest_eta: Time | None
    oldest_age_seconds: Annotated[
        float | None, about("Seconds since the oldest task became due; null if none is due.")
    ]
    leased_last_minute: Count
    leased_last_hour: Count
    bytes_stored: Count
    kept: str | None
    """Of a push queue: that its tasks are not delivered, and how to deliver them."""
    http_target: str | None
    """What the queue overrides in its HTTP tasks, in words; `settings` has the parts."""
    settings: dict[str, Any]
    progress: Progress


def build_resource(
    state: ServerState, queue: Queue, statistics: QueueStatistics | None = None
) -> QueueResource:
    """Return a queue as it is now, or with statistics that are known already."""
    statistics = statistics or queue.fetch_statistics()
    numbers = statistics._asdict()
    oldest_usec = numbers.pop("oldest_eta_usec")
    # Before its eta a task has no age.
    due_usec = None if oldest_usec is None else queue.now_usec() - oldest_usec
    age = None if due_usec is None or due_usec < 0 else due_usec / USEC_PER_SECOND
    is_running = queue.state is QueueState.RUNNING
    target = queue.settings.http_target
    kept = state.push_to.kept(queue.settings) if queue.is_push else None
    return QueueResource(
        name=queue.name,
        mode=queue.mode,
        state=queue.state,
        is_runtime=queue.is_runtime,
        oldest_eta=iso_usec(oldest_usec),
        oldest_age_seconds=age,
        paused=0 if is_running else statistics.available,
        kept=state.address_commands(kept),
        http_target=None if target is None else describe_target(target),
        # `dataclasses.asdict` would take 20 us, several times as long as all of this.
        settings=_present(to_builtins(queue.settings)),
        progress=find_progress(state, queue, statistics),
        **numbers,
    )


def _present(value: Any) -> Any:  # noqa: ANN401 - settings, or a part of them
    """Return what is set of some settings, except what other fields of the queue have."""
    if isinstance(value, list):
        return [_present(each) for each in value]
    if not isinstance(value, dict):
        return value
    hidden = ("name", "mode", "line", "column")
    return {
        name: _present(each)
        for name, each in value.items()
        if each is not None and name not in hidden
    }
