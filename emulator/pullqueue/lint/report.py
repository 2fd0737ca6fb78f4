"""Check one file: its findings, and its text after the fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pullqueue.config.document import Path as KeyPath
from pullqueue.config.document import Source, path_text
from pullqueue.config.findings import Finding, Severity
from pullqueue.config.reader import ParseResult, parse
from pullqueue.config.settings import Settings
from pullqueue.lint.check import CheckResult, check_parsed, checked_rules
from pullqueue.lint.search import absolute
from pullqueue.text import escaped


class LintOptions(NamedTuple):
    """How a file is checked and fixed."""

    settings: Settings = Settings()
    fix: bool = False
    """True to make safe fixes."""
    unsafe: bool = False
    """With `fix`: True to make all fixes."""
    known: Mapping[tuple[str, str], int] = MappingProxyType({})
    """How often a finding may occur without being reported, by rule and key."""

    read: Callable[[bytes | str, str], ParseResult] = parse
    """Parses the content of a file, whose name is the second argument."""


class FileReport(NamedTuple):
    """One file and its findings."""

    file: str
    """Its name in messages."""
    source: Source
    findings: list[Finding]
    keys: list[str]
    """The key of each finding, which does not depend on its line: `queue[mail].rate`."""
    before: str = ""
    """The text before it was fixed; empty if nothing was fixed."""
    after: str = ""
    """The fixed text."""
    fixed: int = 0
    """How many fixes were made."""
    stale: tuple[str, ...] = ()
    """Known findings that did not occur, as rule and key."""

    def relative_to(self, root: Path) -> FileReport:
        """Return the report with the file's path relative to a folder, if it is in that folder."""
        place = absolute(Path(self.file))
        if not place.is_relative_to(root):
            return self
        name = place.relative_to(root).as_posix()
        return self._replace(file=name, findings=[f._replace(file=name) for f in self.findings])

    def diff(self) -> str:
        """Return the fixes as a unified diff."""
        from difflib import unified_diff  # noqa: PLC0415 - seldom asked for

        name = escaped(self.file)
        lines = unified_diff(
            self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), name, name
        )
        return "".join(
            line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


class RunReport(NamedTuple):
    """The files of one run, and what their output depends on."""

    files: list[FileReport]
    threshold: Severity | None = Severity.ERROR
    """The lowest severity that makes the run fail; None: none does."""
    colour: bool = False

    @property
    def findings(self) -> list[Finding]:
        """The findings of all files."""
        return [finding for report in self.files for finding in report.findings]

    def relative_to(self, root: Path) -> RunReport:
        """Return the report with paths relative to a folder, for the files that are in it."""
        return self._replace(files=[file.relative_to(root) for file in self.files])

    def fails(self, finding: Finding) -> bool:
        """Return whether a finding makes the run fail."""
        return self.threshold is not None and finding.severity.reaches(self.threshold)


def lint_data(data: bytes, *, file: str, options: LintOptions) -> FileReport:
    """Check a file's content, and fix it if the options say so."""

    def check(content: bytes | str) -> tuple[CheckResult, Counter[tuple[str, str]]]:
        found = check_parsed(options.read(content, file), options.settings)
        return _without_known(found, options.known)

    result, left = check(data)
    checked = {rule.name for rule in checked_rules(options.settings)}
    stale = tuple(
        f"{rule} at {key or 'the file'}"
        for (rule, key), count in left.items()
        if count > 0 and rule in checked
    )
    before, after, fixed = "", "", 0
    if options.fix and any(f.fix and (f.fix.safe or options.unsafe) for f in result.findings):
        from pullqueue.lint.fixes import fix_text  # noqa: PLC0415 - not every run fixes

        before = data.decode()  # a fix is offered only for a text that could be decoded
        after, fixed, result = fix_text(before, lambda text: check(text)[0], unsafe=options.unsafe)
    keys = [key for _, key in keyed(result)]
    return FileReport(file, result.source, result.findings, keys, before, after, fixed, stale)


def keyed(result: CheckResult) -> list[tuple[Finding, str]]:
    """Return each finding with its key: its path, with the queue's name instead of its index."""
    queues = result.view.queue_at if result.view else {}

    def key(path: KeyPath) -> str:
        queue = queues.get(path[1]) if path[:1] == ("queue",) and len(path) > 1 else None
        named = (f"queue[{queue.name}]", *path[2:]) if queue and queue.name else path
        return path_text(named)

    return [(finding, key(finding.path)) for finding in result.findings]


def _without_known(
    result: CheckResult, known: Mapping[tuple[str, str], int]
) -> tuple[CheckResult, Counter[tuple[str, str]]]:
    """Return the findings that are not known, and how many of the known ones did not occur."""
    left = Counter(known)
    findings = []
    for finding, key in keyed(result):
        left[finding.rule, key] -= 1
        if left[finding.rule, key] < 0:
            findings.append(finding)
    return result._replace(findings=findings), left
