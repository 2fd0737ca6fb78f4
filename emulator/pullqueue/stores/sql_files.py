"""Statements and migrations in SQL files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_HEAD = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")


def statements(file_name: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the statements of a file by name; each follows a line `-- name: NAME`.

    What several statements share is a fragment: it follows a line `-- fragment: NAME`; statements
    and later fragments refer to it as `{NAME}`, and to those that are `given` as well.
    """
    text = files("pullqueue.stores").joinpath(file_name).read_text("utf-8")
    _, *parts = _HEAD.split(text)
    fragments = dict(given)
    found: dict[str, str] = {}
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        sql = _FRAGMENT.sub(lambda match: fragments[match[1]], _without_comments(body))
        (found if kind == "name" else fragments)[name] = sql
    return found


def migrations(database: str) -> list[str]:
    """Return the scripts that lead from each version of a schema to the next, in order.

    An empty database has version 0, and script N leads to version N. A script is never changed once
    databases have run it.
    """
    folder = files("pullqueue.stores").joinpath("migrations", database)
    scripts = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    return [scripts[name] for name in sorted(scripts) if name.endswith(".sql")]


def _without_comments(statement: str) -> str:
    lines = [line for line in statement.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip()
