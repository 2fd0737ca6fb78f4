"""What holds for any file at all, and for any right one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from lint_agreement import errors_of, refused_for, schema_agrees

from pullqueue.config import loads
from pullqueue.config.check import CheckResult, check
from pullqueue.config.findings import Severity
from pullqueue.config.settings import PROFILES, Settings
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

Strategy = st.SearchStrategy[str]
Values = dict[str, tuple[str, ...]]
NUMBERS = ("1", "7", "500")
RIGHT_TOP: Values = {
    "total_storage_limit": ("120M", "1.5G", "5"),
    "resume_paused_queues": ("true",),
}
RIGHT_RETRY: Values = {
    "task_retry_limit": NUMBERS,
    "task_age_limit": ("2d", "1s", "0.5d"),
    "min_backoff_seconds": ("0.1", "1"),
    "max_backoff_seconds": NUMBERS,
    "max_doublings": NUMBERS,
}
RIGHT_PUSH: Values = {
    "mode": ("push",),
    "rate": ("5/s", "500/s", "30000/m", "0.5/d"),
    "bucket_size": NUMBERS,
    "max_concurrent_requests": (*NUMBERS, "5000"),
    "target": ("worker", "v2.worker"),
}
RIGHT_ACL = ("[{user_email: a@my-app.com}]", "[{user_email: a@b.cd}, {writer_email: a@b.cd}]")
"""What production accepts."""

NONE = ("", "~", "null", "[]", "{}", "[5/s]", "{a: b}", "5 s", '"5/s\\n"', "PULL", "a_b")
NOT_NUMBERS = ("0", "010", "-1", "+7", "501", "2147483648", "1.5", ".5", "1e2", "1:30", '"7"')
WRONG_TOP: Values = {
    "total_storage_limit": ("120MB", "-1", "1e3"),
    "resume_paused_queues": ("off", '"false"', "1"),
    "application": ("my-app", "s~my-app", "My_App", "12"),
}
WRONG_RETRY: Values = {
    "task_retry_limit": (*NOT_NUMBERS, "yes"),
    "task_age_limit": ("0.5s", "0s", ".5h", "1e1d", "2D", "1 week"),
    "min_backoff_seconds": (*NOT_NUMBERS, ".nan", "10s"),
    "max_backoff_seconds": (*NOT_NUMBERS, ".inf", "10s"),
    "max_doublings": (*NOT_NUMBERS, "no"),
    "rate": ("5/s",),
    "unknown": ("1",),
}
WRONG_QUEUE: Values = {
    "mode": ("pull", "pul", "no"),
    "rate": ("501/s", "30001/m", "0", "0.0/d", ".5/s", "5/w", "5"),
    "bucket_size": (*NOT_NUMBERS, "ten"),
    "max_concurrent_requests": (*NOT_NUMBERS, "5001"),
    "target": ("a.b.c", "1.5", "-x"),
    "acl": (*RIGHT_ACL, "[{}]", "[a@my-app.com]", "[{writer_email: [a]}]"),
    "task_retry_limit": ("7",),
    "unknown": ("1",),
}
NAMES = ("jobs", "mail", '"0123"', "0123", "yes", "1.5", "a" * 101, "a" * 500, *NONE)
"""What it does not, or not everywhere."""


def mappings(*values: Values, **always: Strategy) -> Strategy:
    """Return a strategy for mappings in braces, with any keys and some that are always there."""
    keys = {key for some in values for key in some} - always.keys()
    texts = {key: sum((some.get(key, ()) for some in values), ()) for key in sorted(keys)}
    optional = {key: st.sampled_from(some) for key, some in texts.items()}
    drawn = st.fixed_dictionaries(always, optional=optional)
    return drawn.map(lambda drawn: f"{{ {', '.join(f'{k}: {v}' for k, v in drawn.items())} }}")


def file_of(queues: list[str], top: str) -> str:
    """Return a file; a queue that is called NUMBER is called by its number."""
    named = (text.replace("NUMBER", f'"{number}"') for number, text in enumerate(queues))
    return f"{{ queue: [{', '.join(named)}],{top.removeprefix('{')}"


NUMBERED = st.just("NUMBER")
PUSH = mappings(
    RIGHT_PUSH,
    name=NUMBERED,
    rate=st.sampled_from(RIGHT_PUSH["rate"]),
    retry_parameters=mappings(RIGHT_RETRY),
)
PULL = mappings({"acl": RIGHT_ACL}, name=NUMBERED, mode=st.just("pull"))
ANY_QUEUE = mappings(
    RIGHT_PUSH,
    WRONG_QUEUE,
    name=st.sampled_from(NAMES),
    retry_parameters=mappings(RIGHT_RETRY, WRONG_RETRY) | st.sampled_from(NONE),
)


@given(st.lists(PUSH | PULL, max_size=5), mappings(RIGHT_TOP))
def test_right_file_has_no_error_and_loads(queues: list[str], top: str) -> None:
    """A file that production accepts has no error, and its queues are loaded."""
    text = file_of(queues, top)
    findings = check(text, file="queue.yaml", settings=Settings()).findings
    assert [f for f in findings if f.severity is Severity.ERROR] == []
    assert [queue.name for queue in loads(text).queues] == [str(n) for n in range(len(queues))]


@given(st.lists(ANY_QUEUE | st.sampled_from(NONE), max_size=3), mappings(RIGHT_TOP, WRONG_TOP))
def test_linter_loader_and_schema_agree(queues: list[str], top: str) -> None:
    """What the linter calls an error is not loaded, and not allowed by the schema."""
    text = file_of(queues, top).encode()
    assert refused_for(text) == errors_of(text), text
    assert schema_agrees(text), text


@given(
    st.one_of(TEXTS.map(lambda text: text.encode(errors="replace")), st.binary(max_size=200)),
    st.sampled_from(PROFILES),
    st.sampled_from(sorted(FORMATS)),
)
def test_any_bytes_are_checked_fixed_and_reported(data: bytes, profile: str, name: str) -> None:
    """No file at all makes the linter fail, whatever is asked for."""
    options = LintOptions(settings=Settings(profile=profile, strict=True), fix=True, unsafe=True)
    report = lint_data(data, file="queue.yaml", options=options)
    for finding in report.findings:
        assert "\n" not in finding.message
        assert (finding.line, finding.column) <= (finding.end_line, finding.end_column)
    assert isinstance(reporter(name)(RunReport([report])), str)
    assert isinstance(report.diff(), str)


@given(TEXTS, st.booleans())
def test_fixes_are_idempotent_and_make_nothing_worse(text: str, unsafe: bool) -> None:  # noqa: FBT001 - drawn
    """A fixed file can be read, has no new fault, and is not fixed a second time."""
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
            faults = Counter(f.rule for f in before.findings if f.severity is not Severity.INFO)
            left = Counter(
                f.rule for f in fixed.checked.findings if f.severity is not Severity.INFO
            )
            assert left <= faults
    else:
        assert fixed.text == given_text
