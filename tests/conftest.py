"""What all tests share."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

# A background job of a shell (`cmd &`, nohup) ignores SIGINT, and programs started by tests would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _time_zone() -> Iterator[None]:
    """Pin a time zone that is not UTC, so that a naive datetime shows as a failure."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Let nothing be skipped unnoticed in CI: what is missing there is a failure."""
    outcome = yield
    _refuse_skip(outcome)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """See to the same where a whole module would be skipped."""
    outcome = yield
    _refuse_skip(outcome)


def _refuse_skip(outcome: Any) -> None:
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
