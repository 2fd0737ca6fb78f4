"""Comments that suppress findings: `# queue-lint: ignore[RULE]` and `ignore-file[RULE]`."""

from __future__ import annotations

import re
from collections.abc import Collection, Container

from pullqueue.config.document import Place, Scalar, Source, scalar_at
from pullqueue.config.findings import Edit, Fix, Report
from pullqueue.lint.rules import Rule, no_such_rule, rules_named
from pullqueue.text import shorten

_DIRECTIVE = (
    r"(?m)(?:^|(?<=[ \t]))#[ \t]*queue-lint:[ \t]*(ignore-file|ignore)"
    r"(?:[ \t]*\[([^\]\r\n]*)\])?[^\r\n]*"
)
_ALL = "all"


class Directive:
    """One comment that suppresses findings."""

    def __init__(self, place: Place, names_place: Place, line: int | None, names: str) -> None:
        """Keep where the comment and its names are, and the line it is for.

        Without a line it is for the whole file.
        """
        self.place = place
        self.names_place = names_place
        self.line = line
        listed = [name.strip() for name in names.split(",") if name.strip()]
        self.rules = {name: rules_named(name) for name in listed}
        self.used: set[str] = set()
        """The names that suppressed something."""

    def faults(self) -> list[str]:
        """Return what is wrong with the names; a comment without any suppresses nothing."""
        if not self.rules:
            return ["this comment names no rules: write `[RULE]` after `ignore`, or `[all]`"]
        return [no_such_rule(name) for name, rules in self.rules.items() if not rules]

    def hides(self, rule: Rule, *, unused: bool = False) -> bool:
        """Return whether a rule's findings are suppressed; record which names did it.

        With `unused`, the findings are those on unused comments: then `all` counts only if it
        has suppressed something else.
        """
        names = [name for name, rules in self.rules.items() if rule in rules]
        if unused:
            names = [name for name in names if name.lower() != _ALL or name in self.used]
        self.used.update(names)
        return bool(names)


class Comments:
    """A file's ignore comments."""

    def __init__(self, directives: list[Directive]) -> None:
        """Index the comments by the line they are for."""
        self._directives = directives
        self._by_line: dict[int | None, list[Directive]] = {}
        for directive in directives:
            self._by_line.setdefault(directive.line, []).append(directive)

    def hide(self, rule: Rule, line: int) -> bool:
        """Return whether a finding of a rule is suppressed on a line; record by which comment."""
        return any([item.hides(rule) for item in self._near(line)])  # noqa: C419 - all are recorded

    def _near(self, line: int) -> list[Directive]:
        return [*self._by_line.get(line, ()), *self._by_line.get(None, ())]

    def unknown_rules(self) -> list[Report]:
        """Report ignore comments without rules, and unknown ones in others."""
        return [
            Report(at=directive.place, message=message)
            for directive in self._directives
            for message in directive.faults()
        ]

    def unused(self, source: Source, rule: Rule, active: Container[Rule]) -> list[Report]:
        """Report comments, or names in them, that suppressed nothing, unless one hides `rule`."""
        reports = []
        for directive in sorted(self._directives, key=lambda item: item.line is None):
            idle = [
                name
                for name, rules in directive.rules.items()
                if name not in directive.used and _is_judged(rules, active)
            ]
            near = self._near(source.position(directive.place.start)[0])
            if idle and not any(item.hides(rule, unused=True) for item in near):
                reports.append(_unused_report(source, directive, idle))
        return reports


def _is_judged(rules: Collection[Rule], active: Container[Rule]) -> bool:
    """Return whether enough of the rules of a name were checked to call it unused.

    Of a prefix or `all`, those that are on by default must be: one of them may need the comment.
    """
    on = [rule for rule in rules if not rule.opt_in] or rules
    return any(rule in active for rule in rules) and all(rule in active for rule in on)


def ignore_comments(source: Source, scalars: list[Scalar]) -> Comments:
    """Find a file's ignore comments; a look-alike inside a quoted or block value is not one."""
    if "queue-lint:" not in source.text:
        return Comments([])
    below = _lines_below(source)
    return Comments(
        [
            _directive(source, match, below)
            for match in re.finditer(_DIRECTIVE, source.text)
            if scalar_at(scalars, match.start()) is None
        ]
    )


def _directive(source: Source, match: re.Match[str], below: list[int]) -> Directive:
    start, _ = source.line_span(match.start())
    line, _ = source.position(match.start())
    alone = not source.text[start : match.start()].strip()
    return Directive(
        place=Place(match.start(), match.start() + len(match[0].rstrip())),
        names_place=Place(*match.span(2)),
        line=None if match[1] == "ignore-file" else below[line] if alone else line,
        names=match[2] or "",
    )


def _lines_below(source: Source) -> list[int]:
    """Return for each line (from 1) the next one below that has more than a comment."""
    last = len(source.line_starts)
    below = [last] * (last + 1)
    for line in range(last, 1, -1):
        text = source.line_text(line).strip()
        below[line - 1] = line if text and not text.startswith("#") else below[line]
    return below


def _unused_report(source: Source, directive: Directive, idle: list[str]) -> Report:
    listed = ", ".join(f"`{shorten(name)}`" for name in idle)
    possible = any(rule.suppressible for name in idle for rule in directive.rules[name])
    message = f"no finding of {listed} to suppress here: remove it from the comment"
    if [name.lower() for name in idle] == [_ALL]:
        message = "this comment suppresses nothing: remove it"
    elif not possible:
        message = f"findings of {listed} cannot be suppressed: remove it from the comment"
    left = [name for name in directive.rules if name not in idle]
    edit = _removal(source, directive.place)
    fix = Fix(title="remove the comment", edits=(edit,), safe=True)
    if left:
        edit = Edit(*directive.names_place, ", ".join(left))
        fix = Fix(title=f"keep only `{edit.replacement}`", edits=(edit,), safe=True)
    return Report(at=directive.place, message=message, fix=fix)


def _removal(source: Source, place: Place) -> Edit:
    line_start, line_end = source.line_span(place.start)
    before = source.text[line_start : place.start]
    if not before.strip():
        return Edit(line_start, line_end, "")
    return Edit(line_start + len(before.rstrip(" \t")), place.end, "")
