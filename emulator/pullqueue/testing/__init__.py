"""Helpers for tests of code that uses queues; they need no pytest.

The fixtures of the pytest plugin are built on these.
"""

from __future__ import annotations

import sys

from pullqueue.clock import MovableClock
from pullqueue.faults.declaration import Faults
from pullqueue.faults.fault import Fault
from pullqueue.push.attempt import Attempt
from pullqueue.push.request import PushRequest
from pullqueue.testing.assertions import (
    UNTAGGED,
    JsonPayload,
    assert_added,
    assert_available,
    assert_empty,
    assert_exhausted,
    assert_leased,
)
from pullqueue.testing.clock import FixtureClock, exhaust
from pullqueue.testing.describing import describe
from pullqueue.testing.draining import drain, drain_async
from pullqueue.testing.emulating import Emulation, emulation
from pullqueue.testing.exploration.crash import crash_test
from pullqueue.testing.exploration.race import race_test
from pullqueue.testing.exploration.results import (
    Crash,
    CrashFailure,
    CrashResult,
    CrashTestError,
    RaceFailure,
    RaceResult,
    RaceTestError,
)
from pullqueue.testing.freezing import ProcessClock, freeze
from pullqueue.testing.interrupt import HandlerKilled, WorkerInterrupt, WorkerKilled, WorkerStopped
from pullqueue.testing.live_server import LiveServer
from pullqueue.testing.points import point
from pullqueue.testing.record import record_calls
from pullqueue.testing.running import run_task, run_tasks

__all__ = [
    "UNTAGGED",
    "Attempt",
    "Crash",
    "CrashFailure",
    "CrashResult",
    "CrashTestError",
    "Emulation",
    "Fault",
    "Faults",
    "FixtureClock",
    "HandlerKilled",
    "JsonPayload",
    "LiveServer",
    "MovableClock",
    "ProcessClock",
    "PushRequest",
    "RaceFailure",
    "RaceResult",
    "RaceTestError",
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
    "drain_async",
    "emulation",
    "exhaust",
    "freeze",
    "point",
    "race_test",
    "record_calls",
    "run_task",
    "run_tasks",
]

for _name, _module in list(sys.modules.items()):
    if _name.startswith(f"{__name__}."):
        vars(_module)["__tracebackhide__"] = True  # a failed test is shown at its own line
