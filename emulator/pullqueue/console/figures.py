"""The numbers of queues, as pages show and sort them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullqueue.config.model import QueueMode
from pullqueue.resources.queue_resource import QueueResource

QUEUE_COLUMNS = {
    "name": "Queue",
    "tasks": "Tasks",
    "available": "Available",
    "leased": "Leased, running",
    "scheduled": "Scheduled, retrying",
    "exhausted": "Exhausted",
    "oldest_age_seconds": "Oldest due",
    "done": "Done in 1 min",
    "failed": "Failed in 1 min",
}
"""Fields by which queues can be sorted, and the heads of their columns."""
_FIGURES = (
    *("tasks", "available", "paused", "leased", "running", "retrying", "scheduled", "exhausted"),
)
"""The numbers of queues in the order in which they are shown."""


class Figures(NamedTuple):
    """The numbers of one or more queues together."""

    counts: dict[str, int]
    oldest: float | None
    """Seconds since the oldest task became due."""


def sort_key(queue: QueueResource, column: str) -> tuple[bool, Any]:
    """Return by what queues are sorted; those without a value are the first ones."""
    progress = queue.progress
    numbers = {"done": progress.done, "failed": progress.failed}
    value = numbers.get(column, getattr(queue, column, None))
    return value is not None, value


def select_figures(queues: Sequence[QueueResource]) -> Figures:
    """Return the numbers of queues, except those that queues of their modes do not have."""
    counts = {name: sum(getattr(queue, name) for queue in queues) for name in _FIGURES}
    modes = {queue.mode for queue in queues}
    hidden = {"paused"} if not counts["paused"] else set()
    if QueueMode.PULL not in modes:
        hidden |= {"leased"}
    if QueueMode.PUSH not in modes:
        hidden |= {"running", "retrying"}
    ages = (queue.oldest_age_seconds for queue in queues)
    return Figures(
        {name: count for name, count in counts.items() if name not in hidden},
        max((age for age in ages if age is not None), default=None),
    )
