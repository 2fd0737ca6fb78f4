"""Findings: what is wrong in a file, where, and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from pullqueue.config.document import Path, Place, path_text
from pullqueue.errors import PullQueueError
from pullqueue.text import escaped


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Production refuses the file, or reads a value other than the written one."""
    WARNING = "warning"
    """Production accepts it, but it is most likely a mistake."""
    INFO = "info"
    """Advice."""

    def reaches(self, threshold: Severity) -> bool:
        """Return whether this severity is at least as bad as `threshold`."""
        return _RANKS[self] >= _RANKS[threshold]


_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Edit(NamedTuple):
    """One replacement in a file's text; offsets count code points, without a byte-order mark."""

    start: int
    end: int
    replacement: str


class Fix(NamedTuple):
    """A way to fix a finding."""

    title: str
    """What it does, in the imperative: "write `0/s`"."""
    edits: tuple[Edit, ...] = ()
    """Replacements that do not overlap."""
    safe: bool = False
    """True if App Engine reads the same from the file after the fix, and no key is deleted."""
    drop_bom: bool = False
    """True if the file's byte-order mark is removed."""


Labels = tuple[tuple[Place, str], ...]
"""Other places that belong to a fault, each with a few words."""


class Report(NamedTuple):
    """One fault that a rule found, in offsets of the text."""

    at: Place
    message: str
    path: Path = ()
    hint: str | None = None
    labels: Labels = ()
    fix: Fix | None = None


Reports = dict[str, list[Report]]
"""The faults met while a file is read, by the name of their rule."""


class UnreadableError(Exception):
    """a file cannot be read any further; the reports say why"""


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
    """The rule's name: `push-key-on-pull`."""
    severity: Severity
    message: str
    """One line, without control characters: what is wrong, and what to do."""
    path: Path = ()
    """The keys and indexes that lead there; empty for a fault of the whole file."""
    hint: str | None = None
    """What else may help."""
    labels: tuple[Label, ...] = ()
    """Other places that belong to the fault."""
    fix: Fix | None = None
    """How to fix it, where that is known."""

    @property
    def key_path(self) -> str:
        """Where in the data, as `queue[0].rate`; empty for a fault of the whole file."""
        return path_text(self.path)

    def __str__(self) -> str:
        place = f"{escaped(self.file)}:{self.line}:{self.column}"
        return f"{place}: {self.code} {self.rule}: {self.message}"


class InvalidQueueConfigError(PullQueueError):
    """a queue.yaml is not valid"""

    def __init__(self, problems: Sequence[Finding]) -> None:
        """Keep every problem found; the message lists them all."""
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
