"""`pullqueue explain`: what a rule is for."""

from __future__ import annotations

import click


@click.command
@click.argument("rules", nargs=-1, metavar="RULE...")
@click.option("--list", "listed", is_flag=True, help="List all rules, one per line.")
def explain(rules: tuple[str, ...], *, listed: bool) -> None:
    """Explain rules of the linter.

    What each finds and why, a bad and a good sample. A RULE is a name (rate-on-pull), a code
    (QY301), the beginning of codes (QY3) or `all`.
    """
    from pullqueue.config.rules import all_rules  # noqa: PLC0415 - only a run needs it
    from pullqueue.lint.explaining import explanation, line_of  # noqa: PLC0415 - the same
    from pullqueue.lint.selection import select  # noqa: PLC0415 - the same

    if listed:
        click.echo("\n".join(line_of(rule) for rule in all_rules()))
        return
    if not rules:
        raise click.UsageError("name a rule, such as QY301, or write --list")
    chosen = dict.fromkeys(rule for name in rules for rule in select(name))
    click.echo("\n".join(explanation(rule) for rule in chosen), nl=False)
