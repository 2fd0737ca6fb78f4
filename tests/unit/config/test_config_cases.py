"""Every written case: its faults, one as a rule, are named with their lines on its first lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pullqueue.config import loads
from pullqueue.config.check import check
from pullqueue.config.findings import Severity
from pullqueue.config.rules import rules_named
from pullqueue.config.settings import Settings
from pullqueue.errors import InvalidQueueConfigError

CASES = sorted((Path(__file__).parents[2] / "lint_cases").glob("*.yaml"))
_EXPECT = re.compile(rb"# expect: (\S+)(?: line (\d+))?")


def expected(case: Path) -> list[tuple[str, int]]:
    """Read what a case is written for."""
    matches = list(_EXPECT.finditer(case.read_bytes()))
    assert matches, f"{case.name} says nothing of what to expect"
    return [(match[1].decode(), int(match[2])) for match in matches if match[2]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_case_has_its_faults_and_no_others(case: Path) -> None:
    """A case is reported for its faults, at their lines, or not at all."""
    findings = check(case.read_bytes(), file=case.name, settings=Settings()).findings
    assert [(finding.rule, finding.line) for finding in findings] == expected(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_case_loads_unless_its_fault_is_an_error(case: Path) -> None:
    """`loads` refuses a case for an error, and only for that."""
    refused_for: list[tuple[str, int]] = []
    try:
        loads(case.read_bytes())
    except InvalidQueueConfigError as error:
        refused_for = [(problem.rule, problem.line) for problem in error.problems]
    errors = []
    for name, line in expected(case):
        (rule,) = rules_named(name)
        if rule.severity is Severity.ERROR:
            errors.append((name, line))
    assert refused_for == errors


def test_ten_megabytes_are_refused() -> None:
    """A file of ten megabytes is refused for its size, at its first line."""
    findings = check(b"#" + b"x" * 10_000_000, file="f", settings=Settings()).findings
    assert [(finding.rule, finding.line) for finding in findings] == [("file-too-large", 1)]
