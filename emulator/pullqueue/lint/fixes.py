"""Mending files: every byte outside an edit stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pullqueue.config.check import Checked
from pullqueue.config.findings import Edit, Finding, Fix, Severity

_MOST_ROUNDS = 20
_MOST_SINGLE = 200
_BOM = "\ufeff"

Check = Callable[[str], Checked]


class Mended(NamedTuple):
    """A file's text after its fixes."""

    text: str
    """With its byte-order mark, if it still has one."""
    applied: int
    """How many fixes were made."""
    checked: Checked
    """What is left to say."""


def mend(text: str, check: Check, *, unsafe: bool) -> Mended:
    """Apply fixes until none is left that can be made.

    A fix is kept only if the file can be read afterwards and has no fault it did not have: where
    all together lead to one, they are tried one by one.
    """
    checked = check(text)
    applied = 0
    for _ in range(_MOST_ROUNDS):
        fixes = _compatible(checked.findings, unsafe=unsafe)
        if not fixes:
            break
        attempt = _try(text, fixes, checked, check) or _try_singly(text, fixes, checked, check)
        if attempt is None:
            break
        text, checked, count = attempt
        applied += count
    return Mended(text, applied, checked)


def _compatible(findings: Iterable[Finding], *, unsafe: bool) -> list[Fix]:
    """Give the fixes that may be made, leaving out those that touch an earlier one."""
    chosen: list[Fix] = []
    taken: list[Edit] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not (fix.safe or unsafe):
            continue
        if any(_touch(edit, other) for edit in fix.edits for other in taken):
            continue
        chosen.append(fix)
        taken.extend(fix.edits)
    return chosen


def _touch(one: Edit, other: Edit) -> bool:
    return one.start <= other.end and other.start <= one.end


def _try(
    text: str, fixes: list[Fix], before: Checked, check: Check
) -> tuple[str, Checked, int] | None:
    mended = apply(text, fixes)
    after = check(mended)
    return (mended, after, len(fixes)) if mended != text and _is_better(before, after) else None


def _try_singly(
    text: str, fixes: list[Fix], before: Checked, check: Check
) -> tuple[str, Checked, int] | None:
    """Make the first fix that mends something; the others have their turn afterwards."""
    if len(fixes) == 1:
        return None
    tries = (_try(text, [fix], before, check) for fix in fixes[:_MOST_SINGLE])
    return next((attempt for attempt in tries if attempt), None)


def _is_better(before: Checked, after: Checked) -> bool:
    if after.view is None:
        return False
    if before.view is None:
        return True
    faults_before, notes_before = _count(before.findings)
    faults_after, notes_after = _count(after.findings)
    return faults_after < faults_before or (
        faults_after == faults_before and notes_after < notes_before
    )


def _count(findings: Iterable[Finding]) -> tuple[Counter[str], Counter[str]]:
    """Count faults and mere notes by rule: a mended file may deserve another note."""
    faults: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for finding in findings:
        (notes if finding.severity is Severity.INFO else faults)[finding.rule] += 1
    return faults, notes


def apply(text: str, fixes: Iterable[Fix]) -> str:
    """Make the edits of fixes that do not touch."""
    fixes = list(fixes)
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    edits = sorted((edit for fix in fixes for edit in fix.edits), key=lambda edit: edit.start)
    for edit in reversed(edits):
        body = body[: edit.start] + edit.replacement + body[edit.end :]
    return body if any(fix.drop_bom for fix in fixes) else bom + body
