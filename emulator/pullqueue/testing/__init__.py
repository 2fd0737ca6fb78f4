"""Helpers for tests of code that uses pull queues; they need no pytest.

The fixtures of the pytest plugin are bound to these.
"""

from __future__ import annotations

from pullqueue.clock import MovableClock
from pullqueue.engine.faults import Fault, Faults
from pullqueue.testing.assertions import (
    assert_added,
    assert_available,
    assert_empty,
    assert_exhausted,
    assert_leased,
)
from pullqueue.testing.crashing import Crash, CrashFailure, CrashTestError, WorkerKilled, crash_test
from pullqueue.testing.describing import describe
from pullqueue.testing.driving import WorkerStopped, drain
from pullqueue.testing.exhausting import exhaust
from pullqueue.testing.freezing import freeze
from pullqueue.testing.interception import WorkerInterrupt
from pullqueue.testing.moving import expire_leases, next_event
from pullqueue.testing.payloads import json_payload
from pullqueue.testing.process_time import ProcessClock
from pullqueue.testing.recording import remember_added

__all__ = [
    "Crash",
    "CrashFailure",
    "CrashTestError",
    "Fault",
    "Faults",
    "MovableClock",
    "ProcessClock",
    "WorkerInterrupt",
    "WorkerKilled",
    "WorkerStopped",
    "assert_added",
    "assert_available",
    "assert_empty",
    "assert_exhausted",
    "assert_leased",
    "crash_test",
    "describe",
    "drain",
    "exhaust",
    "expire_leases",
    "freeze",
    "json_payload",
    "next_event",
    "remember_added",
]
