"""The baseline: a file of known findings, which a run does not report."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pullqueue.config.files import read_project_file, read_stamp, replace_project_file
from pullqueue.lint.errors import InvalidOptionError
from pullqueue.lint.report import FileReport
from pullqueue.lint.search import absolute
from pullqueue.text import escaped, list_first

_MAX_LISTED = 3


class Baseline:
    """How often each finding may occur, by file, rule and key."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InvalidOptionError: the file is not a baseline.
            ConfigFileError: the file cannot be read.
        """
        self._path = path
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

    def known_in(self, path: Path) -> dict[tuple[str, str], int]:
        """Return how often each finding of a file may occur, by rule and key."""
        name = _relative(path, self._folder)
        return {(rule, key): n for (file, rule, key), n in self._counts.items() if file == name}

    def stale_note(self, reports: Sequence[FileReport]) -> str | None:
        """Return a note on entries that no longer occur in the files of a run.

        Entries of files that exist and were not checked may still occur; those of files that do
        not exist cannot.
        """
        stale = [f"{finding} in {report.file}" for report in reports for finding in report.stale]
        gone = {file for file, _, _ in self._counts if not (self._folder / file).exists()}
        stale += [
            f"{rule} at {key or 'the file'} in {file}"
            for file, rule, key in self._counts
            if file in gone
        ]
        if not stale:
            return None
        return (
            f'the baseline "{escaped(str(self._path))}" has findings that no longer occur '
            f"({escaped(list_first(stale, _MAX_LISTED))}): write it again with "
            "--write-baseline"
        )


def refuse_other_file(path: Path) -> None:
    """Refuse to write a baseline over a file that is not one.

    Raises:
        InvalidOptionError: there is such a file.
        ConfigFileError: what is there cannot be read.
    """
    try:
        if read_stamp(path):
            Baseline(path)
    except InvalidOptionError:
        message = (
            f'--write-baseline: "{escaped(str(path))}" exists and is not a baseline: name another '
            "file, or delete this one first"
        )
        raise InvalidOptionError(message) from None


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
