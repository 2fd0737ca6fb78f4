"""The queue.yaml that a suite tells the stub of."""

from __future__ import annotations

from pathlib import Path

from pullqueue import config
from pullqueue.config.model import QueueConfig

_NAMES = ("queue.yaml", "queue.yml", "WEB-INF/appengine-generated/queue.yaml")


class QueueYaml:
    """Reads the file when it is first seen, and again whenever it has changed."""

    def __init__(self) -> None:
        self._seen: tuple[Path, int] | None = None

    def changed(self, path: str | None, root: str | None) -> QueueConfig | None:
        """Give the configuration if it is new: of the file at `path`, or of that under `root`.

        Raises:
            InvalidQueueConfigError: the SDK's own parser would refuse the file too.
        """
        if path is None and root is None:
            return None
        found = self._find(path, root)
        if found is None or found == self._seen:
            return None
        read = config.load(found[0], profile="sdk")
        self._seen = found
        return read

    def _find(self, path: str | None, root: str | None) -> tuple[Path, int] | None:
        paths = [] if path is None else [Path(path)]
        if root is not None:
            paths += [Path(root, name) for name in _NAMES]
        for candidate in paths:
            try:
                return candidate, candidate.stat().st_mtime_ns
            except OSError:
                continue
        return None
