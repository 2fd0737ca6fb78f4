"""The catalogue: every rule of queue.yaml, in the order of their codes."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from pullqueue.config.rules import (
    acl,
    advice,
    backoff,
    deployment,
    file,
    grants,
    ignores,
    keys,
    kinds,
    names,
    numbers,
    pull,
    push,
    retries,
    toplevel,
    yaml,
)
from pullqueue.config.rules.base import Rule

__all__ = ["Rule", "all_rules", "find_rule", "near_rules"]

_MODULES = (
    file,
    yaml,
    keys,
    kinds,
    names,
    numbers,
    push,
    retries,
    backoff,
    toplevel,
    pull,
    acl,
    grants,
    advice,
    deployment,
    ignores,
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Give every rule, ordered by code."""
    rules = [rule() for module in _MODULES for rule in _rules_of(module)]
    return tuple(sorted(rules, key=lambda rule: rule.code))


def _rules_of(module: ModuleType) -> list[type[Rule]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and "code" in vars(value)
    ]


@cache
def _index() -> dict[str, Rule]:
    by_name = {rule.name: rule for rule in all_rules()}
    return by_name | {rule.code: rule for rule in all_rules()}


def find_rule(name: str) -> Rule | None:
    """Give a rule by its name or code, in any case."""
    return _index().get(name.lower()) or _index().get(name.upper())


def near_rules(name: str) -> list[str]:
    """Give up to three names of rules that a wrong name may stand for."""
    import difflib  # noqa: PLC0415 - only a wrong name pays for it

    return difflib.get_close_matches(name.lower(), [rule.name for rule in all_rules()], n=3)
