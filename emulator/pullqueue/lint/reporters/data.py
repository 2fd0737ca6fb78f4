"""Output for programs: JSON, JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pullqueue.config.document import Source
from pullqueue.config.findings import Finding
from pullqueue.lint.report import RunReport

_UNPRINTABLE = re.compile(r"[\x7f-\x9f\ud800-\udfff]")


class EditRange(NamedTuple):
    """An edit with its place in lines and columns."""

    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


def edit_ranges(finding: Finding, source: Source) -> list[EditRange]:
    """Return the edits of a finding's fix with lines and columns."""
    edits = sorted(finding.fix.edits if finding.fix else ())
    return [
        EditRange(*source.position(edit.start), *source.position(edit.end), edit.replacement)
        for edit in edits
    ]


def to_json(document: object, *, indent: int | None = 2) -> str:
    """Write JSON that can be printed: control characters (also DEL and C1) are escaped."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def report_json(report: RunReport) -> str:
    """Write an array with one object per finding."""
    return to_json(list(_objects(report))) + "\n"


def report_jsonl(report: RunReport) -> str:
    """Write one object per line and finding."""
    return "".join(f"{to_json(item, indent=None)}\n" for item in _objects(report))


def _objects(report: RunReport) -> Iterator[dict[str, Any]]:
    for file in report.files:
        for finding in file.findings:
            fields = finding._asdict()
            yield {
                **{("key_path" if name == "path" else name): fields[name] for name in fields},
                "key_path": finding.key_path,
                "severity": finding.severity.value,
                "labels": [label._asdict() for label in finding.labels],
                "fix": _fix(finding, file.source),
            }


def _fix(finding: Finding, source: Source) -> dict[str, Any] | None:
    if finding.fix is None:
        return None
    edits = [edit._asdict() for edit in edit_ranges(finding, source)]
    return {**finding.fix._asdict(), "edits": edits}
