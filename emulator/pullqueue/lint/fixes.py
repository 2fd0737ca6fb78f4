"""Fix files without changing any byte outside an edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pullqueue.config.findings import Edit, Finding, Fix, Severity
from pullqueue.lint.check import CheckResult

_MAX_ROUNDS = 20
_MAX_FOLLOWING = 3
_BOM = "\ufeff"

Check = Callable[[str], CheckResult]


class FixResult(NamedTuple):
    """A file's text after its fixes."""

    text: str
    """With its byte-order mark, if it still has one."""
    applied: int
    """How many fixes were made."""
    checked: CheckResult
    """What is found in the text."""


def fix_text(text: str, check: Check, *, unsafe: bool) -> FixResult:
    """Apply fixes until none is left that can be made.

    Fixes are kept only if the file can be read afterwards and has fewer faults. If all of them
    together do not lead to that, those of each rule are tried. How often the file is checked does
    not depend on the number of its fixes.
    """
    result = FixResult(text, 0, check(text))
    for _ in range(_MAX_ROUNDS):
        findings = result.checked.findings
        rules = dict.fromkeys(finding.rule for finding in findings if finding.fix)
        groups = [[each for each in findings if each.rule == rule] for rule in rules]
        tries = (_try(result, some, check, unsafe=unsafe) for some in (findings, *groups))
        better = next((attempt for attempt in tries if attempt is not None), None)
        if better is None:
            break
        result = better
    return result


def _compatible(findings: Iterable[Finding], *, unsafe: bool) -> list[Fix]:
    """Return the fixes that may be made, leaving out those that touch an earlier one."""
    chosen: list[Fix] = []
    edited: list[Edit] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not (fix.safe or unsafe):
            continue
        if any(_touch(edit, other) for edit in fix.edits for other in edited):
            continue
        chosen.append(fix)
        edited.extend(fix.edits)
    return chosen


def _touch(one: Edit, other: Edit) -> bool:
    return one.start <= other.end and other.start <= one.end


def _try(
    before: FixResult, findings: list[Finding], check: Check, *, unsafe: bool
) -> FixResult | None:
    """Make the fixes of some findings, and those that these reveal; None if the file is not better.

    The value of a misspelt key, for example, is checked when the key has its name.
    """
    last = before
    for _ in range(1 + _MAX_FOLLOWING):
        fixes = _compatible(findings, unsafe=unsafe)
        text = apply(last.text, fixes)
        if text == last.text:
            return None
        last = FixResult(text, last.applied + len(fixes), check(text))
        if _is_better(before.checked, last.checked):
            return last
        if last.checked.view is None:
            return None
        findings = last.checked.findings
    return None


def _is_better(before: CheckResult, after: CheckResult) -> bool:
    if after.view is None:  # as of each cron.yaml
        return not after.findings
    return before.view is None or _faults(after) < _faults(before)


def _faults(result: CheckResult) -> list[int]:
    """Return how many errors there are, then how many warnings, then how many notes."""
    counts = Counter(finding.severity for finding in result.findings)
    return [counts[severity] for severity in Severity]


def apply(text: str, fixes: Iterable[Fix]) -> str:
    """Make the edits of fixes that do not touch each other."""
    fixes = list(fixes)
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    edits = sorted((edit for fix in fixes for edit in fix.edits), key=lambda edit: edit.start)
    for edit in reversed(edits):
        body = body[: edit.start] + edit.replacement + body[edit.end :]
    return body if any(fix.drop_bom for fix in fixes) else bom + body
