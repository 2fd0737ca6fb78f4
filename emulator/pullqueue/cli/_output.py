"""What the commands that speak to a server have in common: their options, tables, and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from unicodedata import category, east_asian_width

import click
from click.shell_completion import CompletionItem

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli._client import Client, Json
from pullqueue.config.text import escaped

_Command = TypeVar("_Command", bound=Callable[..., Any])

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def url_option(command: _Command) -> _Command:
    """Add --url."""
    return click.option(
        "--url",
        metavar="HOST:PORT",
        help=f"Where the server is; if not given, what {ADDRESS_VARIABLE} says, or "
        f"{DEFAULT_ADDRESS}.",
    )(command)


def server_options(command: _Command) -> _Command:
    """Add --url and --json."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
    return url_option(as_json(command))


def complete_queue(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Give the names of a running server's queues that begin with what was typed."""
    try:
        queues = Client(ctx.params.get("url")).get("/queues")["queues"]
    except click.ClickException:
        return []
    names = [queue["name"] for queue in queues if queue["mode"] == "pull"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def queue_argument(command: _Command) -> _Command:
    """Add the argument QUEUE, which shells complete."""
    return click.argument("queue", shell_complete=complete_queue)(command)


def say(text: str) -> None:
    """Print a line with what a server sent; it cannot steer the terminal."""
    click.echo(escaped(text))


def show_json(value: Json) -> None:
    """Print JSON."""
    click.echo(json.dumps(value, indent=2))


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table with aligned columns: numbers to the right. `empty` is printed for no rows."""
    texts = [["" if cell is None else escaped(str(cell)) for cell in row] for row in rows]
    if not texts:
        click.echo(empty)
        return
    widths = [max(map(_width, column)) for column in zip(head, *texts, strict=True)]
    right = [all(_is_number(text) for text in column) for column in zip(*texts, strict=True)]
    for line in (head, *texts):
        cells = [
            _filler(text, width) + text if number else text + _filler(text, width)
            for text, width, number in zip(line, widths, right, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def age(seconds: float | None) -> str | None:
    """Give a time span in its two largest units, such as `2 h 5 min`."""
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
    """Give a moment of the server's as a person reads it: UTC, to the second."""
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
        raise click.ClickException("nothing was deleted: answer y, or give --yes")


def shown(content: str | bytes, most: int) -> str:
    """Give text or bytes on one line that does nothing to a terminal, cut where it is too long."""
    line = repr(content).removeprefix("b")[1:-1]
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _width(text: str) -> int:
    """Give how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in ("W", "F") else 1


def _filler(text: str, width: int) -> str:
    return " " * (width - _width(text))


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "", 1).isdecimal()
