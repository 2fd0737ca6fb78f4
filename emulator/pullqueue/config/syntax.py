"""PyYAML's syntax errors, reported on the line at fault and in the words of queue.yaml."""

from __future__ import annotations

import re
from itertools import takewhile

import yaml
from yaml import YAMLError
from yaml.error import Mark
from yaml.tokens import (
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
)

from pullqueue.config.document import Place, Source
from pullqueue.config.findings import Edit, Fix, Report
from pullqueue.config.programs import xml_message
from pullqueue.config.schema import QUEUE, TOP, all_keys, level_with
from pullqueue.config.tree import LOADER

_XML = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?[\r\n])*[ \t]*(<[?!A-Za-z][^\r\n]*)")
_LEADING = re.compile(r"^[ \t]*(?:-[ \t]+)*", re.MULTILINE)
_KEY = re.compile(r"""([ ]*(?:- +)*)["']?([A-Za-z_][\w-]*)["']?:(?=\s|$)""")
_ITEM = re.compile(r"^([ ]*)-( +)", re.MULTILINE)
_NO_SPACE_AFTER_DASH = re.compile(r"[ ]*(?:- +)*-([A-Za-z_]+)(:.*)?")
_NO_SPACE_AFTER_COLON = re.compile(r"[ ]*(?:- +)*([A-Za-z_]+):([^\s:/].*)")
_WORD_AND_VALUE = re.compile(r"[ ]*(?:- +)*([A-Za-z_]+)(?:[ \t]+(\S.*))?")
_QUEUE = re.compile(r"^([ ]*)queue:", re.MULTILINE)
_END_MARKER = re.compile(r"^\.\.\.(?=\s)", re.MULTILINE)
_IN_BRACKETS = "while parsing a flow node"
_UNCLOSED = {
    "while parsing a flow sequence": "]",
    "while parsing a flow mapping": "}",
    "while scanning a quoted scalar": "",
}


def syntax_error(error: YAMLError, source: Source) -> tuple[str, Report]:
    """Return the rule and the report for what PyYAML raised."""
    fault = _Fault(error, source)
    if report := fault.xml():
        return "yaml-syntax", report
    if report := fault.tab():
        return "tab-indent", report
    report = (
        fault.after_end_marker()
        or fault.unclosed()
        or fault.escape()
        or fault.missing_space()
        or fault.second_colon()
        or fault.missing_dash()
        or fault.missing_colon()
        or fault.wrong_character()
        or fault.wrong_indentation()
    )
    return "yaml-syntax", report or fault.other()


class _Fault:
    """The place PyYAML reports, and the lines around it."""

    def __init__(self, error: YAMLError, source: Source) -> None:
        self._source = source
        self._problem: str = (getattr(error, "problem", None) or "it cannot be parsed").strip()
        self._context: str = getattr(error, "context", None) or ""
        self._begin = self._offset(getattr(error, "context_mark", None))
        self._at = self._offset(getattr(error, "problem_mark", None))
        self._number = source.position(self._at)[0]
        self._line = source.line_text(self._number)

    def _offset(self, mark: Mark | None) -> int:
        return min(mark.index, len(self._source.text)) if mark is not None else 0

    def _previous(self) -> int:
        """Return the number of the last line above that is more than a comment; 0 for none."""
        number = self._number - 1
        while number > 0 and self._source.line_text(number).lstrip()[:1] in {"", "#"}:
            number -= 1
        return number

    def _suspects(self) -> list[int]:
        """Return the lines where the fault may be: where PyYAML saw it, and the one before."""
        numbers = [self._previous(), self._number]
        if self._context:
            numbers.insert(0, self._source.position(self._begin)[0])
        return [number for number in numbers if number > 0]

    def _content(self, number: int) -> Place:
        """Return where a line is without its indentation, its dashes and blanks at its end."""
        text = self._source.line_text(number)
        start = self._source.line_starts[number - 1]
        begin = len(text) - len(text.lstrip(" -"))
        return Place(start + begin, start + max(len(text.rstrip()), begin + 1))

    def xml(self) -> Report | None:
        """A file that begins with a tag, such as a queue.xml."""
        tag = _XML.match(self._source.text)
        if not tag:
            return None
        message = xml_message(self._source.text) or (
            "the file is XML or HTML, not YAML: write `queue:` and the queues under it"
        )
        return Report(at=Place(*tag.span(1)), message=message)

    def tab(self) -> Report | None:
        """A tab in the indentation of the line."""
        start, end = self._source.line_span(self._at)
        leading = _LEADING.match(self._source.text, start, end)
        tab = self._source.text.find("\t", start, leading.end() if leading else end)
        if tab < 0:
            return None
        edits = tuple(_tab_edits(self._source.text))
        fix = Fix(title="replace tabs by spaces", edits=edits, safe=True)
        message = "a tab is used for indentation: use spaces"
        return Report(at=Place(tab, tab + 1), message=message, fix=fix)

    def after_end_marker(self) -> Report | None:
        """Text after `...`."""
        ends = _END_MARKER.search(self._source.text, 0, self._at)
        if "<document start>" not in self._problem or not ends:
            return None
        message = "text after `...`, which ends the document: remove `...`"
        return Report(at=Place(self._at, self._content(self._number).end), message=message)

    def unclosed(self) -> Report | None:
        """A quote or bracket without its end."""
        closing, begin = _UNCLOSED.get(self._context), self._begin
        if self._context == _IN_BRACKETS:
            sign = self._source.text[self._at :].strip()[:1]
            if sign not in {"", "-"}:
                message = f"unexpected `{sign}`: remove it, or write a value before it"
                return Report(at=Place(self._at, self._at + 1), message=message)
            begin = self._last_bracket()
            closing = "]" if self._source.text[begin] == "[" else "}"
        if closing is None:
            return None
        opening = self._source.text[begin]
        line, column = self._source.position(self._at)
        message = f"quote {opening} is not closed: add the closing quote"
        if closing:
            message = f"`{opening}` is not closed: add `{closing}`"
            if self._at < len(self._source.text.rstrip()):
                advice = f"add a comma or `{closing}`"
                if self._context == _IN_BRACKETS:
                    advice = f"add `{closing}`, or write the list with dashes without `{opening}`"
                message = f"`{opening}` is not closed before line {line}, column {column}: {advice}"
        return Report(at=Place(begin, begin + 1), message=message)

    def escape(self) -> Report | None:
        r"""A backslash that begins no escape, as in "5/s\q"."""
        if not self._problem.startswith(("found unknown escape", "did not find expected hex")):
            return None
        start = self._source.text.rindex("\\", 0, self._at + 1)
        escape = self._source.text[start : start + 2]
        message = (
            f"`{escape}` is not valid in double quotes: use single quotes, or write `\\{escape}`"
        )
        return Report(at=Place(start, start + 2), message=message)

    def _last_bracket(self) -> int:
        """Return where the innermost bracket is that is open at the fault."""
        opened: list[int] = []
        tokens = yaml.scan(self._source.text, Loader=LOADER)
        for token in takewhile(lambda token: token.start_mark.index < self._at, tokens):
            if isinstance(token, FlowSequenceStartToken | FlowMappingStartToken):
                opened.append(token.start_mark.index)
            elif isinstance(token, FlowSequenceEndToken | FlowMappingEndToken):
                opened.pop()
        return opened[-1]

    def missing_space(self) -> Report | None:
        """A key directly after a dash, or a value directly after a colon."""
        for number in self._suspects():
            text = self._source.line_text(number).rstrip()
            at = self._content(number)
            if (match := _NO_SPACE_AFTER_DASH.fullmatch(text)) and match[1] in all_keys():
                written = f"- {match[1]}{match[2] or ':'}"
                message = f"a space is missing after the dash: write `{written}`"
                return Report(at=Place(at.start - 1, at.end), message=message)
            if (match := _NO_SPACE_AFTER_COLON.fullmatch(text)) and match[1] in all_keys():
                key, value = match.groups()
                message = f"a space is missing after the colon: write `{key}: {value}`"
                return Report(at=at, message=message)
        return None

    def second_colon(self) -> Report | None:
        """A value with a colon and a blank in it."""
        column = self._source.find_column(self._at)
        match = _KEY.match(self._line)
        if not self._problem.startswith("mapping values") or not match or match.end() > column:
            return None
        key, value = match[2], self._line[match.end() :].strip()
        message = f'the value of `{key}` contains a colon: put it in quotes, as `{key}: "{value}"`'
        return Report(at=Place(self._at, self._at + 1), message=message)

    def missing_dash(self) -> Report | None:
        """A queue that begins without a dash."""
        for number in self._suspects():
            match = _KEY.match(self._source.line_text(number))
            start = self._source.line_starts[number - 1]
            items = list(_ITEM.finditer(self._source.text, 0, start))
            if not match or match[2] != "name" or "-" in match[1] or not items:
                continue
            if len(match[1]) < len(items[-1][0]):
                return self._missing_dash(number)
        return None

    def _missing_dash(self, number: int) -> Report:
        at = self._content(number)
        text = self._source.text[at.start : at.end]
        message = f"a dash is missing before the first key of a queue: write `- {text}`"
        return Report(at=at, message=message)

    def missing_colon(self) -> Report | None:
        """A key without a colon."""
        number = self._source.position(self._begin)[0]
        if self._problem != "could not find expected ':'":
            number = self._previous()
            if not number or ":" in self._source.line_text(number):
                return None
        match = _WORD_AND_VALUE.fullmatch(self._source.line_text(number).rstrip())
        message = "a colon is missing: write `key: value`"
        if match and match[1] in all_keys():
            written = f"{match[1]}: {match[2] or ''}".rstrip()
            message = f"a colon is missing after `{match[1]}`: write `{written}`"
        return Report(at=self._content(number), message=message)

    def wrong_character(self) -> Report | None:
        """A value that begins with a character that has a meaning of its own."""
        at = self._at
        if self._context == "while scanning an alias":
            at = self._begin
        elif not self._problem.startswith("found character"):
            return None
        character = self._source.text[at : at + 1]
        message = f"a value cannot begin with `{character}`: put it in quotes"
        return Report(at=Place(at, at + 1), message=message)

    def wrong_indentation(self) -> Report | None:
        """A line that begins in another column than those it belongs to."""
        known = ("mapping values", "did not find expected", "expected <block end>")
        if not self._problem.startswith(known) or not self._line.strip():
            return None
        at = self._content(self._number)
        if self._at > at.start and self._problem.startswith("did not find expected key"):
            message = "unexpected text after the value: remove it, or put all of it in quotes"
            return Report(at=Place(self._at, at.end), message=message)
        column = len(self._line) - len(self._line.lstrip())
        if self._line[column] == "-":
            return self._stray_item(column, at.end)
        above = _KEY.match(self._source.line_text(self._previous())) if self._previous() else None
        if not above or len(above[1]) == column:
            return None
        message = (
            f"this line begins in column {column + 1}, the key above in {len(above[1]) + 1}: all "
            "keys of one entry must begin in the same column"
        )
        return Report(at=at, message=message)

    def _stray_item(self, column: int, end: int) -> Report:
        start = self._source.line_starts[self._number - 1]
        at = Place(start + column, end)
        items = list(_ITEM.finditer(self._source.text, 0, start))
        if items and len(items[-1][1]) != column:
            message = (
                f"the list item begins in column {column + 1}, the one above in column "
                f"{len(items[-1][1]) + 1}: all items of one list must begin in the same column"
            )
            return Report(at=at, message=message)
        if items and (report := self._end_of_list(items[-1], at)):
            return report
        keys = list(_QUEUE.finditer(self._source.text, 0, start))
        if not keys:
            message = "list item outside of a list: put it under its key, such as `queue:`"
            return Report(at=at, message=message)
        return self._list_without_key(keys[-1], at)

    def _end_of_list(self, item: re.Match[str], stray: Place) -> Report | None:
        """A key between two items of a list, in the column of their dashes."""
        first, last = self._source.position(item.start())[0] + 1, self._number
        for number in range(first, last):
            match = _KEY.match(self._source.line_text(number))
            if match and "-" not in match[1] and len(match[1]) <= len(item[1]):
                advice = f"indent it to column {len(item[0]) + 1}, like the keys of the item above"
                if level_with(match[2]) == TOP:
                    advice = "move it out of the list"
                message = f"`{match[2]}` ends the list, which continues below: {advice}"
                label = (stray, "this item belongs to the list")
                return Report(at=self._content(number), message=message, labels=(label,))
        return None

    def _list_without_key(self, key: re.Match[str], at: Place) -> Report:
        """The first item of a list that is not directly under `queue:`."""
        line = self._source.position(key.start())[0]
        place = Place(key.start() + len(key[1]), key.end())
        if len(key[1]) > self._source.find_column(at.start):
            message = "`queue:` is indented further than its list: remove the spaces before it"
            return Report(at=place, message=message, labels=((at, "the list begins here"),))
        for number in range(line + 1, self._number):
            match = _KEY.match(self._source.line_text(number))
            if (
                match
                and "-" not in match[1]
                and len(match[1]) > len(key[1])
                and level_with(match[2]) == QUEUE
            ):
                return self._missing_dash(number)
        message = f"list item outside `queue:`: move it directly under line {line}"
        label = (place, "the list belongs under this key")
        return Report(at=at, message=message, labels=(label,))

    def other(self) -> Report:
        """Whatever else PyYAML objects to."""
        return Report(at=Place(self._at, self._at + 1), message=f"invalid YAML: {self._problem}")


def _tab_edits(text: str) -> list[Edit]:
    edits = []
    for match in _LEADING.finditer(text):
        for tab in re.compile(r"\t+").finditer(text, *match.span()):
            after_dash = text.endswith("-", match.start(), tab.start())
            edits.append(Edit(*tab.span(), " " if after_dash else "  " * len(tab[0])))
    return edits
