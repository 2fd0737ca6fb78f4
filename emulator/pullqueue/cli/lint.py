"""Commands that need no server: `pullqueue lint`, `explain` and `schema`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from textwrap import indent
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click

from pullqueue.cli._words import Choice
from pullqueue.config.settings import PROFILES
from pullqueue.error_codes import EXIT_USAGE
from pullqueue.lint.options import Arguments, Level, Option, leaves

if TYPE_CHECKING:
    from pullqueue.lint.rules import Rule, RuleDocs

_OFF = "off"
_FIXES = {
    (): "none",
    ("safe",): "safe (--fix)",
    ("unsafe",): "unsafe (--fix --unsafe-fixes)",
    ("safe", "unsafe"): "safe (--fix) or unsafe (--fix --unsafe-fixes)",
}


class _SettingsError(click.ClickException):
    """a file has settings that are not valid"""

    exit_code = EXIT_USAGE


def _rules(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names in values, each of which may be several with commas."""
    return tuple(name.strip() for part in values for name in part.split(",") if name.strip())


def _severities(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    levels = get_args(Level)
    pairs = [name.partition("=") for name in _rules(ctx, parameter, values)]
    for name, equals, level in pairs:
        if not equals:
            raise click.UsageError(f'invalid --severity "{name}": use RULE=LEVEL')
        if level not in levels:
            raise click.UsageError(f'invalid severity "{level}": use {", ".join(levels)}')
    return {name: level for name, _, level in pairs}


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    kinds = get_type_hints(Arguments, include_extras=True)
    for each in reversed(fields(Arguments)):
        kind = kinds[each.name]
        for option in getattr(kind, "__metadata__", ()):
            add = _option(each.name, get_args(kind)[0], option, each.default)
            command = add(command)
    return command


def _option(
    name: str, kind: object, option: Option, default: object
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    is_flag = bool in leaves(kind)
    is_several = default == () or default is MISSING
    words = [*option.choices, *(word for word in leaves(kind) if isinstance(word, str))]
    return click.option(
        f"--{name.replace('_', '-')}",
        is_flag=is_flag,
        multiple=is_several,
        type=Choice(words) if words and not is_several else None,
        default=None if is_several else default,
        metavar=option.metavar,
        callback=_CALLBACKS.get(option.metavar or ""),
        help=option.help,
    )


_CALLBACKS = {"RULE": _rules, "RULE=LEVEL": _severities}


@click.command
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER|-]...")
@_with_options
def lint(**options: Any) -> int:
    """Check queue.yaml files.

    Without arguments, check those in this folder and below it. A RULE is a name
    (push-key-on-pull), a code (QY301), the beginning of codes (QY3) or `all`;
    `pullqueue explain --list` lists them.

    A comment `# queue-lint: ignore[RULE]` on a line or above it suppresses findings there,
    `# queue-lint: ignore-file[RULE]` in the whole file. Settings are read from the table
    [tool.pullqueue.lint] of the pyproject.toml nearest to each file; what concerns the whole run
    (fail-on, exclude, baseline), from the one nearest to the working directory.

    A cron.yaml that is passed, whatever its name, is checked as `serve --cron` reads it.

    Exit status: 0 no error found, 1 errors (--fail-on sets another severity), 2 usage error or
    invalid settings, 3 a file is missing or cannot be read or written.
    """
    from pullqueue.cli._linter import run
    from pullqueue.lint.errors import InvalidOptionError, InvalidSettingsError

    try:
        return run(Arguments(**options))
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from None
    except InvalidSettingsError as error:
        raise _SettingsError(str(error)) from None


@click.command
@click.argument("rules", nargs=-1, metavar="RULE...")
@click.option("--list", "listed", is_flag=True, help="List all rules, one per line.")
def explain(rules: tuple[str, ...], *, listed: bool) -> None:
    """Explain rules of the linter.

    Print what each rule finds and why, its severity, its fix, and bad and good samples. A RULE
    is a name (push-key-on-pull), a code (QY301), the beginning of codes (QY3) or `all`.
    """
    from pullqueue.lint.rules import all_rules, no_such_rule, parse_docs, rules_named

    if listed:
        click.echo("\n".join(_format_rule(rule, parse_docs(rule)) for rule in all_rules()))
        return
    if not rules:
        raise click.UsageError("name a rule, such as QY301, or pass --list")
    for name in rules:
        if not rules_named(name):
            raise click.UsageError(no_such_rule(name))
    chosen = dict.fromkeys(rule for name in rules for rule in rules_named(name))
    click.echo("\n".join(_explanation(rule, parse_docs(rule)) for rule in chosen), nl=False)


def _format_rule(rule: Rule, docs: RuleDocs) -> str:
    """Return a rule in one line: code, name, severity, what it finds."""
    level = _OFF if rule.opt_in else rule.severity.value
    return f"{rule.code}  {rule.name:<22} {level:<8} {docs.summary}"


def _explanation(rule: Rule, docs: RuleDocs) -> str:
    facts = f"{_severity(rule)}\nFix: {_FIXES[rule.fixes]}"
    if rule.once:
        facts += "\nReported once per file and key."
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


@click.command
@click.option(
    "--draft",
    type=Choice(["2020-12", "7"]),
    default="2020-12",
    help="The version of JSON Schema; editors and SchemaStore use 7.",
)
@click.option(
    "--problem-matcher",
    is_flag=True,
    help="Print GitHub's problem matcher for `lint --format full` instead.",
)
def schema(*, draft: str, problem_matcher: bool) -> None:
    """Print the JSON Schema of queue.yaml.

    Save it, and point an editor's YAML language server to it with a first line such as
    `# yaml-language-server: $schema=./queue.schema.json`.
    """
    from pullqueue.config.schema import package_data, published

    if problem_matcher:
        click.echo(package_data("problem-matcher.json").decode(), nl=False)
    else:
        click.echo(published(draft=draft), nl=False)
