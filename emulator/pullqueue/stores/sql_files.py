"""Statements and migrations in SQL files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statements(file_name: str) -> Mapping[str, str]:
    """Return the statements of a file by name; each follows a line `-- name: NAME`."""
    text = files("pullqueue.stores").joinpath(file_name).read_text("utf-8")
    _, *parts = _NAME.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _without_comments(statement) for name, statement in pairs}


def migrations(database: str) -> list[str]:
    """Return the scripts that lead from each version of a schema to the next, in order.

    An empty database has version 0, and script N leads to version N.
    """
    folder = files("pullqueue.stores").joinpath("migrations", database)
    scripts = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    return [scripts[name] for name in sorted(scripts) if name.endswith(".sql")]


def _without_comments(statement: str) -> str:
    lines = [line for line in statement.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip()
