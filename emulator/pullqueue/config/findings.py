"""What is wrong in a file, where, and how to mend it.

Named tuples, here and in all that a run of the linter imports: making a class of them takes a
quarter of the time of a frozen dataclass, and most runs are over in a few milliseconds.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pullqueue.config.text import escaped


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Production refuses the file, or reads something else than is written."""
    WARNING = "warning"
    """Accepted, and most likely not what was meant."""
    INFO = "info"
    """Worth knowing."""

    def reaches(self, threshold: Severity) -> bool:
        """Tell whether this severity is at least as bad as `threshold`."""
        return _RANKS[self] >= _RANKS[threshold]


_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Edit(NamedTuple):
    """One replacement in a file's text; offsets count code points, without a byte-order mark."""

    start: int
    end: int
    replacement: str


class Fix(NamedTuple):
    """A way to mend a finding."""

    title: str
    """What it does, as an order: "write `0/s`"."""
    edits: tuple[Edit, ...] = ()
    """Replacements that do not overlap."""
    safe: bool = False
    """Whether App Engine reads the same from the file after the fix."""
    drop_bom: bool = False
    """Whether the file's byte-order mark goes."""


class Label(NamedTuple):
    """A second place that belongs to a finding. Lines and columns as in `Finding`."""

    line: int
    column: int
    end_line: int
    end_column: int
    message: str


class Finding(NamedTuple):
    """One fault in one file. Lines and columns begin at 1; columns count code points."""

    file: str
    """As the caller named it."""
    line: int
    column: int
    end_line: int
    end_column: int
    """One past the last character."""
    code: str
    """`QY301`."""
    rule: str
    """The rule's name: `rate-on-pull`."""
    severity: Severity
    message: str
    """One line: what is wrong, and what to do."""
    key_path: str = ""
    """Where in the data, as `queue[0].rate`; empty for a fault of the whole file."""
    hint: str | None = None
    """What else may help."""
    labels: tuple[Label, ...] = ()
    """The other half of a fault between two places."""
    fix: Fix | None = None
    """How to mend it, where that can be told."""

    def __str__(self) -> str:
        place = f"{escaped(self.file)}:{self.line}:{self.column}"
        return f"{place}: {self.code} {self.rule}: {self.message}"
