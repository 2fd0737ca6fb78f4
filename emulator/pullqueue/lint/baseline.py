"""The baseline: a file of known findings, which a run does not report."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pullqueue.config.files import read_project_file, replace_project_file
from pullqueue.lint.errors import InvalidOptionError
from pullqueue.lint.report import FileReport
from pullqueue.lint.search import absolute
from pullqueue.text import escaped


class Baseline:
    """How often each finding may occur, by file, rule and key."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InvalidOptionError: the file is not a baseline.
            ConfigFileError: the file cannot be read.
        """
        self._folder = path.parent.resolve()
        try:
            entries = json.loads(read_project_file(path))["findings"]
            self._counts: dict[tuple[str, str, str], int] = {
                (entry["file"], entry["rule"], entry["key"]): int(entry["count"])
                for entry in entries
            }
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            message = f'"{escaped(str(path))}" is not a baseline: write it with --write-baseline'
            raise InvalidOptionError(message) from None

    def of(self, path: Path) -> dict[tuple[str, str], int]:
        """Return how often each finding of a file may occur, by rule and key."""
        name = _relative(path, self._folder)
        return {(rule, key): n for (file, rule, key), n in self._counts.items() if file == name}


def write_baseline(path: Path, reports: Sequence[FileReport]) -> None:
    """Write the findings of some files as a baseline."""
    folder = path.parent.resolve()
    counts = Counter(
        (_relative(Path(report.file), folder), finding.rule, key)
        for report in reports
        for finding, key in zip(report.findings, report.keys, strict=True)
    )
    findings = [
        {"file": file, "rule": rule, "key": key, "count": count}
        for (file, rule, key), count in sorted(counts.items())
    ]
    replace_project_file(path, (json.dumps({"findings": findings}, indent=2) + "\n").encode())


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(absolute(path), folder)).as_posix()
