"""From a file's content to the data of its queues: what `pullqueue.config.loads` does."""

from __future__ import annotations

from pullqueue.config.check import check
from pullqueue.config.findings import Severity
from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    RetryParameters,
)
from pullqueue.config.settings import PROFILES, Settings
from pullqueue.config.values import as_boolean, parse_age_limit, parse_rate, parse_storage_limit
from pullqueue.config.view import QueueNode, Section, View
from pullqueue.errors import InvalidQueueConfigError


def load_content(text: str | bytes, *, file: str, profile: str) -> QueueConfig:
    """Return the configuration in a file's content; it raises what `load_view` raises."""
    return build_config(load_view(text, file=file, profile=profile))


def load_view(text: str | bytes, *, file: str, profile: str) -> View:
    """Return the tree of a file that can be loaded.

    Raises:
        InvalidQueueConfigError: a rule of severity error is broken.
        ValueError: the profile does not exist.
    """
    if profile not in PROFILES:
        raise ValueError(f'unknown profile "{profile}": use one of {", ".join(PROFILES)}')
    settings = Settings(profile=profile, at_least=Severity.ERROR, loading=True)
    checked = check(text, file=file, settings=settings)
    if checked.findings or checked.view is None:
        raise InvalidQueueConfigError(checked.findings)
    return checked.view


def build_config(view: View) -> QueueConfig:
    """Return the configuration of a file without faults that prevent loading.

    Of queues with one name the last counts, as in production.
    """
    queues = {queue.name: _queue(queue, view) for queue in view.queues}
    storage = _text(view.top, "total_storage_limit")
    resume = view.top.get("resume_paused_queues")
    return QueueConfig(
        queues=tuple(queues.values()),
        total_storage_limit_bytes=None if storage is None else parse_storage_limit(storage),
        resume_paused_queues=as_boolean(resume.scalar) if resume and resume.scalar else None,
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


def _queue(queue: QueueNode, view: View) -> QueueSettings:
    line, column = view.source.position(queue.place.start)
    return QueueSettings(
        name=queue.name or "",
        mode=QueueMode(str(queue.mode)),
        rate=parse_rate(_text(queue, "rate") or ""),
        bucket_size=_integer(queue, "bucket_size"),
        max_concurrent_requests=_integer(queue, "max_concurrent_requests"),
        target=_text(queue, "target"),
        retry_parameters=_retry(queue.retry) if queue.retry else None,
        acl=_acl(queue) if queue.get("acl") else None,
        line=line,
        column=column,
    )


def _retry(retry: Section) -> RetryParameters:
    age = _text(retry, "task_age_limit")
    return RetryParameters(
        task_retry_limit=_integer(retry, "task_retry_limit"),
        task_age_limit_seconds=None if age is None else parse_age_limit(age),
        min_backoff_seconds=_number(retry, "min_backoff_seconds"),
        max_backoff_seconds=_number(retry, "max_backoff_seconds"),
        max_doublings=_integer(retry, "max_doublings"),
    )


def _acl(queue: QueueNode) -> tuple[AclEntry, ...]:
    return tuple(
        AclEntry(user_email=_text(entry, "user_email"), writer_email=_text(entry, "writer_email"))
        for entry in queue.acl_entries
    )
