"""Output for people: `full` with the lines concerned, `concise` with one line per finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pullqueue.config.document import Source
from pullqueue.config.findings import Finding, Label, Severity
from pullqueue.lint.report import RunReport
from pullqueue.text import count_columns, counted, escaped

_WIDEST = 120
_RESET = "\033[0m"
_COLOURS = {
    Severity.ERROR.value: "\033[1;31m",
    Severity.WARNING.value: "\033[1;33m",
    Severity.INFO.value: "\033[1;34m",
    "bold": "\033[1m",
    "frame": "\033[34m",
    "help": "\033[36m",
}


def report_concise(report: RunReport) -> str:
    """Write one line per finding."""
    return "".join(
        f"{escaped(each.file)}:{each.line}:{each.column}: "
        f"{each.severity.value}[{each.code}] {each.rule}: {each.message}\n"
        for each in report.findings
    )


def report_full(report: RunReport) -> str:
    """Write each finding with the lines of the file it is about."""
    painter = _Painter(colour=report.colour)
    return "".join(
        f"{painter.finding(finding, file.source)}\n"
        for file in report.files
        for finding in file.findings
    )


def _without_tabs(text: str) -> str:
    """Return a part of a line, escaped, with a space for each tab."""
    return escaped(text.replace("\t", " "))


class _Mark(NamedTuple):
    """A range of one line, underlined."""

    line: int
    column: int
    end_column: int
    text: str
    main: bool


class _Painter:
    """Draws findings."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def _paint(self, style: str, text: str) -> str:
        return f"{_COLOURS[style]}{text}{_RESET}" if self._colour and text else text

    def finding(self, finding: Finding, source: Source) -> str:
        """Draw one finding."""
        return "".join(f"{line}\n" for line in self._lines(finding, source))

    def _lines(self, finding: Finding, source: Source) -> Iterator[str]:
        level = finding.severity.value
        head = self._paint(level, f"{level}[{finding.code}]")
        name = self._paint("bold", finding.rule)
        yield f"{head} {name}: {finding.message}"
        labels = [_mark(label, source, label.message, main=False) for label in finding.labels]
        marks = [_mark(finding, source, "", main=True), *labels]
        width = len(str(max(mark.line for mark in marks)))
        where = f"{escaped(finding.file)}:{finding.line}:{finding.column}"
        yield f"{' ' * width}{self._paint('frame', '-->')} {where}"
        yield from self._snippet(marks, source, level, width)
        if finding.hint:
            yield f"{' ' * width} {self._paint('help', '= help:')} {finding.hint}"
        if finding.fix:
            option = "--fix" if finding.fix.safe else "--fix --unsafe-fixes"
            title = finding.fix.title
            yield f"{' ' * width} {self._paint('help', '= fix:')} {title} ({option})"

    def _snippet(self, marks: list[_Mark], source: Source, level: str, width: int) -> Iterator[str]:
        bar = self._paint("frame", "|")
        yield f"{' ' * width} {bar}"
        previous = None
        for number in sorted({mark.line for mark in marks}):
            if previous is not None and number > previous + 1:
                yield self._paint("frame", "...")
            previous = number
            here = [mark for mark in marks if mark.line == number]
            text, cut = _window(source.line_text(number), here)
            label = self._paint("frame", f"{number:>{width}} |")
            yield f"{label} {_without_tabs(text)}".rstrip()
            for mark in sorted(here, key=lambda mark: not mark.main):
                start, end = mark.column - 1 - cut, mark.end_column - 1 - cut
                blank = " " * count_columns(_without_tabs(text[:start]))
                sign = ("^" if mark.main else "-") * max(
                    count_columns(_without_tabs(text[start:end])), 1
                )
                style = level if mark.main else "frame"
                drawn = self._paint(style, f"{sign} {mark.text}".rstrip())
                yield f"{' ' * width} {bar} {blank}{drawn}"


def _mark(at: Finding | Label, source: Source, text: str, *, main: bool) -> _Mark:
    """Return the mark of a place, of which only the first line is underlined."""
    end = at.end_column if at.end_line == at.line else len(source.line_text(at.line)) + 1
    return _Mark(at.line, at.column, end, text, main)


def _window(text: str, marks: list[_Mark]) -> tuple[str, int]:
    """Return the part of a long line around its first mark, and where that part begins."""
    if len(text) <= _WIDEST:
        return text, 0
    first = min(mark.column for mark in marks) - 1
    start = max(0, first - _WIDEST // 3)
    return text[start : start + _WIDEST], start


def summary(report: RunReport, *, fix: bool = False, unsafe_fixes: bool = False) -> str:
    """Count what was found, and what can be fixed, or could not be where fixes were made."""
    findings = report.findings
    files = counted(len(report.files), "file")
    if not findings:
        return f"{files} checked, nothing found"
    counts = Counter(finding.severity for finding in findings)
    parts = [counted(counts[each], each.value) for each in Severity if counts[each]]
    text = f"{files} checked: {', '.join(parts)}"
    safe = sum(bool(finding.fix and finding.fix.safe) for finding in findings)
    unsafe = sum(bool(finding.fix and not finding.fix.safe) for finding in findings)
    left_out = safe * fix + unsafe * unsafe_fixes
    if left_out:
        text += f"; {left_out} not fixed, since that would cause other findings"
    if safe and not fix:
        text += f"; {safe} fixable with --fix"
    if unsafe and not unsafe_fixes:
        separator = ", " if safe and not fix else "; "
        word = "more" if safe and not fix else "fixable"
        text += f"{separator}{unsafe} {word} with --fix --unsafe-fixes"
    return text
