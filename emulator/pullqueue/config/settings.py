"""What a check looks for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pullqueue.config.findings import Severity
from pullqueue.config.lexical import MAX_BYTES


class Settings(NamedTuple):
    """What is looked for."""

    profile: str = "gcloud"
    """Whose reading of the format counts."""
    levels: Mapping[str, Severity | None] = MappingProxyType({})
    """Severities by name of rule, before those of the profile; None: not looked for."""
    at_least: Severity = Severity.INFO
    """The least severity that is looked for."""
    strict: bool = False
    """Whether an empty `queue:` counts as a file without queues."""
    max_bytes: int = MAX_BYTES
    """The largest file that is looked at."""
    previous_names: tuple[str, ...] = ()
    """Queues that an earlier version of the file had."""
    misnamed: bool = False
    """Whether the file was searched for, and gcloud would not take it for a queue.yaml."""
