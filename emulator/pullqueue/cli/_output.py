"""Tables, JSON and questions of the commands that use a server."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from unicodedata import category, east_asian_width

import click

from pullqueue.cli._client import Json
from pullqueue.config.text import escaped

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_COLOURS = {
    "available": "green",
    "leased": "yellow",
    "paused": "yellow",
    "exhausted": "red",
    "disabled": "red",
}
"""Colours of the cells that begin with these words."""
_NARROWEST = 8


def say(text: str, *, err: bool = False) -> None:
    """Print a line with text of a server; it cannot control the terminal."""
    click.echo(escaped(text), err=err)


def show_json(value: Json) -> None:
    """Print JSON."""
    click.echo(json.dumps(value, indent=2))


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table as wide as the terminal at most; `empty` is printed if there are no rows."""
    texts = [["" if cell is None else escaped(str(cell)) for cell in row] for row in rows]
    if not texts:
        click.echo(empty)
        return
    right = [all(map(_is_number, column)) for column in zip(*texts, strict=True)]
    widths = [max(map(_width, column)) for column in zip(head, *texts, strict=True)]
    if sys.stdout.isatty():
        _shrink(widths, right, shutil.get_terminal_size().columns)
    for line in (head, *texts):
        cells = [
            _cell(text, width, right=number)
            for text, width, number in zip(line, widths, right, strict=True)
        ]
        if line is head:
            click.secho("  ".join(cells).rstrip(), bold=True)
            continue
        colours = [_COLOURS.get(text.partition(",")[0]) for text in line]
        styled = [
            click.style(cell, fg=colour) if colour else cell
            for cell, colour in zip(cells, colours, strict=True)
        ]
        click.echo("  ".join(styled).rstrip())


def age(seconds: float | None) -> str | None:
    """Return a time span in its two largest units, such as `2 h 5 min`."""
    if seconds is None:
        return None
    if seconds < 1:
        return "0 s" if seconds <= 0 else "<1 s"
    rest = int(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def when(text: str) -> str:
    """Return a time of the server as people read it: UTC, to the second."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"


def confirm(question: str) -> None:
    """Ask before something is lost.

    Raises:
        ClickException: the answer is no, or nobody can answer.
    """
    try:
        sure = click.confirm(question, err=True)
    except (click.Abort, RuntimeError):  # there is no input to answer with, or not even a stream
        click.echo(err=True)  # ends the line of the question
        sure = False
    if not sure:
        raise click.ClickException("nothing was deleted: answer y, or pass --yes")


def shown(content: str | bytes, most: int) -> str:
    """Return text or bytes on one line without control characters, cut if it is too long."""
    line = repr(content).removeprefix("b")[1:-1]
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _shrink(widths: list[int], right: Sequence[bool], room: int) -> None:
    """Make the widest columns of text narrower until the table fits."""
    room -= 2 * (len(widths) - 1)
    while sum(widths) > room:
        place = max(
            (place for place in range(len(widths)) if not right[place]),
            key=lambda place: widths[place],
            default=0,
        )
        if widths[place] <= _NARROWEST:
            return
        widths[place] -= 1


def _cell(text: str, width: int, *, right: bool) -> str:
    """Return a text cut or filled up to a width."""
    if _width(text) > width:
        while _width(text) >= width:
            text = text[:-1]
        text += "…"
    filler = " " * (width - _width(text))
    return filler + text if right else text + filler


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in ("W", "F") else 1


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "", 1).isdecimal()
