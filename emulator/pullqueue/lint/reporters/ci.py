"""Output for build servers: GitHub Actions, GitLab, JUnit."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from pullqueue.config.findings import Finding, Severity
from pullqueue.config.text import escaped
from pullqueue.lint.reporters.data import to_json
from pullqueue.lint.results import FileResult

_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def report_github(results: Sequence[FileResult]) -> str:
    """Write workflow commands that annotate the lines."""
    return "".join(f"{_command(f)}\n" for result in results for f in result.findings)


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


def report_gitlab(results: Sequence[FileResult]) -> str:
    """Write a Code Quality report; a fingerprint does not change with the line."""
    seen: Counter[str] = Counter()
    issues = []
    for result in results:
        for finding in result.findings:
            identity = f"{finding.file}\n{finding.rule}\n{finding.key_path}\n{finding.message}"
            seen[identity] += 1
            issues.append(_issue(finding, f"{identity}\n{seen[identity]}"))
    return to_json(issues) + "\n"


def _issue(finding: Finding, identity: str) -> dict[str, Any]:
    return {
        "description": f"{finding.rule}: {finding.message}",
        "check_name": finding.code,
        "fingerprint": hashlib.sha256(identity.encode(errors="replace")).hexdigest(),
        "severity": _GITLAB[finding.severity],
        "location": {
            "path": finding.file,
            "lines": {"begin": finding.line, "end": finding.end_line},
        },
    }


def report_junit(results: Sequence[FileResult]) -> str:
    """Write a JUnit report: a suite per file, a failing case per finding."""
    failures = sum(len(result.findings) for result in results)
    cases = sum(max(len(result.findings), 1) for result in results)
    suites = "".join(_suite(result) for result in results)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites name="pullqueue lint" tests="{cases}" failures="{failures}" errors="0">\n'
        f"{suites}</testsuites>\n"
    )


def _suite(result: FileResult) -> str:
    name = quoteattr(escaped(result.file))
    count = len(result.findings)
    cases = "".join(_case(finding, name) for finding in result.findings)
    if not cases:
        cases = f'    <testcase name="queue.yaml" classname={name}/>\n'
    return (
        f'  <testsuite name={name} tests="{max(count, 1)}" failures="{count}" errors="0">\n'
        f"{cases}  </testsuite>\n"
    )


def _case(finding: Finding, file: str) -> str:
    name = f"{finding.code} {finding.rule} line {finding.line}"
    message = quoteattr(finding.message)
    text = escape(str(finding))
    return (
        f"    <testcase name={quoteattr(name)} classname={file}>\n"
        f'      <failure type="{finding.severity.value}" message={message}>{text}</failure>\n'
        "    </testcase>\n"
    )
