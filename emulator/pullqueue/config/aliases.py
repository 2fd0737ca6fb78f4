"""Writing out what aliases stand for, where that is simple."""

from __future__ import annotations

import re
from itertools import islice

from yaml import YAMLError
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, ScalarEvent

from pullqueue.config.document import Place
from pullqueue.config.findings import Edit, Fix
from pullqueue.config.tree import parse_events, span_of

_ANCHOR = re.compile(r"&[^\s,\[\]{}]+[ \t]*")
_MOST_EVENTS = 50_000
_MOST_TEXT = 100_000


def expansion(text: str) -> Fix | None:
    """Make the fix that removes anchors and puts values in the place of aliases.

    None where an anchor stands for lines of block style or for something with anchors or aliases
    of its own, where a merge key is used, or where the result would grow large.
    """
    try:
        found = _Anchors(text)
    except YAMLError:
        return None
    return found.fix()


class _Anchors:
    """The anchors of a text, and where their aliases stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[Edit] = []
        self._values: dict[str, str] = {}
        self._grown = 0
        self._simple = True
        self._open: list[tuple[str | None, int]] = []
        for event in islice(parse_events(text), _MOST_EVENTS):
            self._take(event)
            if not self._simple:
                break

    def _take(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            self._alias(event.anchor or "", span_of(event))
        elif isinstance(event, ScalarEvent | CollectionStartEvent):
            self._node(event)
        elif isinstance(event, CollectionEndEvent) and self._open:
            anchor, start = self._open.pop()
            if anchor is not None:
                self._value(anchor, Place(start, span_of(event).end))

    def _node(self, event: ScalarEvent | CollectionStartEvent) -> None:
        start, end = span_of(event)
        anchor = event.anchor
        if anchor is not None:
            match = _ANCHOR.match(self._text, start)
            if match is None or any(name is not None for name, _ in self._open):
                self._simple = False
                return
            self._edits.append(Edit(match.start(), match.end(), ""))
            start = match.end()
        if isinstance(event, ScalarEvent):
            self._simple = self._simple and event.value != "<<"
            if anchor is not None:
                self._value(anchor, Place(start, end))
        else:
            self._open.append((anchor, start))

    def _value(self, anchor: str, at: Place) -> None:
        value = self._text[at.start : at.end]
        one_line = "\n" not in value and "\r" not in value
        self._values[anchor] = value if one_line else ""

    def _alias(self, name: str, at: Place) -> None:
        value = self._values.get(name)
        inside = any(anchor is not None for anchor, _ in self._open)
        self._grown += len(value or "")
        if not value or inside or self._grown > _MOST_TEXT:
            self._simple = False
        else:
            self._edits.append(Edit(at.start, at.end, value))

    def fix(self) -> Fix | None:
        """Give the fix, if all is simple."""
        if not self._simple:
            return None
        return Fix(title="write the values out", edits=tuple(self._edits))
