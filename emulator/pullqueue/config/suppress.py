"""Comments that hide findings: `# queue-lint: ignore[rule]` and `# queue-lint: ignore-file`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from pullqueue.config.findings import Edit, Fix
from pullqueue.config.nodes import Scalar
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules import Rule, find_rule, near_rules
from pullqueue.config.source import Source
from pullqueue.config.text import shorten

_DIRECTIVE = re.compile(
    r"(?:^|(?<=[ \t]))#[ \t]*queue-lint:[ \t]*(ignore-file|ignore)\b[ \t]*"
    r"(?:\[([^\]\r\n]*)\])?[^\r\n]*",
    re.MULTILINE,
)
_MOST_ADVICE = 20


class Directive:
    """One comment that hides findings."""

    def __init__(
        self, place: Place, names: Place, line: int | None, rules: dict[str, Rule | None]
    ) -> None:
        """Keep where it and its names stand, the line it speaks of, its rules as they are written.

        Without a line it speaks of the whole file, without rules of all of them.
        """
        self.place = place
        self.names = names
        self.line = line
        self.rules = rules
        self.used: set[str] = set()
        """The names that hid something; `*` for a comment that names none."""

    def hides(self, rule: Rule) -> bool:
        """Tell whether a rule's findings are hidden, and remember it."""
        names = [name for name, known in self.rules.items() if known is rule]
        self.used.update(names or ({"*"} if not self.rules else ()))
        return bool(names) or not self.rules


class Comments:
    """A file's ignore comments."""

    def __init__(self, found: Iterable[Directive] = ()) -> None:
        """Index the comments by the line they speak of."""
        self.directives = list(found)
        self._by_line: dict[int | None, list[Directive]] = {}
        for directive in self.directives:
            self._by_line.setdefault(directive.line, []).append(directive)

    def hide(self, rule: Rule, line: int) -> bool:
        """Tell whether a finding of a rule is hidden on a line, and remember by what."""
        if not rule.hideable:
            return False
        near = [*self._by_line.get(line, ()), *self._by_line.get(None, ())]
        hiding = [directive for directive in near if directive.hides(rule)]
        return bool(hiding)


def ignore_comments(source: Source, scalars: list[Scalar]) -> Comments:
    """Find a file's ignore comments; a look-alike inside a quoted or block value is none."""
    if "queue-lint:" not in source.text:
        return Comments()
    starts = [scalar.start for scalar in scalars]
    found = []
    below = _lines_below(source)
    for match in _DIRECTIVE.finditer(source.text):
        index = bisect_right(starts, match.start()) - 1
        if index >= 0 and match.start() < scalars[index].end:
            continue
        found.append(_directive(source, match, below))
    return Comments(found)


def _directive(source: Source, match: re.Match[str], below: list[int]) -> Directive:
    names = [name.strip() for name in (match[2] or "").split(",")]
    start, _ = source.line_span(match.start())
    line, _ = source.position(match.start())
    alone = not source.text[start : match.start()].strip()
    meant = None if match[1] == "ignore-file" else below[line] if alone else line
    return Directive(
        place=Place(match.start(), match.start() + len(match[0].rstrip())),
        names=Place(*match.span(2)),
        line=meant,
        rules={name: find_rule(name) for name in names if name},
    )


def _lines_below(source: Source) -> list[int]:
    """Give for each line (from 1) the next one below that holds more than a comment."""
    lines = source.text.splitlines() if "\r" in source.text else source.text.split("\n")
    below = [len(lines)] * (len(source.line_starts) + 1)
    for line in range(len(lines) - 1, 0, -1):
        text = lines[line].strip()
        below[line] = line + 1 if text and not text.startswith("#") else below[line + 1]
    return below


def unknown_rules(comments: Comments) -> list[Report]:
    """Report names in comments that no rule has."""
    reports: list[Report] = []
    for directive in comments.directives:
        for name, rule in directive.rules.items():
            if rule is None:
                near = near_rules(name) if len(reports) < _MOST_ADVICE else []
                advice = f"did you mean `{near[0]}`?" if near else "see `pullqueue explain --list`"
                message = f'there is no rule "{shorten(name)}": {advice}'
                reports.append(Report(at=directive.place, message=message))
    return reports


def unused(source: Source, comments: Comments, active: Iterable[Rule]) -> list[Report]:
    """Report comments, or names in them, that hid nothing though their rule was looked for."""
    looked_for = set(active)
    reports = []
    for directive in comments.directives:
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
    message = _idle_message(directive, idle)
    left = [name for name in directive.rules if name not in idle]
    if left:
        edit = Edit(*directive.names, ", ".join(left))
        fix = Fix(title=f"leave {edit.replacement}", edits=(edit,), safe=True)
    else:
        edit = _removal(source, directive.place)
        fix = Fix(title="remove the comment", edits=(edit,), safe=True)
    return Report(at=directive.place, message=message, fix=fix)


def _idle_message(directive: Directive, idle: list[str]) -> str:
    fixed = [name for name in idle if (rule := directive.rules.get(name)) and not rule.hideable]
    idle = [name for name in idle if name not in fixed]
    parts = []
    if idle:
        by = "" if idle == ["*"] else f" by {_quoted(idle)}"
        parts.append(f"this comment hides nothing{by}")
    if fixed:
        why = "since nothing could be read from the file then"
        parts.append(f"no comment can hide {_quoted(fixed)}, {why}")
    advice = "remove the comment, and mend the fault" if fixed else "remove it"
    return f"{'; '.join(parts)}: {advice}"


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{shorten(name)}`" for name in names)


def _removal(source: Source, place: Place) -> Edit:
    line_start, line_end = source.line_span(place.start)
    before = source.text[line_start : place.start]
    if not before.strip():
        return Edit(line_start, line_end, "")
    return Edit(line_start + len(before.rstrip(" \t")), place.end, "")
