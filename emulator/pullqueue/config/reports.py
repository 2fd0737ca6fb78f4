"""What a rule has to say, before it is known where it stands in the catalogue."""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.config.findings import Fix


class Place(NamedTuple):
    """A stretch of a file's text, in code points."""

    start: int
    end: int


class Report(NamedTuple):
    """One fault that a rule found."""

    at: Place
    message: str
    path: str = ""
    hint: str | None = None
    labels: tuple[tuple[Place, str], ...] = ()
    fix: Fix | None = None


class Found:
    """The faults met while a file is read, by the name of their rule."""

    def __init__(self) -> None:
        """Begin with none."""
        self._reports: dict[str, list[Report]] = {}

    def add(self, rule: str, report: Report) -> None:
        """Remember a fault under its rule's name."""
        self._reports.setdefault(rule, []).append(report)

    def of(self, rule: str) -> list[Report]:
        """Give the faults of one rule."""
        return self._reports.get(rule, [])

    def __bool__(self) -> bool:
        return bool(self._reports)


class UnreadableError(Exception):
    """a file cannot be read any further; what it is refused for is in `Found`"""
