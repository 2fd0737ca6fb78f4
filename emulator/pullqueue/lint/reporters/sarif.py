"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pullqueue.config.docs import docs_of
from pullqueue.config.findings import Finding, Label, Severity
from pullqueue.config.rules import Rule, all_rules
from pullqueue.config.source import Source
from pullqueue.lint.reporters.data import to_json
from pullqueue.lint.results import FileResult, edit_ranges

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report_sarif(results: Sequence[FileResult]) -> str:
    """Write one run with all rules that were met, the findings and their fixes."""
    met = {finding.rule for result in results for finding in result.findings}
    rules = [rule for rule in all_rules() if rule.name in met]
    index = {rule.name: number for number, rule in enumerate(rules)}
    found = [
        _result(finding, result.source, index[finding.rule])
        for result in results
        for finding in result.findings
    ]
    driver = {
        "name": "pullqueue lint",
        "version": version("pullqueue"),
        "rules": [_rule(rule) for rule in rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return to_json(document) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    docs = docs_of(rule)
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
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, source: Source, rule_index: int) -> dict[str, Any]:
    message = f"{finding.message} ({finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [{"physicalLocation": _location(finding, finding.file)}],
    }
    if finding.labels:
        result["relatedLocations"] = [
            {
                "physicalLocation": _location(label, finding.file),
                "message": {"text": label.message},
            }
            for label in finding.labels
        ]
    if finding.fix and finding.fix.edits:
        result["fixes"] = [_fix(finding, source)]
    return result


def _location(place: Finding | Label, file: str) -> dict[str, Any]:
    return {
        "artifactLocation": {"uri": _uri(file)},
        "region": _region(place.line, place.column, place.end_line, place.end_column),
    }


def _uri(file: str) -> str:
    if Path(file).is_absolute():
        return Path(file).as_uri()
    return quote(file.replace("\\", "/").removeprefix("./"), errors="replace")


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def _fix(finding: Finding, source: Source) -> dict[str, Any]:
    fix = finding.fix
    replacements = [
        {
            "deletedRegion": _region(edit.line, edit.column, edit.end_line, edit.end_column),
            "insertedContent": {"text": edit.replacement},
        }
        for edit in (edit_ranges(fix, source) if fix else ())
    ]
    change = {"artifactLocation": {"uri": _uri(finding.file)}, "replacements": replacements}
    return {
        "description": {"text": fix.title if fix else ""},
        "artifactChanges": [change],
    }
