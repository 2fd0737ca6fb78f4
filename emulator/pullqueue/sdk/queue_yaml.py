"""The queue.yaml of a suite that names one to the stub."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pullqueue import config
from pullqueue.config.files import Stamp, read_stamp
from pullqueue.config.model import QueueConfig

_NAMES = ("queue.yaml", "queue.yml", "WEB-INF/appengine-generated/queue.yaml")


class QueueYaml:
    """Reads the file when it is first seen, and again whenever it has changed."""

    def __init__(self) -> None:
        self._read: tuple[Path, Stamp] | str | None = None

    def changed(
        self, path: str | None, root: str | None, parser: Callable[[str | None], Any] | None
    ) -> QueueConfig | None:
        """Return the configuration if it is new: of the file at `path`, or of that under `root`.

        `parser` is a suite's own, which returns what Google's parser would return for a file.

        Raises:
            InvalidQueueConfigError: the SDK's own parser would refuse the file too.
        """
        found: tuple[Path, Stamp] | str | None
        if parser is None:
            found = _find(path, root)
        else:
            parsed = parser(root)
            found = None if parsed is None else json.dumps(parsed.ToDict())
        if found is None or found == self._read:
            return None
        if isinstance(found, str):
            loaded = config.loads(found, profile="sdk")
        else:
            loaded = config.load(found[0], profile="sdk")
        self._read = found
        return loaded


def _find(path: str | None, root: str | None) -> tuple[Path, Stamp] | None:
    paths = [] if path is None else [Path(path)]
    if root is not None:
        paths += [Path(root, name) for name in _NAMES]
    for candidate in paths:
        if stamp := read_stamp(candidate):
            return candidate, stamp
    return None
