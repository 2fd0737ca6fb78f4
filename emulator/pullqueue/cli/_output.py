"""Output of the commands: text, tables, JSON, questions; and the files that they read.

Text may come from a server or a file that nobody trusts, so all of it is printed with control
characters escaped: it cannot control the terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from pullqueue.config.files import read_bytes, read_project_file
from pullqueue.config.settings import MAX_BYTES
from pullqueue.errors import ConfigFileError
from pullqueue.limits import SNAPSHOT_BYTES
from pullqueue.text import count_columns, describe_os_error, escaped

AS_JSON = "pullqueue.as_json"
"""The entry of click's `Context.meta` that says whether --json was given."""
STDIN = "-"
"""Means standard input, or output, where a file can be named."""

_COLOURS = {
    "available": "green",
    "leased": "yellow",
    "paused": "yellow",
    "exhausted": "red",
    "disabled": "red",
}
"""Colours of the cells that begin with these words."""
_PREVIEW = 40
_NARROWEST = 8
"""Columns are not cut below this width: a task with a generated name fits in 80 columns."""


class Table(NamedTuple):
    """Rows under a head, no wider than the terminal if possible."""

    head: Sequence[str]
    rows: Iterable[Sequence[object]]
    empty: str = ""
    """What is printed if there are no rows."""
    cut: Sequence[str] = ()
    """Columns that are cut if the terminal is too narrow, the first ones first."""
    left_out: Sequence[str] = ()
    """Columns that are left out before others are cut, the first ones first."""
    optional: Sequence[str] = ()
    """Columns that are left out if all of their cells are empty."""
    below: str = ""
    """The column that follows each row, on lines of its own, if the terminal is too narrow."""

    def __str__(self) -> str:
        """Return the lines, with control characters escaped."""
        texts = [["" if cell is None else escaped(str(cell)) for cell in row] for row in self.rows]
        if not texts:
            return escaped(self.empty)
        columns = {
            column[0]: column
            for column in zip(self.head, *texts, strict=True)
            if any(column[1:]) or column[0] not in self.optional
        }
        widths = {name: max(map(count_columns, column)) for name, column in columns.items()}
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        gap = "  " if room is None or _excess(widths, room, "  ") <= 0 else " "
        if room is not None:
            self._fit(widths, room, gap)
        shown = [columns[name] for name in widths]
        numeric = [all(map(_is_number, column[1:])) for column in shown]
        head, *lines = [
            gap.join(map(_cell, line, widths.values(), numeric)).rstrip()
            for line in zip(*shown, strict=True)
        ]
        if self.below in columns and self.below not in widths:
            rows = zip([head, *lines], columns[self.below], strict=True)
            head, *lines = [f"{line}\n    {text}" if text else line for line, text in rows]
        return "\n".join([click.style(head, bold=True), *lines])

    def _fit(self, widths: dict[str, int], room: int, gap: str) -> None:
        """Remove columns, or cut them, as long as there is no room."""
        for name in (self.below, *self.left_out):
            if name in widths and _excess(widths, room, gap) > 0:
                del widths[name]
        for name in self.cut:
            if name in widths:
                excess = _excess(widths, room, gap)
                widths[name] -= max(0, min(excess, widths[name] - _NARROWEST))


def say(text: str, *, err: bool = False, colour: str | None = None) -> None:
    """Print a line of text; only terminals show its colour."""
    click.echo(click.style(escaped(text), fg=colour) if colour else escaped(text), err=err)


def show(answer: Mapping[str, Any], *parts: str | Table, indent: int | None = 2) -> None:
    """Print the answer of a server: as JSON if --json was given, else these parts."""
    if wants_json():
        click.echo(json.dumps(answer, indent=indent))
        return
    for part in parts:
        click.echo(str(part) if isinstance(part, Table) else escaped(part))


def note(text: str, colour: str | None = None) -> None:
    """Print a line for people on standard error, unless --json was given."""
    if not wants_json():
        say(text, err=True, colour=colour)


def wants_json() -> bool:
    """Return whether --json was given."""
    return bool(click.get_current_context().meta.get(AS_JSON))


def write_bytes(data: bytes) -> None:
    """Write data to standard output as they are, or escaped if it is a terminal."""
    if sys.stdout.isatty():
        lines = data.decode(errors="backslashreplace").split("\n")
        click.echo("\n".join(map(escaped, lines)))
    else:
        click.echo(data, nl=False)


def confirm(question: str) -> None:
    """Ask before something is lost.

    Raises:
        ClickException: the answer is no, or nobody can answer.
    """
    try:
        sure = click.confirm(escaped(question), err=True)
    except (click.Abort, RuntimeError):  # there is no input to answer with, or not even a stream
        click.echo(err=True)  # ends the line of the question
        sure = False
    if not sure:
        raise click.ClickException("nothing was changed: answer y, or pass --yes")


def read_config(file: str) -> bytes:
    """Return the content of a file of the project, or of standard input."""
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    return read_project_file(file)


def read_content(file: Path) -> bytes:
    """Return the content of a regular file, of what is below /dev, or of standard input.

    Raises:
        ConfigFileError: it cannot be read, or is larger than 512 MiB.
    """
    if str(file) == STDIN:
        if sys.stdin is None:
            raise ConfigFileError("standard input is closed: name a file")
        data = sys.stdin.buffer.read(SNAPSHOT_BYTES + 1)
    elif file.is_relative_to("/dev"):  # the pipe of a shell's `<(...)`
        try:
            with file.open("rb") as pipe:
                data = pipe.read(SNAPSHOT_BYTES + 1)
        except OSError as error:
            raise ConfigFileError(f'cannot read "{file}": {describe_os_error(error)}') from None
    else:
        data = read_bytes(file, max_bytes=SNAPSHOT_BYTES)
    if len(data) > SNAPSHOT_BYTES:
        raise ConfigFileError(f'cannot read "{file}": it is larger than {SNAPSHOT_BYTES:,} bytes')
    return data


def when(text: str) -> str:
    """Return a time of the server as people read it: UTC, to the second."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"


def preview(content: str | bytes) -> str:
    """Return text or bytes on one line without control characters, cut if it is too long."""
    line = repr(content).removeprefix("b")[1:-1]
    return line if len(line) <= _PREVIEW else f"{line[: _PREVIEW - 3]}..."


def _excess(widths: Mapping[str, int], room: int, gap: str) -> int:
    return sum(widths.values()) + len(gap) * (len(widths) - 1) - room


def _cell(text: str, width: int, numeric: bool) -> str:  # noqa: FBT001 - from a list
    """Return a text cut or filled up to a width, in its colour."""
    shown = text
    if count_columns(text) > width:
        while count_columns(shown) >= width:
            shown = shown[:-1]
        shown += "…"
    filler = " " * (width - count_columns(shown))
    if colour := _COLOURS.get(text.partition(",")[0]):
        shown = click.style(shown, fg=colour)
    return filler + shown if numeric else shown + filler


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "", 1).isdecimal()
