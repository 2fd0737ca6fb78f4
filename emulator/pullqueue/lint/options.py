"""The options of a run: those of the command, and those of the table in pyproject.toml.

What both can set is declared once, with the types that say what is valid; the command's names of
them, and their help, are in `pullqueue.cli.lint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pullqueue.config.settings import Profile

Level = Literal["error", "warning", "info", "off"]
FailOn = Literal["error", "warning", "info", "never"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line and a file can set; the command line wins."""

    profile: Profile | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Level] = field(default_factory=dict)
    strict: bool | None = None
    fail_on: FailOn | None = None
    exclude: tuple[str, ...] = ()
    baseline: str | None = None


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """The table `[tool.pullqueue.lint]` of a pyproject.toml."""

    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Arguments(Options):
    """The options of the command."""

    paths: tuple[str, ...] = ()
    output_format: str | None = None
    colour: str = "auto"
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    against: str | None = None
    force_exclude: bool = False
    config: str | None = None
    write_baseline: str | None = None
    watch: bool = False
    stdin_filename: str = "<stdin>"
