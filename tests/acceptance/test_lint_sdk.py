"""The profile `sdk` against Google's own library, which reads the same files."""

from __future__ import annotations

import logging
import re
import warnings

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pullqueue.config import loads
from pullqueue.errors import InvalidQueueConfigError

VALUES = """\
5/s 0 1.5 yes no ~ "10" 010 -1 12:30 1/m .5/s 5./s pull push PULL a_b A-b 1.10 v1.svc 1w 1d 0.5s
1e1d .5d 120M 1.5G 100 true "x" 1_000 0x1f 2016-01-01 +5 5.7 99999999999 T s~app example.com:app
a.b.c -a inf 1.d 5/d 1K 1B .5 "5" 0o17 0b11 = << !!str
""".split()  # noqa: SIM905 - a list of one per line would fill the page
"""Values on which both must agree, whatever their key.

Left out are the few on which they differ on purpose: `1e2` and `.nan` (accepted by the library, no
number to others), lists as addresses, empty names, spaces inside an age.
"""
ON_PURPOSE = re.compile(r"backoff_seconds: (yes|no|true|inf)$|- name: !!str$", re.MULTILINE)
"""Backoffs that the library accepts, and that are not numbers of seconds; a name that is empty."""
QUEUE_KEYS = ["name", "mode", "rate", "bucket_size", "max_concurrent_requests", "target", "colour"]
RETRY_KEYS = [
    "task_retry_limit",
    "task_age_limit",
    "min_backoff_seconds",
    "max_backoff_seconds",
    "max_doublings",
]
TOP_KEYS = ["total_storage_limit", "resume_paused_queues", "application", "rate"]
GRANT_KEYS = ["user_email", "writer_email", "email"]


def some(keys: list[str]) -> st.SearchStrategy[dict[str, str]]:
    """Draw up to two keys with any values."""
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(VALUES), max_size=2)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Draw a file with some values out of place."""
    top = draw(some(TOP_KEYS))
    queue = {"name": "a", "rate": "5/s"} | draw(some(QUEUE_KEYS))
    retry, grants = draw(some(RETRY_KEYS)), draw(some(GRANT_KEYS))
    lines = [f"{key}: {value}" for key, value in top.items()] + ["queue:"]
    lines += [
        f"{'  ' if i else '- '}{key}: {value}" for i, (key, value) in enumerate(queue.items())
    ]
    lines += ["  retry_parameters:"] * bool(retry)
    lines += [f"    {key}: {value}" for key, value in retry.items()]
    lines += ["  acl:"] * bool(grants) + [f"  - {key}: {value}" for key, value in grants.items()]
    return "\n".join(lines) + "\n"


def accepted_by_google(text: str) -> bool:
    """Read a file as the library does, up to what it would send."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from google.appengine.api import queueinfo  # noqa: PLC0415 - warns when imported

            config = queueinfo.LoadSingleQueue(text)
            if config.total_storage_limit:
                queueinfo.ParseTotalStorageLimit(config.total_storage_limit)
            for queue in config.queue:
                if queue.rate:
                    queueinfo.ParseRate(queue.rate)
                if queue.retry_parameters:
                    queueinfo.TranslateRetryParameters(queue.retry_parameters)
    except Exception:  # noqa: BLE001 - it fails in many ways, some by accident
        return False
    return True


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@given(files())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sdk_profile_agrees_with_googles_library(text: str) -> None:
    """A file loads in the profile `sdk` exactly when Google's library accepts it."""
    assume(not ON_PURPOSE.search(text))
    try:
        loads(text, profile="sdk")
        loaded = True
    except InvalidQueueConfigError:
        loaded = False
    assert loaded == accepted_by_google(text)
