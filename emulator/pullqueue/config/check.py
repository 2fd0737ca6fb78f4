"""A file's content in, its findings out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from pullqueue.config.findings import Finding, Label, Severity
from pullqueue.config.reading import Reading, read
from pullqueue.config.reports import Report
from pullqueue.config.rules import Rule, all_rules
from pullqueue.config.settings import Settings
from pullqueue.config.source import Source
from pullqueue.config.suppress import Comments, ignore_comments, unknown_rules, unused
from pullqueue.config.text import escaped
from pullqueue.config.view import View


class Checked(NamedTuple):
    """What became of a check."""

    findings: list[Finding]
    """In the order of the file."""
    source: Source
    view: View | None
    """None where the file could not be read as far as a mapping."""


def check(data: bytes | str, *, file: str, settings: Settings) -> Checked:
    """Check a file's content."""
    reading = read(data, file=file, max_bytes=settings.max_bytes)
    view = View(reading, reading.root, settings) if reading.root is not None else None
    levels = _levels(settings.profile, settings.at_least, tuple(settings.levels.items()))
    reports = {rule: _reports(rule, reading, view) for rule in levels}
    _drop_cascades(reports, levels)
    comments = ignore_comments(reading.source, reading.scalars)
    findings = [
        _finding(rule, levels[rule], report, reading.source)
        for rule, report in _visible(reports, reading.source, comments)
    ]
    findings += _on_comments(levels, reading, comments)
    findings.sort(key=lambda finding: (finding.line, finding.column, finding.code))
    return Checked(findings, reading.source, view)


@cache
def _levels(
    profile: str, at_least: Severity, changed: tuple[tuple[str, Severity | None], ...]
) -> dict[Rule, Severity]:
    """Give the severities of the rules that are looked for."""
    levels: dict[Rule, Severity] = {}
    for rule in all_rules():
        level = dict(changed).get(rule.name, rule.level(profile))
        if level is not None and level.reaches(at_least):
            levels[rule] = level
    return levels


def _reports(rule: Rule, reading: Reading, view: View | None) -> list[Report]:
    reports = [*reading.found.of(rule.name), *(rule.check(view) if view else ())]
    if len(reports) < 2:
        return reports
    return list({report.at: report for report in reversed(reports)}.values())[::-1]


def _drop_cascades(reports: dict[Rule, list[Report]], levels: Mapping[Rule, Severity]) -> None:
    """A key that has to go needs no second report on its value."""
    gone = {
        report.path
        for rule, found in reports.items()
        if rule.name.endswith("-on-pull") and levels[rule] is Severity.ERROR
        for report in found
    }
    for rule, found in reports.items():
        if gone and not rule.name.endswith("-on-pull"):
            reports[rule] = [report for report in found if report.path not in gone]


def _visible(
    reports: Mapping[Rule, Iterable[Report]], source: Source, comments: Comments
) -> Iterator[tuple[Rule, Report]]:
    for rule, found in reports.items():
        for report in found:
            line, _ = source.position(report.at.start)
            if not comments.hide(rule, line):
                yield rule, report


def _on_comments(
    levels: Mapping[Rule, Severity], reading: Reading, comments: Comments
) -> list[Finding]:
    """What is wrong with the ignore comments themselves."""
    found = {"unknown-rule": unknown_rules(comments)}
    if reading.root is not None:
        found["unused-ignore"] = unused(reading.source, comments, levels)
    return [
        _finding(rule, level, report, reading.source)
        for rule, level in levels.items()
        for report in found.get(rule.name, ())
    ]


def _finding(rule: Rule, severity: Severity, report: Report, source: Source) -> Finding:
    line, column = source.position(report.at.start)
    end_line, end_column = source.position(max(report.at.end, report.at.start))
    return Finding(
        file=source.file,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        code=rule.code,
        rule=rule.name,
        severity=severity,
        message=escaped(report.message),
        key_path=report.path,
        hint=report.hint and escaped(report.hint),
        labels=tuple(
            Label(
                **dict(zip(("line", "column"), source.position(place.start), strict=True)),
                **dict(zip(("end_line", "end_column"), source.position(place.end), strict=True)),
                message=escaped(text),
            )
            for place, text in report.labels
        ),
        fix=report.fix and report.fix._replace(title=escaped(report.fix.title)),
    )
