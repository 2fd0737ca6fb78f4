"""PyYAML's complaints, put where the fault is and in the words of queue.yaml."""

from __future__ import annotations

import re

from yaml import YAMLError
from yaml.error import MarkedYAMLError

from pullqueue.config.findings import Edit, Fix
from pullqueue.config.reports import Found, Place, Report
from pullqueue.config.source import Source

_NO_SPACE_AFTER_DASH = re.compile(r"^[ ]*-([A-Za-z_]+):", re.MULTILINE)
_NO_SPACE_AFTER_COLON = re.compile(r"^[ -]*([A-Za-z_]+):[^\s:/]", re.MULTILINE)
_NO_SPACE = re.compile(r"[ -]*([A-Za-z_]+):(\S.*)")
_WORD_AND_VALUE = re.compile(r"[ -]*([A-Za-z_]+)[ \t]+(\S.*)")
_EMPTY_QUEUE = re.compile(r"^(queue:)[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_LEADING = re.compile(r"^[ \t]*(?:-[ \t]+)*", re.MULTILINE)
_UNCLOSED = {
    "while parsing a flow sequence": ("[", "]"),
    "while parsing a flow mapping": ("{", "}"),
    "while scanning a quoted scalar": ("the quote", "another"),
}


def report_syntax_error(error: YAMLError, source: Source, found: Found) -> None:
    """Turn what PyYAML raised into one report."""
    offset = _problem_offset(error, source)
    if tab := _tab_report(source, offset):
        found.add("tab-indent", tab)
        return
    found.add(
        "yaml-syntax",
        _unclosed(error, source) or _missing_colon(error, source) or _other(error, source, offset),
    )


def _problem_offset(error: YAMLError, source: Source) -> int:
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    return min(mark.index, len(source.text)) if mark is not None else 0


def _tab_report(source: Source, offset: int) -> Report | None:
    start, end = source.line_span(offset)
    leading = _LEADING.match(source.text, start, end)
    tab = source.text.find("\t", start, leading.end() if leading else end)
    if tab < 0:
        return None
    edits = tuple(_tab_edits(source.text))
    return Report(
        at=Place(tab, tab + 1),
        message="a tab is used for indentation: YAML permits spaces only",
        fix=Fix(title="write spaces instead of tabs", edits=edits, safe=True),
    )


def _tab_edits(text: str) -> list[Edit]:
    edits = []
    for match in _LEADING.finditer(text):
        for tab in re.finditer(r"\t+", match[0]):
            after_dash = match[0][: tab.start()].endswith("-")
            spaces = " " if after_dash else "  " * len(tab[0])
            edits.append(Edit(match.start() + tab.start(), match.start() + tab.end(), spaces))
    return edits


def _unclosed(error: YAMLError, source: Source) -> Report | None:
    if not isinstance(error, MarkedYAMLError) or error.context_mark is None:
        return None
    opener = _UNCLOSED.get(error.context or "")
    if opener is None:
        return None
    start = error.context_mark.index
    line, column = source.position(_problem_offset(error, source))
    message = f"`{source.text[start : start + 1]}` is never closed: `{opener[1]}` is missing"
    if opener[0] == "the quote":
        message = f"the quote {source.text[start : start + 1]} is never closed: add the second one"
    elif _problem_offset(error, source) < len(source.text.rstrip()):
        message = (
            f"the list or mapping begun by `{opener[0]}` breaks off at line {line}, column "
            f"{column}: a comma or `{opener[1]}` is missing"
        )
    return Report(at=Place(start, start + 1), message=message, hint=_hint(source))


def _missing_colon(error: YAMLError, source: Source) -> Report | None:
    if not isinstance(error, MarkedYAMLError) or error.problem != "could not find expected ':'":
        return None
    mark = error.context_mark or error.problem_mark
    start, _ = source.line_span(min(mark.index, len(source.text)) if mark else 0)
    line = source.line_text(source.position(start)[0])
    begin = start + len(line) - len(line.lstrip(" -"))
    at = Place(begin, start + len(line.rstrip()))
    message = "a key without a colon: write `key: value`"
    if match := _NO_SPACE.fullmatch(line.rstrip()):
        message = f"`{match[1]}:` has no space behind it: write `{match[1]}: {match[2]}`"
        return Report(at=at, message=message)
    if match := _WORD_AND_VALUE.fullmatch(line.rstrip()):
        message = f"`{match[1]}` has no colon: write `{match[1]}: {match[2]}`"
    return Report(at=at, message=message, hint=_hint(source))


def _other(error: YAMLError, source: Source, offset: int) -> Report:
    problem = (getattr(error, "problem", None) or "the text cannot be parsed").strip()
    start, _ = source.line_span(offset)
    line = source.line_text(source.position(offset)[0])
    first = start + len(line) - len(line.lstrip())
    if problem == "mapping values are not allowed here" or problem.endswith("in this context"):
        message = (
            "this line does not fit the indentation of the lines above: "
            "the keys of one queue begin in one column"
        )
        return Report(at=Place(first, start + len(line)), message=message, hint=_hint(source))
    if problem.startswith(("expected <block end>", "did not find expected")):
        message = (
            "this does not continue what stands above: a list belongs under its key, and the "
            "keys of one mapping begin in one column"
        )
        return Report(
            at=Place(offset, start + len(line)),
            message=message,
            hint=_hint(source),
            labels=_parted_from(source, line, offset),
        )
    message = f"not YAML: {problem}"
    if problem.startswith("found character") and offset < len(source.text):
        message = f"no value begins with `{source.text[offset]}`: put the value in quotes"
    return Report(at=Place(offset, offset + 1), message=message, hint=_hint(source))


def _parted_from(source: Source, line: str, offset: int) -> tuple[tuple[Place, str], ...]:
    """Find the `queue:` without a list that a stray list entry was meant for."""
    keys = list(_EMPTY_QUEUE.finditer(source.text, 0, offset))
    if not (line.startswith("-") and keys):
        return ()
    return ((Place(*keys[-1].span(1)), "the list belongs directly below this"),)


def _hint(source: Source) -> str | None:
    if match := _NO_SPACE_AFTER_DASH.search(source.text):
        line = source.position(match.start(1))[0]
        return f"line {line}: a space is missing after the dash; write `- {match[1]}:`"
    if match := _NO_SPACE_AFTER_COLON.search(source.text):
        line = source.position(match.start(1))[0]
        return f"line {line}: a space is missing after the colon of `{match[1]}:`"
    return None
