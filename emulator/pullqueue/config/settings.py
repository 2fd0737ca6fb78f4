"""The settings of a check."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pullqueue.config.findings import Severity

Profile = Literal["gcloud", "sdk", "java", "rest", "migration"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
"""The programs whose rules can be applied.

`gcloud`: what `gcloud app deploy` refuses, the nearest to production. `sdk`: as lenient as
Google's Python library. `java`: the Java SDK's reader of queue.yaml. `rest`: gcloud's, for
queues whose tasks are leased over REST. `migration`: gcloud's, with what a move away from pull
queues changes.
"""

MAX_BYTES = 1_048_576
"""The largest file that is read; the largest known queue.yaml has 15 KiB."""


class Settings(NamedTuple):
    """Which rules apply to a file, and how."""

    profile: str = "gcloud"
    """The program whose rules apply."""
    levels: Mapping[str, Severity | None] = MappingProxyType({})
    """Severities by name of rule, which override those of the profile; None: off."""
    at_least: Severity = Severity.INFO
    """The lowest severity that is reported."""
    strict: bool = False
    """True to count an empty `queue:` as a file without queues."""
    loading: bool = False
    """True if the file will be loaded: comments cannot suppress a fault that prevents that."""
    previous_modes: Mapping[str, str | None] = MappingProxyType({})
    """The queues of an earlier version of the file, each with its mode; None: not valid."""
    misnamed: bool = False
    """True if a search found the file, and gcloud would not accept its name."""
