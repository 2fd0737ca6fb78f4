"""Check the content of a file: apply the rules and the comments that suppress findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from pullqueue.config.document import Source
from pullqueue.config.findings import Finding, Label, Report, Severity
from pullqueue.config.reader import ParseResult, parse
from pullqueue.config.settings import Settings
from pullqueue.config.view import View
from pullqueue.lint.rules import Rule, all_rules
from pullqueue.lint.suppress import ignore_comments
from pullqueue.text import escaped, list_first

_MAX_LINES = 5

_Found = dict[Rule, list[Report]]


class CheckResult(NamedTuple):
    """What a check found."""

    findings: list[Finding]
    """In the order of the file."""
    source: Source
    view: View | None
    """None if the file could not be read as far as a mapping."""


def check(data: bytes | str, *, file: str, settings: Settings) -> CheckResult:
    """Check the content of a queue.yaml."""
    return check_parsed(parse(data, file=file), settings)


def check_parsed(result: ParseResult, settings: Settings) -> CheckResult:
    """Check what was read from a file."""
    view = View(result, result.root, settings) if result.root is not None else None
    levels = checked_rules(settings)
    found = {rule: _reports(rule, result, view) for rule in levels}
    _drop_cascades(found, levels)
    _apply_comments(found, result, loading=settings.loading)
    findings = [
        _finding(rule, levels[rule], report, result.source)
        for rule, reports in found.items()
        for report in (_merged(reports, result.source) if rule.once else reports)
    ]
    findings.sort(key=lambda finding: (finding.line, finding.column, finding.code))
    return CheckResult(findings, result.source, view)


def checked_rules(settings: Settings) -> Mapping[Rule, Severity]:
    """Return the rules to check, with their severities."""
    return _checked_rules(settings.profile, settings.at_least, *settings.levels.items())


@lru_cache
def _checked_rules(
    profile: str, at_least: Severity, *levels: tuple[str, Severity | None]
) -> Mapping[Rule, Severity]:
    """Return the same for all files with the same settings: it takes a fifth of a check."""
    chosen = dict(levels)
    checked: dict[Rule, Severity] = {}
    for rule in all_rules():
        level = chosen.get(rule.name, rule.level(profile))
        if level is None and not rule.suppressible:
            level = rule.severity
        if level is not None and level.reaches(at_least):
            checked[rule] = level
    return MappingProxyType(checked)


def _reports(rule: Rule, result: ParseResult, view: View | None) -> list[Report]:
    """Return what a rule reports; of several reports on one place the first."""
    reports = [*result.reports.get(rule.name, ()), *(rule.check(view) or () if view else ())]
    return list({report.at: report for report in reversed(reports)}.values())[::-1]


def _drop_cascades(found: _Found, levels: Mapping[Rule, Severity]) -> None:
    """Drop reports on the value of a key that is not allowed at all."""
    removed = {
        report.path
        for rule, reports in found.items()
        if rule.name == "push-key-on-pull" and levels[rule] is Severity.ERROR
        for report in reports
    }
    for rule, reports in found.items():
        if rule.name != "push-key-on-pull":
            found[rule] = [report for report in reports if report.path not in removed]


def _apply_comments(found: _Found, result: ParseResult, *, loading: bool) -> None:
    """Drop what comments suppress, and report what is wrong with the comments themselves.

    They suppress nothing that prevents a file from being loaded.
    """
    source = result.source
    comments = ignore_comments(source, result.scalars)

    rules = {rule.name: rule for rule in found}
    if unknown := rules.get("unknown-rule"):
        found[unknown] = comments.unknown_rules()
    for rule, reports in found.items():
        if rule.suppressible and (rule.loadable or not loading):
            found[rule] = [
                report
                for report in reports
                if not comments.hide(rule, source.position(report.at.start)[0])
            ]
    if (unused := rules.get("unused-ignore")) and result.root is not None:
        found[unused] = comments.unused(source, unused, found)


def _merged(reports: list[Report], source: Source) -> Iterator[Report]:
    """Merge all advice of one rule on a key into one finding."""
    by_key: dict[str, list[Report]] = {}
    for report in sorted(reports, key=lambda report: report.at):
        key = next((part for part in reversed(report.path) if isinstance(part, str)), "")
        by_key.setdefault(key, []).append(report)
    for first, *others in by_key.values():
        lines = sorted({source.position(report.at.start)[0] for report in others})
        word = "line" if len(lines) == 1 else "lines"
        listed = list_first(list(map(str, lines)), _MAX_LINES)
        also = f" (also on {word} {listed})" if lines else ""
        yield first._replace(message=first.message + also)


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
        path=report.path,
        hint=report.hint and escaped(report.hint),
        labels=tuple(
            Label(*source.position(at.start), *source.position(at.end), escaped(text))
            for at, text in report.labels
        ),
        fix=report.fix and report.fix._replace(title=escaped(report.fix.title)),
    )
