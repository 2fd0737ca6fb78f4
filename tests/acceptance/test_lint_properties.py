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
NAMES = st.builds("{}{}x".format, st.sampled_from("amz"), st.integers(0, 10**19))
RATES = st.builds("{}/{}".format, st.integers(1, 500), st.sampled_from("smhd"))
AGES = st.builds("{}{}".format, st.integers(1, 1000), st.sampled_from("smhd"))
PUSH = st.fixed_dictionaries(
    {"rate": RATES},
    optional={
        "mode": st.just("push"),
        "bucket_size": st.integers(0, 500).map(str),
        "max_concurrent_requests": st.integers(0, 5000).map(str),
        "target": NAMES | st.builds("{}.{}".format, NAMES, NAMES),
        "retry_parameters": st.fixed_dictionaries(
            {"task_retry_limit": st.integers(0, 100).map(str)},
            optional={
                "task_age_limit": AGES,
                "min_backoff_seconds": st.integers(0, 10).map(str),
                "max_backoff_seconds": st.integers(10, 1000).map(str),
                "max_doublings": st.integers(0, 100).map(str),
            },
        ),
    },
)
PULL = st.fixed_dictionaries(
    {"mode": st.just("pull")},
    optional={
        "retry_parameters": st.fixed_dictionaries(
            {"task_retry_limit": st.integers(0, 100).map(str)}
        ),
        "acl": st.lists(
            st.fixed_dictionaries(
                {"user_email": NAMES.map("{}@my-app.iam.gserviceaccount.com".format)}
            ),
            min_size=1,
        ),
    },
)


@st.composite
def right_files(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a file that production accepts, and the names of its queues."""
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    indent = draw(st.sampled_from(["", "  "]))
    lines = ["queue:"]
    for name in names:
        queue = draw(st.one_of(PUSH, PULL))
        lines.append(f'{indent}- name: "{name}"')
        for key, value in queue.items():
            if isinstance(value, str):
                lines.append(f"{indent}  {key}: {value}")
            elif isinstance(value, dict):
                lines.append(f"{indent}  {key}:  # below")
                lines += [f"{indent}    {inner}: {text}" for inner, text in value.items()]
            elif isinstance(value, list):
                lines.append(f"{indent}  {key}:")
                lines += [f"{indent}  - user_email: {grant['user_email']}" for grant in value]
    return newline.join(lines) + draw(st.sampled_from(["", newline])), names


WRONG = ("", "~", "null", "[]", "{}", "[5/s]", "{a: b}", "5 s", '"5/s\\n"', "PULL", "a_b")
NUMBERS = ("0", "010", "-1", "+7", "500", "501", "2147483648", "1.5", ".5", "1e2", "1:30", '"7"')
RETRY_VALUES = {
    "task_retry_limit": (*NUMBERS, "yes"),
    "task_age_limit": ("2d", "1s", "0.5s", "0s", ".5h", "1e1d", "2D", "1 week"),
    "min_backoff_seconds": (*NUMBERS, ".nan", "10s"),
    "max_backoff_seconds": (*NUMBERS, ".inf", "10s"),
    "max_doublings": (*NUMBERS, "no"),
    "rate": ("5/s",),
    "unknown": ("1",),
}
VALUES = {
    "name": ("jobs", "mail", '"0123"', "0123", "yes", "1.5", "a" * 101, "a" * 500),
    "mode": ("push", "pull", "pul", "no"),
    "rate": ("5/s", "500/s", "501/s", "30000/m", "30001/m", "0", "0.0/d", ".5/s", "5/w", "5"),
    "bucket_size": (*NUMBERS, "ten"),
    "max_concurrent_requests": (*NUMBERS, "5001"),
    "target": ("worker", "v2.worker", "a.b.c", "1.5", "-x"),
    "task_retry_limit": ("7",),
    "unknown": ("1",),
    "acl": ("[{user_email: a@my-app.com}]", "[{}]", "[a@my-app.com]", "[{writer_email: [a]}]"),
}
TOP_VALUES = {
    "total_storage_limit": ("120M", "1.5G", "5", "120MB", "-1", "1e3"),
    "resume_paused_queues": ("true", "off", '"false"', "1"),
    "application": ("my-app", "s~my-app", "My_App", "12"),
}


def mappings(values: dict[str, tuple[str, ...]], **more: Strategy) -> Strategy:
    """Return a strategy for mappings in braces; each with a name, if they can have one."""
    keys = {key: st.sampled_from(texts + WRONG) for key, texts in values.items()}
    named = {"name": keys.pop("name")} if "name" in keys else {}
    drawn = st.fixed_dictionaries(named, optional=keys | more)
    return drawn.map(lambda drawn: f"{{ {', '.join(f'{k}: {v}' for k, v in drawn.items())} }}")


QUEUE = mappings(VALUES, retry_parameters=mappings(RETRY_VALUES) | st.sampled_from(WRONG))


@given(st.lists(QUEUE | st.sampled_from(WRONG), max_size=3), mappings(TOP_VALUES))
def test_linter_loader_and_schema_agree(queues: list[str], top: str) -> None:
    """What the linter calls an error is not loaded, and not allowed by the schema."""
    text = f"{{ queue: [{', '.join(queues)}],{top.removeprefix('{')}".encode()
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


@given(right_files())
def test_right_file_has_no_error_and_loads(drawn: tuple[str, list[str]]) -> None:
    """A file that production accepts has no error, and its queues are loaded."""
    text, names = drawn
    findings = check(text, file="queue.yaml", settings=Settings()).findings
    assert [f for f in findings if f.severity is Severity.ERROR] == []
    assert [queue.name for queue in loads(text).queues] == names


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
