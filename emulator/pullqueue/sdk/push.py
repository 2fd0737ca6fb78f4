"""The push queues of a configuration, as Google's stub reads them."""

from __future__ import annotations

from types import SimpleNamespace

from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.sdk.operators import rate_text


def push_queues(config: QueueConfig) -> SimpleNamespace:
    """Give what Google's parser would give for the push queues of a queue.yaml."""
    return SimpleNamespace(
        queue=[_entry(queue) for queue in config.queues if queue.mode is QueueMode.PUSH]
    )


def _entry(settings: QueueSettings) -> SimpleNamespace:
    return SimpleNamespace(
        name=settings.name,
        mode=settings.mode.value,
        rate=None if settings.rate is None else rate_text(settings.rate),
        bucket_size=settings.bucket_size,
        max_concurrent_requests=settings.max_concurrent_requests,
        target=settings.target,
        acl=None,
        retry_parameters=_retry(settings.retry_parameters),
    )


def _retry(retry: RetryParameters | None) -> SimpleNamespace | None:
    if retry is None:
        return None
    age_seconds = retry.task_age_limit_seconds
    return SimpleNamespace(
        task_retry_limit=retry.task_retry_limit,
        task_age_limit=None if age_seconds is None else f"{age_seconds}s",
        min_backoff_seconds=retry.min_backoff_seconds,
        max_backoff_seconds=retry.max_backoff_seconds,
        max_doublings=retry.max_doublings,
    )
