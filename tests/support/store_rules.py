"""The queues that the rules of the stores are tried on."""

from __future__ import annotations

from pullqueue import Limits
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters

LIMITS = Limits(
    events_kept=50, exhausted_kept=3, exhausted_payload_bytes=100, tombstone_seconds=100
)


def config_of(limit: int | None) -> QueueConfig:
    """Return a queue with a retry limit, and one without."""
    retry = RetryParameters(task_retry_limit=limit, task_age_limit_seconds=300)
    return QueueConfig(
        queues=(
            QueueSettings(name="pull", mode=QueueMode.PULL),
            QueueSettings(name="limited", mode=QueueMode.PULL, retry_parameters=retry),
        )
    )
