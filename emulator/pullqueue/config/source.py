"""A file's text, and where in it an offset lies."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


class Source:
    """The text of one file, without its byte-order mark; lines are those an editor shows."""

    def __init__(self, text: str, *, file: str, has_bom: bool = False) -> None:
        """Keep the text and the name that messages use."""
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
        """Give line and column (both from 1, in code points) of an offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Give a line (from 1) without its line break."""
        start = self.line_starts[line - 1]
        match = _LINE_BREAK.search(self.text, start)
        return self.text[start : match.start() if match else len(self.text)]

    def line_span(self, offset: int) -> tuple[int, int]:
        """Give the offsets of the whole line around an offset, its line break included."""
        line = bisect_right(self.line_starts, offset)
        following = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return self.line_starts[line - 1], following
