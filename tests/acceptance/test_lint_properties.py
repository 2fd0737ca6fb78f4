"""What holds for any file at all, and for any right one."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from lint_agreement import errors_of, refused_for, schema_agrees

from pullqueue.config import loads
from pullqueue.config.findings import InvalidQueueConfigError, Severity
from pullqueue.config.settings import PROFILES, Settings
from pullqueue.lint.check import CheckResult, check
from pullqueue.lint.fixes import fix_text
from pullqueue.lint.report import LintOptions, RunReport, lint_data
from pullqueue.lint.reporters import FORMATS, reporter

LINES = sorted(
    {
        line
        for case in (Path(__file__).parents[1] / "lint_cases").glob("*.yaml")
        if case.stat().st_size < 2000
        for line in case.read_bytes().decode(errors="replace").splitlines(keepends=True)
    }
)
"""Every line of every case."""

SHUFFLED = st.lists(st.sampled_from(LINES), max_size=12).map("".join)
YAML_LIKE = st.text(alphabet="queue:-nam rate5/s[]{}\"'#&*!|>%\t\n\r\ufeff\u2028é{}$<", max_size=80)
TEXTS = st.one_of(
    SHUFFLED,
    YAML_LIKE,
    st.text(max_size=60),
    st.tuples(SHUFFLED, st.text(max_size=5), SHUFFLED).map("".join),
)

COUNTS = st.sampled_from((1, 7, 500))
RETRY = {
    "task_retry_limit": COUNTS,
    "task_age_limit": st.sampled_from(("2d", "1s", "0.5d")),
    "min_backoff_seconds": st.sampled_from((0.1, 1)),
    "max_backoff_seconds": COUNTS,
    "max_doublings": COUNTS,
}
PUSH = st.fixed_dictionaries(
    {"rate": st.sampled_from(("5/s", "500/s", "30000/m", "0.5/d"))},
    optional={
        "mode": st.just("push"),
        "bucket_size": COUNTS,
        "max_concurrent_requests": st.sampled_from((1, 5000)),
        "target": st.sampled_from(("worker", "v2.worker")),
        "retry_parameters": st.fixed_dictionaries({}, optional=RETRY),
    },
)
USER, WRITER = {"user_email": "a@my-app.com"}, {"writer_email": "a@b.cd"}
PULL = st.fixed_dictionaries(
    {"mode": st.just("pull")}, optional={"acl": st.sampled_from(([USER], [USER, WRITER]))}
)
TOP = st.fixed_dictionaries(
    {},
    optional={
        "total_storage_limit": st.sampled_from(("120M", "1.5G", 5)),
        "resume_paused_queues": st.just(value=True),
    },
)


@given(st.lists(PUSH | PULL, max_size=5), TOP)
def test_right_file_has_no_error_and_loads(
    queues: list[dict[str, object]], top: dict[str, object]
) -> None:
    named = [{"name": str(number), **queue} for number, queue in enumerate(queues)]
    text = json.dumps({"queue": named, **top})
    findings = check(text, file="queue.yaml", settings=Settings()).findings
    assert [f for f in findings if f.severity is Severity.ERROR] == []
    assert [queue.name for queue in loads(text).queues] == [queue["name"] for queue in named]


VALUES = """\
5/s 0 1.5 yes no ~ "10" 010 -1 12:30 1/m .5/s 5./s pull push PULL a_b A-b 1.10 v1.svc 1w 1d 0.5s
1e1d .5d 120M 1.5G 100 true "x" 1_000 0x1f 2016-01-01 +5 5.7 99999999999 T s~app example.com:app
a.b.c -a inf 1.d 5/d 1K 1B .5 "5" 0o17 0b11 = << !!str
""".split()  # noqa: SIM905 - a list of one per line would fill the page
"""Values on which Google's library and the profile `sdk` agree, whatever their key.

Left out are the few on which they differ on purpose: `1e2` and `.nan` (accepted by the library, no
number to others), lists as addresses, empty names, spaces inside an age.
"""
ON_PURPOSE = re.compile(r"backoff_seconds: (yes|no|true|inf)$|- name: !!str$", re.MULTILINE)
"""Backoffs that the library accepts, and that are not numbers of seconds; a name that is empty."""
BOUNDS = """\
500/s 501/s 30001/m 0.0/d 0/s 00 "5/s\\n" 0s 1.s 0.1s 1e1d 1e400d 1:30 500 501 5000 5001 2147483647
2147483648 010.5 PUSH no [] {} [5/s] [{}] [{user_email:a@b.cd}] a@b.cd 120MB
""".split()  # noqa: SIM905
"""Values at limits, and lists."""
QUEUE_KEYS = ["name", "mode", "rate", "bucket_size", "max_concurrent_requests", "target", "colour"]
TOP_KEYS = ["total_storage_limit", "resume_paused_queues", "application", "rate"]
GRANT_KEYS = ["user_email", "writer_email", "email"]


def some(keys: list[str], values: list[str]) -> st.SearchStrategy[dict[str, str]]:
    """Draw up to two keys with any values."""
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=2)


@st.composite
def files(draw: st.DrawFn, values: list[str]) -> str:
    """Draw a file with some values out of place."""
    top = draw(some(TOP_KEYS, values))
    queue = {"name": "a", "rate": "5/s"} | draw(some(QUEUE_KEYS, values))
    retry, grants = draw(some([*RETRY], values)), draw(some(GRANT_KEYS, values))
    lines = [f"{key}: {value}" for key, value in top.items()] + ["queue:"]
    lines += [
        f"{'  ' if i else '- '}{key}: {value}" for i, (key, value) in enumerate(queue.items())
    ]
    lines += ["  retry_parameters:"] * bool(retry)
    lines += [f"    {key}: {value}" for key, value in retry.items()]
    lines += ["  acl:"] * bool(grants) + [f"  - {key}: {value}" for key, value in grants.items()]
    return "\n".join(lines) + "\n"


@given(files([*VALUES, *BOUNDS]))
@example("application: -1\nqueue:\n- name: a\n  rate: 5/s\n")
def test_linter_loader_and_schema_agree(text: str) -> None:
    data = text.encode()
    assert refused_for(data) == errors_of(data), text
    assert schema_agrees(data), text


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


@given(files(VALUES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sdk_profile_agrees_with_googles_library(text: str) -> None:
    assume(not ON_PURPOSE.search(text))
    try:
        loads(text, profile="sdk")
        loaded = True
    except InvalidQueueConfigError:
        loaded = False
    assert loaded == accepted_by_google(text)


@given(
    st.one_of(TEXTS.map(lambda text: text.encode(errors="replace")), st.binary(max_size=200)),
    st.sampled_from(PROFILES),
    st.sampled_from(sorted(FORMATS)),
)
def test_any_bytes_are_checked_fixed_and_reported(data: bytes, profile: str, name: str) -> None:
    options = LintOptions(settings=Settings(profile=profile, strict=True), fix=True, unsafe=True)
    report = lint_data(data, file="queue.yaml", options=options)
    for finding in report.findings:
        assert "\n" not in finding.message
        assert (finding.line, finding.column) <= (finding.end_line, finding.end_column)
    assert isinstance(reporter(name)(RunReport([report])), str)
    assert isinstance(report.diff(), str)


def faults(checked: CheckResult) -> list[int]:
    """Return how many errors, warnings and notes there are."""
    counts = Counter(finding.severity for finding in checked.findings)
    return [counts[level] for level in (Severity.ERROR, Severity.WARNING, Severity.INFO)]


@given(TEXTS, st.booleans())
def test_fixes_are_idempotent_and_make_nothing_worse(text: str, unsafe: bool) -> None:  # noqa: FBT001 - drawn
    given_text = text.encode(errors="replace").decode()

    def look(content: str) -> CheckResult:
        return check(content, file="queue.yaml", settings=Settings())

    before = look(given_text)
    fixed = fix_text(given_text, look, unsafe=unsafe)
    again = fix_text(fixed.text, look, unsafe=unsafe)
    assert again.text == fixed.text
    assert again.applied == 0
    if fixed.applied:
        assert fixed.checked.view is not None
        if before.view is not None:
            assert faults(fixed.checked) < faults(before)
    else:
        assert fixed.text == given_text
