"""Helpers for tests of code that uses pull queues; they need no pytest."""

from __future__ import annotations

from pullqueue.testing.moving import expire_leases, next_event
from pullqueue.testing.process_time import MovableClock, ProcessClock, freeze

__all__ = [
    "MovableClock",
    "ProcessClock",
    "expire_leases",
    "freeze",
    "next_event",
]
