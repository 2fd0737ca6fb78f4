"""Statements and migrations in SQL files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from pullqueue.stores.rows import sql_of_tasks

_HEAD = re.compile(r"^-- (name|fragment): (\w+)((?: \w+)*)\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_SCOPE = re.compile(r"[:(](project|first_key|last_key)\b")
_PARAMETER = re.compile(r":(\w+)")
_SYNTAX = {"sqlite": ("?", r":\1"), "postgres": ("%s", r"%(\1)s")}
"""How each database writes the place of a value, and that of a named parameter."""


def statements(database: str) -> Mapping[str, str]:
    """Return the statements of a database by name, from its file and from `shared.sql`.

    Each follows a line `-- name: NAME`; with tables after the name it is one for each `{table}`,
    whose name follows that name. What several statements share is a fragment: it follows a line
    `-- fragment: NAME`, and is referred to as `{NAME}`; `sql_of_tasks` makes more of them.
    """
    value, parameter = _SYNTAX[database]
    folder = files("pullqueue.stores")
    own = folder.joinpath(f"{database}.sql").read_text("utf-8")
    shared = folder.joinpath("shared.sql").read_text("utf-8")
    fragments = dict(sql_of_tasks(value))
    found: dict[str, str] = {}
    for text in (own, _PARAMETER.sub(parameter, shared)):
        _, *parts = _HEAD.split(text)
        for kind, name, tables, body in zip(*(parts[place::4] for place in range(4)), strict=True):
            lines = [line for line in body.splitlines() if not line.startswith("--")]
            for table in tables.split() or [""]:
                sql = "\n".join(lines).strip().replace("{table}", table)
                (found if kind == "name" else fragments)[f"{name}{table}"] = sql

    def filled(sql: str) -> str:
        return _FRAGMENT.sub(lambda match: filled(fragments[match[1]]), sql)

    return {name: filled(sql) for name, sql in found.items()}


def with_scope(texts: Mapping[str, str]) -> frozenset[str]:
    """Return the names of statements that are about all queues of a project."""
    return frozenset(name for name, text in texts.items() if _SCOPE.search(text))


def migrations(database: str) -> list[str]:
    """Return the scripts that lead from each version of a schema to the next, in order.

    An empty database has version 0, and script N leads to version N. A script is never changed once
    databases have run it.
    """
    folder = files("pullqueue.stores").joinpath("migrations", database)
    scripts = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    return [scripts[name] for name in sorted(scripts) if name.endswith(".sql")]
