"""Output for programs: JSON, GitHub Actions, GitLab, JUnit, SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from pullqueue.config.document import Source
from pullqueue.config.findings import Finding, Label, Severity
from pullqueue.lint.report import FileReport, RunReport
from pullqueue.lint.rules import Rule, all_rules, parse_docs
from pullqueue.text import escaped

_UNPRINTABLE = re.compile(r"[\x7f-\x9f\ud800-\udfff]")
_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}
_SARIF = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class EditRange(NamedTuple):
    """An edit with its place in lines and columns."""

    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


def _edits(finding: Finding, source: Source) -> list[EditRange]:
    return [
        EditRange(*source.position(edit.start), *source.position(edit.end), edit.replacement)
        for edit in sorted(finding.fix.edits if finding.fix else ())
    ]


def _to_json(document: object, *, indent: int | None = 2) -> str:
    """Write JSON that can be printed: control characters (also DEL and C1) are escaped."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def report_json(report: RunReport) -> str:
    """Write an array with one object per finding."""
    return _to_json(list(_objects(report)))


def report_jsonl(report: RunReport) -> str:
    """Write one object per line and finding."""
    return "".join(_to_json(item, indent=None) for item in _objects(report))


def _objects(report: RunReport) -> Iterator[dict[str, Any]]:
    for file in report.files:
        for finding in file.findings:
            fields = finding._asdict()
            yield {
                **{("key_path" if name == "path" else name): fields[name] for name in fields},
                "key_path": finding.key_path,
                "severity": finding.severity.value,
                "labels": [label._asdict() for label in finding.labels],
                "fix": finding.fix
                and {
                    **finding.fix._asdict(),
                    "edits": [edit._asdict() for edit in _edits(finding, file.source)],
                },
            }


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
    listed = ",".join(
        f"{key}={_data(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
    )
    return f"::{_GITHUB[finding.severity]} {listed}::{_data(finding.message)}"


def _data(text: str) -> str:
    return escaped(text).replace("%", "%25")


def _fingerprints(report: RunReport) -> Iterator[tuple[FileReport, Finding, str]]:
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
        for _, finding, fingerprint in _fingerprints(report)
    ]
    return _to_json(issues)


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


def report_sarif(report: RunReport) -> str:
    """Write one run with all rules that have findings, the findings and their fixes."""
    found = {finding.rule for finding in report.findings}
    rules = [rule for rule in all_rules() if rule.name in found]
    index = {rule.name: number for number, rule in enumerate(rules)}
    project = metadata("pullqueue")
    urls = dict(each.split(", ", 1) for each in project.get_all("Project-URL", ()))
    driver = {
        "name": "pullqueue lint",
        "version": project["Version"],
        "informationUri": urls["Source"],
        "rules": [_rule(rule, urls["Documentation"]) for rule in rules],
    }
    results = [
        _result(file, finding, fingerprint, index[finding.rule])
        for file, finding, fingerprint in _fingerprints(report)
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return _to_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule, pages: str) -> dict[str, Any]:
    docs = parse_docs(rule)
    samples = "\n".join(
        f"{'Good' if sample.good else 'Bad'}:\n\n{sample.text}" for sample in docs.samples
    )
    text = "\n\n".join(part for part in (docs.summary, docs.why, samples, docs.source) if part)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": docs.summary},
        "fullDescription": {"text": docs.why or docs.summary},
        "help": {"text": text},
        "helpUri": f"{pages}/reference/rules.md#{rule.code.lower()}",
        "defaultConfiguration": {"level": _SARIF[rule.severity]},
    }


def _result(file: FileReport, finding: Finding, fingerprint: str, index: int) -> dict[str, Any]:
    message = f"{finding.message} ({finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _SARIF[finding.severity],
        "message": {"text": message},
        "locations": [_location(finding, file.file)],
        "partialFingerprints": {"pullqueueFinding/v1": fingerprint},
    }
    if finding.labels:
        result["relatedLocations"] = [
            _location(label, file.file) | {"message": {"text": label.message}}
            for label in finding.labels
        ]
    if finding.fix and (edits := _edits(finding, file.source)):
        replacements = [
            {"deletedRegion": _region(edit), "insertedContent": {"text": edit.replacement}}
            for edit in edits
        ]
        artifact = {"artifactLocation": {"uri": _uri(file.file)}, "replacements": replacements}
        result["fixes"] = [
            {"description": {"text": finding.fix.title}, "artifactChanges": [artifact]}
        ]
    return result


def _location(at: Finding | Label, file: str) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _uri(file)}, "region": _region(at)}
    return {"physicalLocation": place}


def _uri(file: str) -> str:
    if Path(file).is_absolute():
        return Path(file).as_uri()
    return quote(file.replace("\\", "/").removeprefix("./"), errors="replace")


def _region(at: Finding | Label | EditRange) -> dict[str, int]:
    return {
        "startLine": at.line,
        "startColumn": at.column,
        "endLine": at.end_line,
        "endColumn": at.end_column,
    }
