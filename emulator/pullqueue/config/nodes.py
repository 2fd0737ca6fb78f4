"""The tree of a YAML document: every node with its place, every scalar with its own spelling."""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.config.text import shorten

ScalarValue = str | int | float | bool | None
"""What a scalar is to App Engine's reader; a date is given as its text."""


class Scalar:
    """A single value. Offsets count code points."""

    __slots__ = ("end", "kind", "opaque", "start", "style", "text", "value")

    def __init__(
        self,
        *,
        start: int,
        end: int,
        text: str,
        style: str = "",
        kind: str = "str",
        opaque: bool = False,
    ) -> None:
        """Keep a value as it is written; `kind` and `value` are set when it is typed."""
        self.start = start
        self.end = end
        self.text = text
        """As written, quotes and escapes resolved."""
        self.style = style
        """Empty for a plain scalar, else the quote or block character."""
        self.kind = kind
        """What YAML 1.1 makes of it: str, int, float, bool, null or timestamp."""
        self.value: ScalarValue = text
        """The value of that kind."""
        self.opaque = opaque
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


class Mapping:
    """Keys and values in the order of the file, each key once."""

    __slots__ = ("end", "flow", "pairs", "start")

    def __init__(self, *, start: int, end: int, flow: bool = False) -> None:
        """Begin an empty mapping; `flow` tells whether it is written with braces."""
        self.start = start
        self.end = end
        self.flow = flow
        self.pairs: list[Pair] = []


class Sequence:
    """A list."""

    __slots__ = ("end", "flow", "items", "start")

    def __init__(self, *, start: int, end: int, flow: bool = False) -> None:
        """Begin an empty list; `flow` tells whether it is written with brackets."""
        self.start = start
        self.end = end
        self.flow = flow
        self.items: list[Node] = []


Node = Scalar | Mapping | Sequence


def describe(node: Node) -> str:
    """Say in a word or two what a node is, for messages."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.is_null else f'"{shorten(node.text)}"'
