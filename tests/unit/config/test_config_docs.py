"""The documentation of rules says what happens."""

from __future__ import annotations

import pytest

from pullqueue.config.findings import Severity
from pullqueue.config.settings import Settings
from pullqueue.lint.check import check
from pullqueue.lint.rules import Rule, all_rules, no_such_rule, parse_docs, rules_named


def _rules_found(rule: Rule, content: bytes, note: str) -> set[str]:
    levels = {rule.name: rule.severity}
    profile = note.removeprefix("profile ") if note.startswith("profile ") else "gcloud"
    previous = dict.fromkeys(note.removeprefix("against ").split(" and "), "push")
    settings = Settings(
        profile=profile,
        levels=levels,
        previous_modes=previous if note.startswith("against") else {},
    )
    if "a hundred more" in content.decode(errors="replace"):
        more = "".join(f"- {{name: more{i}, mode: pull}}\n" for i in range(100))
        content = content.replace(b"# and a hundred more\n", more.encode())
    findings = check(content, file="queue.yaml", settings=settings).findings
    return {finding.rule for finding in findings}


def test_samples_show_what_the_rule_finds() -> None:
    for rule in all_rules():
        docs = parse_docs(rule)
        assert docs.summary, rule
        assert docs.source, rule
        assert [sample for sample in docs.samples if not sample.good], rule
        for sample in docs.samples:
            if sample.note.startswith("file "):
                continue
            found = _rules_found(rule, sample.content, sample.note)
            if sample.good:
                assert rule.name not in found
                assert not [name for name in found if _is_bad(name)], rule
            else:
                assert rule.name in found


def _is_bad(name: str) -> bool:
    (rule,) = rules_named(name)
    return rule.severity is not Severity.INFO


def test_codes_and_names_of_rules_are_unique_well_formed_and_in_order() -> None:
    rules = all_rules()
    assert [rule.code for rule in rules] == sorted({rule.code for rule in rules})
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.code.startswith("QY") and len(rule.code) == 5 for rule in rules)


def test_advice_is_reported_once_per_file() -> None:
    assert [
        rule.name for rule in all_rules() if rule.severity is Severity.INFO and not rule.once
    ] == []


@pytest.mark.parametrize("name", ["rate-format", "QY208", "qy208", "Rate-Format"])
def test_rules_are_found_by_name_and_code(name: str) -> None:
    assert [rule.name for rule in rules_named(name)] == ["rate-format"]


def test_rules_are_found_by_the_beginning_of_codes() -> None:
    assert [rule.name for rule in rules_named("QY90")] == ["unused-ignore", "unknown-rule"]
    assert rules_named("ALL") == all_rules()
    assert rules_named("QY8") == ()


def test_near_rules_are_proposed() -> None:
    assert no_such_rule("rate-fromat") == 'unknown rule "rate-fromat": did you mean `rate-format`?'
    assert no_such_rule("zzzz") == 'unknown rule "zzzz": see `pullqueue explain --list`'
