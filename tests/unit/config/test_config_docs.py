"""The documentation of rules says what happens."""

from __future__ import annotations

import pytest

from pullqueue.config.check import check
from pullqueue.config.docs import docs_of
from pullqueue.config.findings import Severity
from pullqueue.config.rules import Rule, all_rules, find_rule, near_rules
from pullqueue.config.settings import Settings


def _rules_found(rule: Rule, content: bytes, note: str) -> set[str]:
    levels = {rule.name: rule.severity}
    profile = note.removeprefix("profile ") if note.startswith("profile ") else "gcloud"
    previous = tuple(note.removeprefix("against ").split(" and "))
    settings = Settings(
        profile=profile,
        levels=levels,
        previous_names=previous if note.startswith("against") else (),
    )
    if "a hundred more" in content.decode(errors="replace"):
        more = "".join(f"- {{name: more{i}, mode: pull}}\n" for i in range(100))
        content = content.replace(b"# and a hundred more\n", more.encode())
    findings = check(content, file="queue.yaml", settings=settings).findings
    return {finding.rule for finding in findings}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_samples_show_what_the_rule_finds(rule: Rule) -> None:
    """The bad samples of a rule are reported by it, the good ones by no rule that is not info."""
    docs = docs_of(rule)
    assert docs.summary
    assert docs.source
    assert {sample.good for sample in docs.samples} == {True, False}
    for sample in docs.samples:
        if sample.note.startswith("file "):
            continue
        found = _rules_found(rule, sample.content, sample.note)
        if sample.good:
            assert rule.name not in found
            assert not [name for name in found if _is_bad(name)]
        else:
            assert rule.name in found


def _is_bad(name: str) -> bool:
    rule = find_rule(name)
    assert rule is not None
    return rule.severity is not Severity.INFO


def test_catalogue_has_81_rules_with_unique_codes_and_names() -> None:
    """Codes and names are unique, well-formed and in order."""
    rules = all_rules()
    assert len(rules) == 81
    assert [rule.code for rule in rules] == sorted({rule.code for rule in rules})
    assert len({rule.name for rule in rules}) == 81
    assert all(rule.code.startswith("QY") and len(rule.code) == 5 for rule in rules)


@pytest.mark.parametrize("name", ["rate-on-pull", "QY301", "qy301", "Rate-On-Pull"])
def test_rules_are_found_by_name_and_code(name: str) -> None:
    """A rule is found by its name or code in any case."""
    rule = find_rule(name)
    assert rule is not None
    assert rule.name == "rate-on-pull"


def test_near_rules_are_proposed() -> None:
    """A wrong name brings those it may stand for, a strange one brings none."""
    assert find_rule("rate-on-pul") is None
    assert near_rules("rate-on-pul")[0] == "rate-on-pull"
    assert near_rules("zzzz") == []
