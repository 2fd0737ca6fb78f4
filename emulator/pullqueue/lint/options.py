"""The options of a run: those of the command, and those of the table in pyproject.toml.

Each is declared once: the command has an option, and the table a key, for each field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Literal, NamedTuple, get_args

from pullqueue.config.settings import Profile
from pullqueue.lint.reporters import FORMATS

Level = Literal["error", "warning", "info", "off"]
FailOn = Literal["error", "warning", "info", "never"]
Colour = Literal["auto", "always", "never"]


class Option(NamedTuple):
    """What the command says of an option; its type says which values are valid."""

    help: str
    metavar: str | None = None
    choices: Iterable[str] = ()
    """The valid values, if the type does not say them."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line and a file can set; the command line wins."""

    profile: Annotated[Profile | None, Option("Program whose rules apply. Default: gcloud.")] = None
    select: Annotated[tuple[str, ...], Option("Check these rules only.", "RULE")] = ()
    ignore: Annotated[tuple[str, ...], Option("Do not check these rules.", "RULE")] = ()
    severity: Annotated[
        Mapping[str, Level],
        Option(
            "Set a rule to error, warning, info or off; turns on a rule that is off.", "RULE=LEVEL"
        ),
    ] = field(default_factory=dict)
    fail_on: Annotated[
        FailOn | None, Option("Lowest severity that makes the exit status 1. Default: error.")
    ] = None
    strict: Annotated[bool | None, Option("Also report an empty `queue:`.")] = None
    exclude: Annotated[
        tuple[str, ...],
        Option("Leave out files of a folder, with a pattern as in .gitignore.", "PATTERN"),
    ] = ()
    baseline: Annotated[str | None, Option("Do not report the findings in this file.", "FILE")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """The table `[tool.pullqueue.lint]` of a pyproject.toml."""

    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Arguments(Options):
    """The arguments and options of the command."""

    paths: tuple[str, ...] = ()
    format: Annotated[
        str | None,
        Option("Output format. Default: full; github under GitHub Actions.", choices=FORMATS),
    ] = None
    color: Annotated[
        Colour, Option("Colour of the full format; NO_COLOR and FORCE_COLOR are respected.")
    ] = "auto"
    fix: Annotated[
        bool, Option("Fix what can be fixed without changing the meaning of the file.")
    ] = False
    unsafe_fixes: Annotated[bool, Option("With --fix: also make fixes that need a review.")] = False
    diff: Annotated[bool, Option("Print what --fix would change, and write nothing.")] = False
    against: Annotated[
        str | None,
        Option(
            "Report queues that a git revision or another file has, and that are removed or have "
            "another mode.",
            "REV|FILE",
        ),
    ] = None
    force_exclude: Annotated[
        bool, Option("Leave out named files, too, that a search of their folder would not find.")
    ] = False
    config: Annotated[
        str | None,
        Option("Read settings from this TOML file only. Default: pyproject.toml.", "FILE"),
    ] = None
    write_baseline: Annotated[
        str | None, Option("Write all findings to a baseline, and exit with 0.", "FILE")
    ] = None
    watch: Annotated[bool, Option("Check again whenever a file changes, until Ctrl-C.")] = False
    stdin_filename: Annotated[str, Option("File name of the input of `-`.", "NAME")] = "<stdin>"


def leaves(kind: object) -> Iterator[object]:
    """Yield the types, and the words of literals, that a type is composed of."""
    parts = get_args(kind)
    return chain.from_iterable(map(leaves, parts)) if parts else iter((kind,))
