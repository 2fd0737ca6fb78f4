"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pullqueue.config.findings import Finding, Label, Severity
from pullqueue.lint.report import FileReport, RunReport
from pullqueue.lint.reporters.ci import fingerprints
from pullqueue.lint.reporters.data import EditRange, edit_ranges, to_json
from pullqueue.lint.rules import Rule, all_rules, parse_docs

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report_sarif(report: RunReport) -> str:
    """Write one run with all rules that have findings, the findings and their fixes."""
    found = {finding.rule for finding in report.findings}
    rules = [rule for rule in all_rules() if rule.name in found]
    index = {rule.name: number for number, rule in enumerate(rules)}
    driver = {
        "name": "pullqueue lint",
        "version": version("pullqueue"),
        "rules": [_rule(rule) for rule in rules],
    }
    results = [
        _result(file, finding, fingerprint, index[finding.rule])
        for file, finding, fingerprint in fingerprints(report)
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return to_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
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
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(file: FileReport, finding: Finding, fingerprint: str, index: int) -> dict[str, Any]:
    message = f"{finding.message} ({finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [_location(finding, file.file)],
        "partialFingerprints": {"pullqueueFinding/v1": fingerprint},
    }
    if finding.labels:
        result["relatedLocations"] = [
            _location(label, file.file) | {"message": {"text": label.message}}
            for label in finding.labels
        ]
    if finding.fix and (edits := edit_ranges(finding, file.source)):
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
