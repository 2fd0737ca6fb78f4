"""What was found in one file."""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.config.findings import Finding, Fix
from pullqueue.config.source import Source


class FileResult(NamedTuple):
    """One file and its findings."""

    file: str
    """As messages call it."""
    source: Source
    findings: list[Finding]


class EditRange(NamedTuple):
    """An edit with its place in lines and columns."""

    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


def edit_ranges(fix: Fix, source: Source) -> list[EditRange]:
    """Give a fix's edits with lines and columns."""
    return [
        EditRange(*source.position(edit.start), *source.position(edit.end), edit.replacement)
        for edit in sorted(fix.edits, key=lambda edit: edit.start)
    ]
