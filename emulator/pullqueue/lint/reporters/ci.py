"""Output for build servers: GitHub Actions, GitLab, JUnit."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from pullqueue.config.findings import Finding, Severity
from pullqueue.lint.report import FileReport, RunReport
from pullqueue.lint.reporters.data import to_json
from pullqueue.text import escaped

_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def report_github(report: RunReport) -> str:
    """Write workflow commands that annotate the lines."""
    return "".join(f"{_command(finding)}\n" for finding in report.findings)


def _command(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": finding.line,
        "endLine": finding.end_line,
        "title": f"{finding.code} {finding.rule}",
    }
    if finding.line == finding.end_line:
        properties |= {"col": finding.column, "endColumn": finding.end_column}
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{_GITHUB[finding.severity]} {listed}::{_data(finding.message)}"


def _data(text: str) -> str:
    return escaped(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def fingerprints(report: RunReport) -> Iterator[tuple[FileReport, Finding, str]]:
    """Yield each finding with an identity that does not change with its line or its queue's."""
    seen: Counter[str] = Counter()
    for file in report.files:
        for finding, key in zip(file.findings, file.keys, strict=True):
            identity = f"{finding.file}\n{finding.rule}\n{key}"
            seen[identity] += 1
            text = f"{identity}\n{seen[identity]}"
            yield file, finding, hashlib.sha256(text.encode(errors="replace")).hexdigest()


def report_gitlab(report: RunReport) -> str:
    """Write a Code Quality report."""
    issues: list[dict[str, Any]] = [
        {
            "description": f"{finding.rule}: {finding.message}",
            "check_name": finding.code,
            "fingerprint": fingerprint,
            "severity": _GITLAB[finding.severity],
            "location": {
                "path": finding.file,
                "lines": {"begin": finding.line, "end": finding.end_line},
            },
        }
        for _, finding, fingerprint in fingerprints(report)
    ]
    return to_json(issues) + "\n"


def report_junit(report: RunReport) -> str:
    """Write a JUnit report: a suite per file, a case per finding.

    Findings that make the run fail are failures, the others are passed cases with an output.
    """
    cases = sum(max(len(file.findings), 1) for file in report.files)
    suites = "".join(_suite(file, report) for file in report.files)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites name="pullqueue lint" tests="{cases}" '
        f'failures="{sum(map(report.fails, report.findings))}" errors="0">\n'
        f"{suites}</testsuites>\n"
    )


def _suite(file: FileReport, report: RunReport) -> str:
    name = quoteattr(escaped(file.file))
    count = len(file.findings)
    cases = "".join(_case(finding, name, report) for finding in file.findings)
    if not cases:
        cases = f"    <testcase name={name} classname={name}/>\n"
    failures = sum(map(report.fails, file.findings))
    return (
        f'  <testsuite name={name} tests="{max(count, 1)}" failures="{failures}" errors="0">\n'
        f"{cases}  </testsuite>\n"
    )


def _case(finding: Finding, file: str, report: RunReport) -> str:
    name = f"{finding.code} {finding.rule} line {finding.line}"
    result = f"<system-out>{finding.severity.value}: {escape(str(finding))}</system-out>"
    if report.fails(finding):
        attributes = f'type="{finding.severity.value}" message={quoteattr(finding.message)}'
        result = f"<failure {attributes}>{escape(str(finding))}</failure>"
    return (
        f"    <testcase name={quoteattr(name)} classname={file}>\n      {result}\n    </testcase>\n"
    )
