"""`pullqueue explain`: what a rule is for."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

import click

from pullqueue.config.settings import PROFILES

if TYPE_CHECKING:
    from pullqueue.config.rules import Rule, RuleDocs

_OFF = "off"
_FIXES = {
    (): "none",
    ("safe",): "safe (--fix)",
    ("unsafe",): "unsafe (--fix --unsafe-fixes)",
    ("safe", "unsafe"): "safe (--fix) or unsafe (--fix --unsafe-fixes)",
}


@click.command
@click.argument("rules", nargs=-1, metavar="RULE...")
@click.option("--list", "listed", is_flag=True, help="List all rules, one per line.")
def explain(rules: tuple[str, ...], *, listed: bool) -> None:
    """Explain rules of the linter.

    What each finds and why, its severity, its fix, bad and good samples. A RULE is a name
    (push-key-on-pull), a code (QY301), the beginning of codes (QY3) or `all`.
    """
    from pullqueue.config.rules import all_rules, docs_of  # noqa: PLC0415 - only a run needs it
    from pullqueue.lint.options import select  # noqa: PLC0415 - the same

    if listed:
        click.echo("\n".join(_line_of(rule, docs_of(rule)) for rule in all_rules()))
        return
    if not rules:
        raise click.UsageError("name a rule, such as QY301, or pass --list")
    chosen = dict.fromkeys(rule for name in rules for rule in select(name))
    click.echo("\n".join(_explanation(rule, docs_of(rule)) for rule in chosen), nl=False)


def _line_of(rule: Rule, docs: RuleDocs) -> str:
    """Return a rule in one line: code, name, severity, what it finds."""
    level = _OFF if rule.opt_in else rule.severity.value
    return f"{rule.code}  {rule.name:<22} {level:<8} {docs.summary}"


def _explanation(rule: Rule, docs: RuleDocs) -> str:
    """Return all that a rule's documentation says."""
    facts = f"{_severity(rule)}\nFix: {_FIXES[rule.fixes]}"
    if rule.once:
        facts += "\nReported once per file."
    if not rule.suppressible:
        facts += "\nCannot be suppressed: nothing else of the file is checked."
    parts = [f"{rule.code} {rule.name}", facts, docs.summary, docs.why]
    for sample in docs.samples:
        note = f" ({sample.note})" if sample.note else ""
        parts.append(f"{'Good' if sample.good else 'Bad'}{note}:\n\n{indent(sample.text, '    ')}")
    parts.append(f"Source: {docs.source}")
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _severity(rule: Rule) -> str:
    default = rule.level(PROFILES[0])
    others = [
        f"{level.value if level else _OFF} in profile {profile}"
        for profile in PROFILES[1:]
        if (level := rule.level(profile)) is not default
    ]
    return ", ".join([f"Severity: {default.value if default else _OFF}", *others])
