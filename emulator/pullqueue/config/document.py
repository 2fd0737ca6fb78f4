"""The text of a file, and the tree of its YAML: every node with its place in the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pullqueue.text import shorten

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value: `("queue", 0, "rate")`."""


def path_text(path: Path) -> str:
    """Return a path as messages show it: `queue[0].rate`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


class Place(NamedTuple):
    """A range of a file's text, in code points."""

    start: int
    end: int


class Source:
    """The text of one file, without its byte-order mark; lines are those an editor shows."""

    def __init__(self, text: str, *, file: str, has_bom: bool = False) -> None:
        """Keep the text and the name of the file that messages use."""
        self.text = text
        self.file = file
        self.has_bom = has_bom

    @property
    def newline(self) -> str:
        """The line break of the file, for lines that are added."""
        return "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line begins."""
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column (both from 1, in code points) of an offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Return a line (from 1) without its line break."""
        start, end = self.line_span(self.line_starts[line - 1])
        return self.text[start:end].rstrip("\r\n")

    def line_span(self, offset: int) -> Place:
        """Return the range of the whole line around an offset, its line break included."""
        line = bisect_right(self.line_starts, offset)
        following = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return Place(self.line_starts[line - 1], following)

    def find_column(self, offset: int) -> int:
        """Return the number of characters before an offset in its line."""
        return offset - self.line_span(offset).start


ScalarValue = str | int | float | bool | None
"""What a scalar is to App Engine's reader; a date is given as its text."""


@dataclass(eq=False, kw_only=True, slots=True)
class _Positioned:
    """What a node has, whatever it is: where it begins and ends."""

    start: int
    end: int

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.start, self.end)


@dataclass(eq=False, kw_only=True, slots=True)
class Scalar(_Positioned):
    """A single value."""

    text: str
    """As written, quotes and escapes resolved."""
    style: str = ""
    """Empty for a plain scalar, else the quote or block character."""
    opaque: bool = False
    """True if the value is not known: a template marker, or a refused tag."""
    kind: str = "str"
    """What YAML 1.1 makes of it: str, int, float, bool, null or timestamp."""
    value: ScalarValue = ""
    """The value of that kind."""

    @property
    def is_null(self) -> bool:
        """True if nothing is written here, or `null`."""
        return self.kind == "null" and not self.opaque

    @property
    def effective_text(self) -> str:
        """The text that App Engine makes of the value."""
        return self.value if isinstance(self.value, str) else str(self.value)


class Pair(NamedTuple):
    """A key and its value."""

    key: Scalar
    value: Node

    @property
    def end(self) -> int:
        """Where the pair ends; a key without a value ends after its colon."""
        return max(self.value.end, self.key.end)


@dataclass(eq=False, kw_only=True, slots=True)
class Mapping(_Positioned):
    """Keys and values in the order of the file, each key once."""

    flow: bool = False
    """True if it is written with braces."""
    pairs: list[Pair] = field(default_factory=list)

    def pair(self, key: str) -> Pair | None:
        """Return the pair of a key."""
        return next((pair for pair in self.pairs if pair.key.text == key), None)


@dataclass(eq=False, kw_only=True, slots=True)
class Sequence(_Positioned):
    """A list of nodes, in the order of the file."""

    flow: bool = False
    """True if it is written with brackets."""
    items: list[Node] = field(default_factory=list)


Node = Scalar | Mapping | Sequence


def scalar_at(scalars: list[Scalar], offset: int) -> Scalar | None:
    """Return which of some scalars, in the order of the file, contains an offset."""
    index = bisect_right(scalars, offset, key=lambda scalar: scalar.start) - 1
    return scalars[index] if index >= 0 and offset < scalars[index].end else None


def describe(node: Node) -> str:
    """Return what a node is, in a word or two for messages."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "empty" if node.is_null else f'"{shorten(node.text)}"'
