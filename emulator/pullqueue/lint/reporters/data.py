"""Output for programs: JSON, JSON lines, Reviewdog's diagnostics."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pullqueue.config.findings import Finding, Severity
from pullqueue.config.source import Source
from pullqueue.lint.results import FileResult, edit_ranges

_UNPRINTABLE = re.compile(r"[\x7f-\x9f\ud800-\udfff]")
_RDJSON_SEVERITIES = {
    Severity.ERROR: "ERROR",
    Severity.WARNING: "WARNING",
    Severity.INFO: "INFO",
}


def to_json(document: object, *, indent: int | None = 2) -> str:
    """Write JSON that can be printed: control characters (also DEL and C1) are escaped."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def report_json(results: Sequence[FileResult]) -> str:
    """Write an array with one object per finding."""
    return to_json(_objects(results)) + "\n"


def report_jsonl(results: Sequence[FileResult]) -> str:
    """Write one object per line and finding."""
    return "".join(f"{to_json(item, indent=None)}\n" for item in _objects(results))


def _objects(results: Sequence[FileResult]) -> list[dict[str, Any]]:
    return [_object(finding, result.source) for result in results for finding in result.findings]


def _object(finding: Finding, source: Source) -> dict[str, Any]:
    return {
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "code": finding.code,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "key_path": finding.key_path,
        "hint": finding.hint,
        "labels": [
            {
                "line": label.line,
                "column": label.column,
                "end_line": label.end_line,
                "end_column": label.end_column,
                "message": label.message,
            }
            for label in finding.labels
        ],
        "fix": _fix(finding, source),
    }


def _fix(finding: Finding, source: Source) -> dict[str, Any] | None:
    if finding.fix is None:
        return None
    return {
        "title": finding.fix.title,
        "safe": finding.fix.safe,
        "drop_bom": finding.fix.drop_bom,
        "edits": [edit._asdict() for edit in edit_ranges(finding.fix, source)],
    }


def report_rdjson(results: Sequence[FileResult]) -> str:
    """Write Reviewdog's diagnostics; its columns count bytes of UTF-8."""
    diagnostics = [
        _diagnostic(finding, result.source) for result in results for finding in result.findings
    ]
    document = {"source": {"name": "pullqueue lint"}, "diagnostics": diagnostics}
    return to_json(document) + "\n"


def _diagnostic(finding: Finding, source: Source) -> dict[str, Any]:
    diagnostic: dict[str, Any] = {
        "message": finding.message,
        "location": {
            "path": finding.file,
            "range": _byte_range(
                source, finding.line, finding.column, finding.end_line, finding.end_column
            ),
        },
        "severity": _RDJSON_SEVERITIES[finding.severity],
        "code": {"value": f"{finding.code} {finding.rule}"},
    }
    if finding.fix and finding.fix.edits:
        diagnostic["suggestions"] = [
            {
                "range": _byte_range(
                    source, edit.line, edit.column, edit.end_line, edit.end_column
                ),
                "text": edit.replacement,
            }
            for edit in edit_ranges(finding.fix, source)
        ]
    return diagnostic


def _byte_range(
    source: Source, line: int, column: int, end_line: int, end_column: int
) -> dict[str, Any]:
    return {
        "start": {"line": line, "column": _byte_column(source, line, column)},
        "end": {"line": end_line, "column": _byte_column(source, end_line, end_column)},
    }


def _byte_column(source: Source, line: int, column: int) -> int:
    before = source.line_text(line)[: column - 1]
    return len(before.encode(errors="surrogatepass")) + 1
