"""Fix files without changing any byte outside an edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pullqueue.config.findings import Edit, Finding, Fix, Severity
from pullqueue.lint.check import CheckResult

_MAX_ROUNDS = 20
_MAX_SINGLE = 200
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

    Fixes are kept only if the file can be read afterwards and has no new fault. If all of them
    together cause one, they are tried one by one.
    """
    result = FixResult(text, 0, check(text))
    for _ in range(_MAX_ROUNDS):
        fixes = _compatible(result.checked.findings, unsafe=unsafe)
        singly = ([fix] for fix in fixes[:_MAX_SINGLE]) if len(fixes) > 1 else ()
        tries = (_try(result, some, check) for some in (fixes, *singly))
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


def _try(before: FixResult, fixes: list[Fix], check: Check) -> FixResult | None:
    """Apply some fixes; return None if that does not improve the file."""
    text = apply(before.text, fixes)
    if text == before.text:
        return None
    after = check(text)
    if not _is_better(before.checked, after):
        return None
    return FixResult(text, before.applied + len(fixes), after)


def _is_better(before: CheckResult, after: CheckResult) -> bool:
    if after.view is None:  # as of each cron.yaml
        return not after.findings
    if before.view is None:
        return True
    faults_before, notes_before = _count(before.findings)
    faults_after, notes_after = _count(after.findings)
    return faults_after < faults_before or (
        faults_after == faults_before and notes_after < notes_before
    )


def _count(findings: Iterable[Finding]) -> tuple[Counter[str], Counter[str]]:
    """Count faults and notes by rule, separately: a fix may cause a note."""
    faults: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for finding in findings:
        (notes if finding.severity is Severity.INFO else faults)[finding.rule] += 1
    return faults, notes


def apply(text: str, fixes: Iterable[Fix]) -> str:
    """Make the edits of fixes that do not touch each other."""
    fixes = list(fixes)
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    edits = sorted((edit for fix in fixes for edit in fix.edits), key=lambda edit: edit.start)
    for edit in reversed(edits):
        body = body[: edit.start] + edit.replacement + body[edit.end :]
    return body if any(fix.drop_bom for fix in fixes) else bom + body
