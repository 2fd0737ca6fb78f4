"""What a statement of SQL reads and writes, as far as its text says that."""

from __future__ import annotations

import re

from pullqueue.testing.points.footprint import Footprint, Path

_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_VERB = re.compile(r"[a-zA-Z]*")
_CALLS = re.compile(r"(\w+)\"?\s*\(")
_LOCKS = re.compile(r"\b(for|into|lock)\b", re.IGNORECASE)
_PURE = frozenset(
    {"all", "and", "any", "as", "avg", "by", "cast", "coalesce", "count", "distinct", "exists"}
    | {"from", "having", "in", "join", "lower", "max", "min", "not", "on", "or", "select", "sum"}
    | {"upper", "where"}
)
"""What can be before a parenthesis in a statement that only reads."""


def verb_of(statement: str) -> str:
    """Return the first word of a statement, in upper case."""
    start = _COMMENTS.match(statement)
    found = _VERB.match(statement, start.end() if start else 0)
    return found[0].upper() if found else ""


def statement_footprint(dialect: str, statement: str) -> Footprint:
    """Return what a statement reads and writes: the databases of its dialect.

    Which tables it uses is not known, because of views, triggers, and the snapshots of
    transactions. It only reads if it is a SELECT without locks and without functions of unknown
    effect.
    """
    path: frozenset[Path] = frozenset({("sql", dialect)})
    is_read = verb_of(statement) == "SELECT" and not _LOCKS.search(statement)
    if is_read and all(name.lower() in _PURE for name in _CALLS.findall(statement)):
        return Footprint(reads=path)
    return Footprint(writes=path)
