"""Comments that hide findings: `# queue-lint: ignore[rule]` and `# queue-lint: ignore-file`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from pullqueue.config.findings import Edit, Fix
from pullqueue.config.nodes import Scalar, shorten
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules import Rule, find_rule, near_rules
from pullqueue.config.source import Source

_DIRECTIVE = re.compile(
    r"(?:^|(?<=[ \t]))#[ \t]*queue-lint:[ \t]*(ignore-file|ignore)\b[ \t]*"
    r"(?:\[([^\]\r\n]*)\])?[^\r\n]*",
    re.MULTILINE,
)


@dataclass(kw_only=True, eq=False)
class Directive:
    """One comment that hides findings."""

    place: Place
    line: int | None
    """The line it speaks of; None: the whole file."""
    rules: dict[str, Rule | None]
    """The rules as they are written; empty: all of them."""
    used: set[str] = field(default_factory=set)
    """The names that hid something; `*` for a comment that names none."""

    def hides(self, rule: Rule, line: int) -> bool:
        """Tell whether a finding is hidden, and remember it."""
        if self.line is not None and self.line != line:
            return False
        names = [name for name, known in self.rules.items() if known is rule]
        self.used.update(names or ({"*"} if not self.rules else ()))
        return bool(names) or not self.rules


def directives(source: Source, scalars: list[Scalar]) -> list[Directive]:
    """Find a file's ignore comments; a look-alike inside a quoted or block value is none."""
    if "queue-lint:" not in source.text:
        return []
    starts = [scalar.start for scalar in scalars]
    found = []
    for match in _DIRECTIVE.finditer(source.text):
        index = bisect_right(starts, match.start()) - 1
        if index >= 0 and match.start() < scalars[index].end:
            continue
        found.append(_directive(source, match))
    return found


def _directive(source: Source, match: re.Match[str]) -> Directive:
    names = [name.strip() for name in (match[2] or "").split(",")]
    line = None if match[1] == "ignore-file" else _line_meant(source, match.start())
    return Directive(
        place=Place(match.start(), match.start() + len(match[0].rstrip())),
        line=line,
        rules={name: find_rule(name) for name in names if name},
    )


def _line_meant(source: Source, offset: int) -> int:
    """The comment's own line, or below a comment that stands alone the next with something."""
    line, _ = source.position(offset)
    start, _ = source.line_span(offset)
    if source.text[start:offset].strip():
        return line
    while line < len(source.line_starts):
        line += 1
        if (text := source.line_text(line).strip()) and not text.startswith("#"):
            break
    return line


def unknown_rules(found: Iterable[Directive]) -> list[Report]:
    """Report names in comments that no rule has."""
    reports = []
    for directive in found:
        for name, rule in directive.rules.items():
            if rule is None:
                near = near_rules(name)
                advice = f"did you mean `{near[0]}`?" if near else "see `pullqueue explain --list`"
                message = f'there is no rule "{shorten(name)}": {advice}'
                reports.append(Report(at=directive.place, message=message))
    return reports


def unused(source: Source, found: Iterable[Directive], active: Iterable[Rule]) -> list[Report]:
    """Report comments, or names in them, that hid nothing though their rule was looked for."""
    looked_for = set(active)
    reports = []
    for directive in found:
        if not directive.rules:
            idle = [] if directive.used else ["*"]
        else:
            idle = [
                name
                for name, rule in directive.rules.items()
                if rule in looked_for and name not in directive.used
            ]
        if idle:
            reports.append(_unused_report(source, directive, idle))
    return reports


def _unused_report(source: Source, directive: Directive, idle: list[str]) -> Report:
    names = ", ".join(f"`{shorten(name)}`" for name in idle if name != "*")
    message = f"this comment hides nothing{f' by {names}' if names else ''}: remove it"
    fix = None
    if len(idle) == max(len(directive.rules), 1):
        edit = _removal(source, directive.place)
        fix = Fix(title="remove the comment", edits=(edit,), safe=True)
    return Report(at=directive.place, message=message, fix=fix)


def _removal(source: Source, place: Place) -> Edit:
    line_start, line_end = source.line_span(place.start)
    before = source.text[line_start : place.start]
    if not before.strip():
        return Edit(line_start, line_end, "")
    return Edit(line_start + len(before.rstrip(" \t")), place.end, "")
