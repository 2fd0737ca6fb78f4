"""Which rules are looked for, and how bad they are: profile, selection, severities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from click import UsageError

from pullqueue.config.findings import Severity
from pullqueue.config.rules import Rule, all_rules, find_rule, near_rules

_PREFIX = re.compile(r"QY[0-9]{0,3}", re.IGNORECASE)
OFF = "off"
LEVELS = (*(severity.value for severity in Severity), OFF)


def select(name: str) -> tuple[Rule, ...]:
    """Give the rules that a name, a code, the beginning of one (`QY3`) or `all` stands for.

    Raises:
        click.UsageError: no rule is called so.
    """
    if name.lower() == "all":
        return all_rules()
    rule = find_rule(name)
    if rule is not None:
        return (rule,)
    if _PREFIX.fullmatch(name):
        rules = tuple(rule for rule in all_rules() if rule.code.startswith(name.upper()))
        if rules:
            return rules
    near = near_rules(name)
    advice = f"did you mean `{near[0]}`?" if near else "see `pullqueue explain --list`"
    raise UsageError(f'there is no rule "{name}": {advice}')


def levels(
    *,
    profile: str,
    selected: Iterable[str] = (),
    ignored: Iterable[str] = (),
    severities: Mapping[str, str] | None = None,
) -> dict[str, Severity | None]:
    """Give the severity of every rule that is not as the profile has it.

    A selection leaves out all other rules, and a severity turns a rule on that is off. A fault
    that leaves nothing to read from a file cannot be left out.

    Raises:
        click.UsageError: a name is that of no rule, or a severity is none.
    """
    result: dict[str, Severity | None] = {}
    wanted = {rule for name in selected for rule in select(name)}
    if wanted:
        result = {
            rule.name: (rule.level(profile) or rule.severity) if rule in wanted else None
            for rule in all_rules()
        }
    for name, level in (severities or {}).items():
        if level not in LEVELS:
            raise UsageError(f'"{level}" is no severity: choose of {", ".join(LEVELS)}')
        result |= dict.fromkeys(
            (rule.name for rule in select(name)), None if level == OFF else Severity(level)
        )
    result |= dict.fromkeys((rule.name for name in ignored for rule in select(name)), None)
    return {
        name: level
        for name, level in result.items()
        if level is not None or not _leaves_nothing(name)
    }


def _leaves_nothing(name: str) -> bool:
    rule = find_rule(name)
    return rule is not None and not rule.hideable and rule.code < "QY1"
