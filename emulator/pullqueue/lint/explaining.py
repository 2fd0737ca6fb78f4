"""A rule's documentation as text."""

from __future__ import annotations

from textwrap import indent

from pullqueue.config.docs import docs_of
from pullqueue.config.profiles import PROFILES
from pullqueue.config.rules import Rule

_OFF = "off"


def line_of(rule: Rule) -> str:
    """Give a rule in one line: code, name, severity, what it finds."""
    level = _OFF if rule.opt_in else rule.severity.value
    return f"{rule.code}  {rule.name:<28} {level:<8} {docs_of(rule).summary}"


def explanation(rule: Rule) -> str:
    """Give all that a rule's documentation says."""
    docs = docs_of(rule)
    parts = [f"{rule.code} {rule.name}", _levels(rule), docs.summary, docs.why]
    for sample in docs.samples:
        note = f" ({sample.note})" if sample.note else ""
        parts.append(f"{'Good' if sample.good else 'Bad'}{note}:\n\n{indent(sample.text, '    ')}")
    if not rule.hideable:
        parts.append("No comment can hide it: nothing could be read from the file then.")
    parts.append(f"Source: {docs.source}")
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _levels(rule: Rule) -> str:
    default = rule.level(PROFILES[0])
    others = [
        f"{level.value if level else _OFF} in profile {profile}"
        for profile in PROFILES[1:]
        if (level := rule.level(profile)) is not default
    ]
    return ", ".join([f"Severity: {default.value if default else _OFF}", *others])
