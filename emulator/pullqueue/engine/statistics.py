"""The numbers of a queue as its users see them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class QueueStatistics(NamedTuple):
    """The numbers of a queue at one moment."""

    tasks: int
    """All tasks: available, leased and scheduled."""
    available: int
    """Free to be leased."""
    leased: int
    """Held by someone."""
    scheduled: int
    """Never leased, with an eta that lies ahead."""
    oldest_eta: datetime | None
    """The first eta among all tasks, leased ones included; None in an empty queue."""
    leased_last_minute: int
    """Tasks leased in the last minute."""
    leased_last_hour: int
    """Tasks leased in the last hour."""
    bytes_stored: int
    """Payloads, names and tags, in bytes of UTF-8."""
