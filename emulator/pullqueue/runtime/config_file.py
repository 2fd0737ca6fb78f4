"""The queue.yaml of a running server: reloaded on request, or when it has changed."""

from __future__ import annotations

import logging
import threading
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pullqueue import config as queue_yaml
from pullqueue.config.files import read_project_file, read_stamp
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue_base import QueueState
from pullqueue.errors import ConfigFileError, PullQueueError
from pullqueue.structs import Model, about

_OF_THE_FILE = (ConfigFileError, InvalidQueueConfigError)
"""Errors that remain until the file changes; others are those of the store."""

_log = logging.getLogger("pullqueue.config")


class Changes(Model):
    """What another configuration changed, as names of queues."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    total_storage_limit: Annotated[bool, about("Whether it is another one.")]
    settings: Annotated[dict[str, list[str]], about("Which settings changed, by queue.")]

    def __str__(self) -> str:
        limit = ["total_storage_limit"] if self.total_storage_limit else []
        changed = [f"{name} ({', '.join(self.settings[name])})" for name in self.changed]
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (
                ("added", self.added),
                ("changed", [*changed, *limit]),
                ("disabled", self.removed),
            )
            if names
        ]
        return "; ".join(parts) or "nothing changed"


class ConfigFile:
    """A queue.yaml and the result of the last attempt to load it."""

    def __init__(self, path: Path, *, profile: str = "gcloud", keep_created: bool = False) -> None:
        """Store the path of an emulator's file; it is not read until it changes."""
        self.path = path
        self.profile = profile
        self.keep_created = keep_created
        """True if a reload leaves queues alone that were created at run time."""
        self.problem: str | None = None
        """Why the file as it is now is not applied; None if it is."""
        self.loaded: datetime | None = None
        """When it was last reloaded with success, by the emulator's clock."""
        self._seen = self._looked_at = read_stamp(self.path)
        self._lock = threading.Lock()

    def read(self) -> QueueConfig:
        """Return the configuration in the file.

        Raises:
            ConfigFileError: the file cannot be read, or is a link out of its project.
            InvalidQueueConfigError: the file is not valid.
        """
        data = read_project_file(self.path)
        return queue_yaml.loads(data, file=str(self.path), profile=self.profile)

    def reload(self, emulator: Emulator) -> Changes:
        """Load the file and apply it, or change nothing.

        Raises:
            ConfigFileError: the file cannot be read.
            InvalidQueueConfigError: the file is not valid.
            TransientError: the store does not respond; the next check for changes tries again.
        """
        with self._lock:
            self._seen = read_stamp(self.path)
            try:
                config = self.read()
                changes = _changes(emulator.config, config)
                running = self._created(emulator)
                emulator.reconfigure(config, disable_created=not self.keep_created)
                disabled = running - self._created(emulator)
                changes.removed += [
                    name for name in sorted(disabled) if name not in config.by_name()
                ]
            except PullQueueError as error:
                self.problem = str(error)
                if not isinstance(error, _OF_THE_FILE):
                    self._seen = None
                raise
            self.problem = None
            self.loaded = emulator.clock.now()
            _log.info("%s is applied: %s", self.path, changes)
            return changes

    def _created(self, emulator: Emulator) -> set[str]:
        """Return the names of the queues that were created at run time and are not disabled."""
        return {
            queue.name
            for queue in emulator.queues
            if queue.is_runtime and queue.state is not QueueState.DISABLED
        }

    def check(self, emulator: Emulator, *, changes: bool, now: bool) -> None:
        """Reload the file `now`, or if it has changed and `changes` is true; log what is wrong.

        A change counts once the file was the same at two checks: it may be written in several
        steps, and half of a `queue.yaml` can be a valid one.
        """
        before, self._looked_at = self._looked_at, read_stamp(self.path)
        changed = changes and self._looked_at == before != self._seen
        if not now and not changed:
            return
        problem = self.problem
        try:
            self.reload(emulator)
        except _OF_THE_FILE as error:
            for line in str(error).splitlines():
                _log.error("%s is not applied, since it is not valid: %s", self.path, line)
        except PullQueueError as error:
            # Once, however often it is tried.
            if now or str(error) != problem:
                _log.error("%s is not applied: %s", self.path, error)


def _changes(before: QueueConfig, after: QueueConfig) -> Changes:
    old, new = ({each.name: each for each in config.queues} for config in (before, after))
    settings = {
        name: [
            each.name
            for each in fields(queue)
            if each.compare and getattr(queue, each.name) != getattr(old[name], each.name)
        ]
        for name, queue in new.items()
        if name in old and queue != old[name]
    }
    return Changes(
        added=[name for name in new if name not in old],
        changed=list(settings),
        settings=settings,
        removed=[name for name in old if name not in new],
        total_storage_limit=before.total_storage_limit_bytes != after.total_storage_limit_bytes,
    )
