"""Every written case: its faults are named on its first lines, its report is kept beside it.

`PULLQUEUE_REGENERATE=1` writes the files again; look at the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from pullqueue.config import loads
from pullqueue.config.findings import Severity
from pullqueue.config.schema import Json, schema_errors
from pullqueue.errors import InvalidQueueConfigError
from pullqueue.lint.report import FileReport, LintOptions, RunReport, lint_data
from pullqueue.lint.reporters import FORMATS, reporter

CASES = Path(__file__).parents[2] / "lint_cases"
FILES = sorted(CASES.glob("*.yaml"))
SHOWN = [
    "acl_duplicate",
    "bucket_octal",
    "nul_byte",
    "pull_rate_before_mode",
    "name_non_ascii",
    "crlf_ok",
    "unicode_columns",
    "utf8_bom",
]
"""The cases whose findings are kept in every format."""


EXPECTED = re.compile(rb"# expect: (\S+)(?: line (\d+))?")
BEYOND_A_SCHEMA = {
    "age-limit-range": "an exponent can make an age limit infinite",
    "backoff-order": "two values are compared",
    "backoff-format": "JSON has no infinite numbers",
    "duplicate-key": "data have one of them",
    "duplicate-queue-name": "the names of two queues are compared",
    "integer-format": "an exponent is a number to some readers",
    "storage-limit-format": "a number of any length is a number",
    "too-many-queues": "`default` is not counted",
    "unknown-rule": "data have no comments",
}
"""Rules of severity error that need more than a schema can say."""
UNREADABLE = {
    "anchor-or-alias", "complex-key", "control-character", "encoding", "multiple-documents",
    "other-program", "tab-indent", "unrendered-template", "yaml-syntax", "yaml-tag",
}  # fmt: skip
"""Rules on files that are not read as data, or not by every reader."""


def _lint(case: Path, *, fix: bool = False) -> FileReport:
    options = LintOptions(fix=fix, unsafe=True)
    return lint_data(case.read_bytes(), file=case.name, options=options)


def _full(report: FileReport) -> str:
    return reporter("full")(RunReport([report]))


def _compare(path: Path, text: str) -> None:
    if os.environ.get("PULLQUEUE_REGENERATE"):
        path.write_bytes(text.encode())
    kept = path.read_bytes().decode() if path.exists() else ""
    assert text == kept


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.stem)
def test_report_and_fix_of_each_case(case: Path) -> None:
    """A case has its faults and no others; its report, and its fixed text, are those kept."""
    report = _lint(case)
    expected = [match for match in EXPECTED.finditer(case.read_bytes()) if match[2]]
    assert [(finding.rule, finding.line) for finding in report.findings] == [
        (match[1].decode(), int(match[2])) for match in expected
    ]
    text = _full(report)
    fixed = _lint(case, fix=True)
    if fixed.fixed:
        text += f"{fixed.diff()}{_full(fixed)}"
    if text:
        _compare(CASES / "expected" / f"{case.stem}.txt", text)
    else:
        assert not (CASES / "expected" / f"{case.stem}.txt").exists()


def _errors(text: bytes) -> list[tuple[str, int]]:
    findings = lint_data(text, file="queue.yaml", options=LintOptions()).findings
    return [(each.rule, each.line) for each in findings if each.severity is Severity.ERROR]


def _refused_for(text: bytes) -> list[tuple[str, int]]:
    try:
        loads(text)
    except InvalidQueueConfigError as error:
        return [(problem.rule, problem.line) for problem in error.problems]
    return []


def test_loading_refuses_what_the_linter_calls_an_error() -> None:
    """`loads` refuses a case for its errors, and only for these."""
    texts = {case.name: case.read_bytes() for case in FILES}

    assert [name for name, text in texts.items() if _refused_for(text) != _errors(text)] == []


def _schema_agrees(text: bytes) -> bool:
    rules = {rule for rule, _ in _errors(text)}
    if rules & UNREADABLE:
        return True
    refused = schema_errors(_as_json(yaml.safe_load(text)))
    return bool(rules) if refused else rules <= BEYOND_A_SCHEMA.keys()


def _as_json(data: Any) -> Json:
    """Return dates as text, as tools do that have no type for them."""
    if isinstance(data, dict):
        return {str(key): _as_json(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_as_json(item) for item in data]
    return data.isoformat() if isinstance(data, date) else data


def test_schema_refuses_what_the_linter_calls_an_error() -> None:
    """The schema refuses a case for its errors, as far as it can, and only for these."""
    texts = {case.name: case.read_bytes().replace(b"queue-lint", b"no more") for case in FILES}

    assert [name for name, text in texts.items() if not _schema_agrees(text)] == []


def test_nothing_is_kept_of_cases_that_are_gone() -> None:
    """Each report that is kept belongs to a case."""
    kept = {path.stem for path in (CASES / "expected").glob("*.txt")}
    assert kept <= {case.stem for case in FILES}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    """Every format writes the findings of some cases as it is kept."""
    report = RunReport([_lint(CASES / f"{case}.yaml") for case in SHOWN])
    text = reporter(name)(report).replace(f'"{version("pullqueue")}"', '"VERSION"')
    _compare(CASES / "formats" / f"{name}.txt", text)
