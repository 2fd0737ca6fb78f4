"""How long a queue keeps tasks, and the names of deleted ones."""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.clock import FIRST_USEC, LAST_USEC, USEC_PER_SECOND
from pullqueue.config.model import QueueSettings
from pullqueue.tasks import Task

_ALL_YEARS_SECONDS = (LAST_USEC - FIRST_USEC) // USEC_PER_SECOND


class Retention(NamedTuple):
    """How long a queue keeps tasks, and the names of deleted ones."""

    leases: int | None = None
    """How many times a task can be leased; None: any number of times."""
    age_usec: int = 0
    """A task must be this old as well."""
    lifetime_usec: int | None = None
    """At this age a task is exhausted, leased or not; None: never."""
    tombstone_usec: int | None = None
    """How long the name of a deleted task is reserved; None: `Limits.tombstone_seconds`."""

    def end_usec(self, task: Task) -> int | None:
        """Return when a task is exhausted, if it is not leased again; None: never."""
        ends = []
        if self.leases is not None and 0 < task.retry_count >= self.leases:
            ends.append(max(task.eta_usec, task.enqueued_usec + self.age_usec))
        if self.lifetime_usec is not None:
            ends.append(task.enqueued_usec + self.lifetime_usec)
        return min(ends, default=None)


def compute_retention(settings: QueueSettings) -> Retention:
    """Return how long a queue with some settings keeps tasks and names."""
    retry, lifetime = settings.retry_parameters, settings.task_lifetime_seconds
    tombstone = settings.tombstone_seconds
    if lifetime is not None and lifetime > _ALL_YEARS_SECONDS:
        lifetime = None  # no task can reach it
    retention = Retention(
        lifetime_usec=None if lifetime is None else lifetime * USEC_PER_SECOND,
        tombstone_usec=None if tombstone is None else tombstone * USEC_PER_SECOND,
    )
    if not settings.is_pull or retry is None or retry.task_retry_limit is None:
        # The end of an attempt decides whether a push task is exhausted. On a pull queue an age
        # limit alone exhausts no task (as in Google's stub).
        return retention
    age_usec = (retry.task_age_limit_seconds or 0) * USEC_PER_SECOND
    # queue.yaml bounds no age, but a database bounds numbers.
    return retention._replace(leases=retry.task_retry_limit, age_usec=min(age_usec, LAST_USEC))
