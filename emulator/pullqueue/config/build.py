"""From a checked file to the data of its queues."""

from __future__ import annotations

from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    Rate,
    RetryParameters,
)
from pullqueue.config.nodes import Scalar
from pullqueue.config.values import as_boolean, parse_age_limit, parse_rate, parse_storage_limit
from pullqueue.config.view import QueueView, Section, View


def build(view: View) -> QueueConfig:
    """Give the configuration of a file without faults that keep it from being read.

    Of queues with one name the last counts, as in production.
    """
    queues = {queue.name: _queue(queue, view) for queue in view.queues}
    storage = _text(view.top, "total_storage_limit")
    resume = view.top.get("resume_paused_queues")
    return QueueConfig(
        queues=tuple(queues.values()),
        total_storage_limit_bytes=None if storage is None else parse_storage_limit(storage),
        resume_paused_queues=as_boolean(resume.value)
        if resume and isinstance(resume.value, Scalar)
        else None,
        application=_text(view.top, "application"),
        file=view.source.file,
    )


def _text(section: Section, key: str) -> str | None:
    entry = section.get(key)
    return entry.text if entry else None


def _integer(section: Section, key: str) -> int | None:
    entry = section.get(key)
    return entry.integer if entry else None


def _number(section: Section, key: str) -> float | None:
    entry = section.get(key)
    return entry.number if entry else None


def _queue(queue: QueueView, view: View) -> QueueSettings:
    line, column = view.source.position(queue.place.start)
    return QueueSettings(
        name=queue.name or "",
        mode=QueueMode(queue.mode),
        rate=_rate(queue),
        bucket_size=_integer(queue, "bucket_size"),
        max_concurrent_requests=_integer(queue, "max_concurrent_requests"),
        target=_text(queue, "target"),
        retry_parameters=_retry(queue.retry) if queue.retry else None,
        acl=_acl(queue),
        line=line,
        column=column,
    )


def _rate(queue: QueueView) -> Rate | None:
    text = _text(queue, "rate")
    parsed = None if text is None else parse_rate(text)
    return Rate(count=parsed.tasks, unit=parsed.unit) if parsed else None


def _retry(retry: Section) -> RetryParameters:
    age = _text(retry, "task_age_limit")
    return RetryParameters(
        task_retry_limit=_integer(retry, "task_retry_limit"),
        task_age_limit_seconds=None if age is None else parse_age_limit(age),
        min_backoff_seconds=_number(retry, "min_backoff_seconds"),
        max_backoff_seconds=_number(retry, "max_backoff_seconds"),
        max_doublings=_integer(retry, "max_doublings"),
    )


def _acl(queue: QueueView) -> tuple[AclEntry, ...] | None:
    if queue.get("acl") is None:
        return None
    return tuple(
        AclEntry(user_email=_text(grant, "user_email"), writer_email=_text(grant, "writer_email"))
        for grant in queue.grants
    )
