"""The catalogue: every rule of queue.yaml, in the order of their codes."""

from __future__ import annotations

import re
from functools import cache

from pullqueue.lint.rules import (  # noqa: F401 - each adds its rules
    acl,
    advice,
    file,
    keys,
    modes,
    names,
    rates,
    retries,
    values,
)
from pullqueue.lint.rules.base import Rule, RuleDocs, Sample, defined_rules, parse_docs
from pullqueue.text import closest, shorten

__all__ = ["Rule", "RuleDocs", "Sample", "all_rules", "no_such_rule", "parse_docs", "rules_named"]

_PREFIX = re.compile(r"QY[0-9]{0,3}")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, ordered by code."""
    return tuple(sorted(defined_rules, key=lambda rule: rule.code))


@cache
def rules_named(name: str) -> tuple[Rule, ...]:
    """Return the rules that a name, a code, the beginning of codes (`QY3`) or `all` selects.

    None at all for a name that no rule has; upper and lower case are the same.
    """
    rules = all_rules()
    if name.lower() == "all":
        return rules
    prefix = name.upper()
    return tuple(
        rule
        for rule in rules
        if rule.name == name.lower() or (_PREFIX.fullmatch(prefix) and rule.code.startswith(prefix))
    )


def no_such_rule(name: str) -> str:
    """Return a message on a name that no rule has."""
    known = [rule.name for rule in all_rules()]
    near = f"QY{name}" if rules_named(f"QY{name}") else closest(name.lower(), known, cutoff=0.6)
    near = near or next((each for each in known if name.lower() in each), None)
    remedy = f"did you mean `{near}`?" if near else "see `pullqueue explain --list`"
    return f'unknown rule "{shorten(name)}": {remedy}'
