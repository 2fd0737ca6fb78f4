"""The queue.yaml of a suite that names one to the stub, and its push queues for Google's stub."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from pullqueue import config
from pullqueue.config.files import Stamp, stamp_of
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.sdk.operators import rate_text

_NAMES = ("queue.yaml", "queue.yml", "WEB-INF/appengine-generated/queue.yaml")


class QueueYaml:
    """Reads the file when it is first seen, and again whenever it has changed."""

    def __init__(self) -> None:
        self._read: tuple[Path, Stamp] | None = None

    def changed(self, path: str | None, root: str | None) -> QueueConfig | None:
        """Return the configuration if it is new: of the file at `path`, or of that under `root`.

        Raises:
            InvalidQueueConfigError: the SDK's own parser would refuse the file too.
        """
        if path is None and root is None:
            return None
        found = _find(path, root)
        if found is None or found == self._read:
            return None
        loaded = config.load(found[0], profile="sdk")
        self._read = found
        return loaded


def _find(path: str | None, root: str | None) -> tuple[Path, Stamp] | None:
    paths = [] if path is None else [Path(path)]
    if root is not None:
        paths += [Path(root, name) for name in _NAMES]
    for candidate in paths:
        if stamp := stamp_of(candidate):
            return candidate, stamp
    return None


def push_queues(config: QueueConfig) -> SimpleNamespace:
    """Return what Google's parser would return for the push queues of a queue.yaml."""
    return SimpleNamespace(
        queue=[_entry(queue) for queue in config.queues if queue.mode is QueueMode.PUSH]
    )


def _entry(settings: QueueSettings) -> SimpleNamespace:
    retry = settings.retry_parameters
    age_seconds = None if retry is None else retry.task_age_limit_seconds
    return SimpleNamespace(
        name=settings.name,
        mode=settings.mode.value,
        rate=None if settings.rate is None else rate_text(settings.rate),
        bucket_size=settings.bucket_size,
        max_concurrent_requests=settings.max_concurrent_requests,
        target=settings.target,
        acl=None,
        retry_parameters=retry
        and SimpleNamespace(
            task_retry_limit=retry.task_retry_limit,
            task_age_limit=None if age_seconds is None else f"{age_seconds}s",
            min_backoff_seconds=retry.min_backoff_seconds,
            max_backoff_seconds=retry.max_backoff_seconds,
            max_doublings=retry.max_doublings,
        ),
    )
