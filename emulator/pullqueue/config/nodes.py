"""The tree of a YAML document: every node with its place, every scalar with its own spelling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ScalarValue = str | int | float | bool | None
"""What a scalar is to App Engine's reader; a date is given as its text."""


@dataclass(kw_only=True, slots=True, eq=False)
class Scalar:
    """A single value. Offsets count code points."""

    start: int
    end: int
    text: str
    """As written, quotes and escapes resolved."""
    style: str = ""
    """Empty for a plain scalar, else the quote or block character."""
    kind: str = "str"
    """What YAML 1.1 makes of it: str, int, float, bool, null or timestamp."""
    value: ScalarValue = None
    """The value of that kind."""
    opaque: bool = False
    """Whether the value is not known: a template marker, or a refused tag."""

    @property
    def is_null(self) -> bool:
        """Whether nothing is written here, or `null`."""
        return self.kind == "null" and not self.opaque

    @property
    def seen(self) -> str:
        """The text that App Engine makes of the value."""
        return self.value if isinstance(self.value, str) else str(self.value)


class Pair(NamedTuple):
    """A key and its value."""

    key: Scalar
    value: Node


@dataclass(kw_only=True, slots=True, eq=False)
class Mapping:
    """Keys and values in the order of the file, each key once."""

    start: int
    end: int
    flow: bool = False
    """Whether it is written with braces."""
    pairs: list[Pair] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class Sequence:
    """A list."""

    start: int
    end: int
    flow: bool = False
    """Whether it is written with brackets."""
    items: list[Node] = field(default_factory=list)


Node = Scalar | Mapping | Sequence


def describe(node: Node) -> str:
    """Say in a word or two what a node is, for messages."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.is_null else f'"{shorten(node.text)}"'


def shorten(text: str, *, limit: int = 60) -> str:
    """Make a text fit for one line of a message."""
    shown = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
