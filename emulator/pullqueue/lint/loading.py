"""From a file's content to the data of its queues: what `pullqueue.config.loads` does."""

from __future__ import annotations

from typing import Any

from pullqueue.config.document import Path
from pullqueue.config.findings import InvalidQueueConfigError, Severity
from pullqueue.config.model import AclEntry, QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.config.schema import ACL_ENTRY, QUEUE, RETRY, TOP, keys_at, value_kinds
from pullqueue.config.settings import PROFILES, Settings
from pullqueue.config.shape import CONVERTERS
from pullqueue.config.values import parse_age_limit, parse_rate, parse_storage_limit
from pullqueue.config.view import Entry, QueueNode, Section, View
from pullqueue.lint.check import check


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
    values = _values(view.top, TOP)
    del values["queue"]
    storage = values.pop("total_storage_limit")
    return QueueConfig(
        **values,
        queues=tuple(queues.values()),
        total_storage_limit_bytes=None if storage is None else parse_storage_limit(storage),
        file=view.source.file,
    )


def _values(section: Section, level: Path) -> dict[str, Any]:
    """Return the values of all keys of a level, as App Engine converts them; None: not set."""
    return {key: _value(section.get(key), value_kinds().get(key)) for key in keys_at(level)}


def _value(entry: Entry | None, kind: str | None) -> object:
    if entry is None or entry.scalar is None:
        return None
    return CONVERTERS[kind](entry.scalar) if kind else entry.text


def _queue(queue: QueueNode, view: View) -> QueueSettings:
    line, column = view.source.position(queue.place.start)
    acl = tuple(AclEntry(**_values(entry, ACL_ENTRY)) for entry in queue.acl_entries)
    own: dict[str, Any] = {
        "name": queue.name or "",
        "mode": QueueMode(str(queue.mode)),
        "retry_parameters": _retry(queue.retry) if queue.retry else None,
        "acl": acl if queue.get("acl") else None,
    }
    values = _values(queue, QUEUE) | own
    values["rate"] = parse_rate(values["rate"] or "")
    return QueueSettings(**values, line=line, column=column)


def _retry(retry: Section) -> RetryParameters:
    values = _values(retry, RETRY)
    age = values.pop("task_age_limit")
    return RetryParameters(
        **values, task_age_limit_seconds=None if age is None else parse_age_limit(age)
    )
