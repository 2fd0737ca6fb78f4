"""JSON as it is sent: pretty unless told otherwise, and zipped for those who can take it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json; charset=UTF-8"
"""Some clients parse nothing that is called otherwise."""

_FASTEST = 1
_NESTED = frozenset({dict, list})

_compact = json.JSONEncoder(separators=(",", ":")).encode


def compact(value: Json) -> str:
    """Give JSON without a space."""
    return _compact(value)


def pretty(value: Json) -> str:
    """Give JSON with one key a line, one space further in at each level, as Google's.

    The standard library's encoder leaves its fast path when it is to indent; a lease of a
    thousand tasks then takes several times as long as this.
    """
    return f"{_pretty(value, '')}\n"


def zipped(body: bytes) -> bytes:
    """Give a body compressed for an answer that is read once, on the same machine."""
    return gzip.compress(body, _FASTEST, mtime=0)


def _pretty(value: object, margin: str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    inner = margin + " "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{_quoted(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{margin}}}"
    if isinstance(value, list) and value:
        if all(map(_is_flat, value)):
            return f"[\n{_pretty_tasks(value, inner)}\n{margin}]"
        rows = [inner + _pretty(item, inner) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{margin}]"
    return _compact(value)


def _is_flat(value: object) -> bool:
    return type(value) is dict and bool(value) and _NESTED.isdisjoint(map(type, value.values()))


def _pretty_tasks(values: list[Json], margin: str) -> str:
    """Give objects of text and numbers, as leases and lists have them by the thousand.

    The library's encoder writes them in one go, with a new line in its separator. Since no text
    holds a new line as such, where one object ends and the next begins cannot be mistaken.
    """
    inner = margin + " "
    rows = _row_encoder(inner)(values)[2:-2]
    rows = rows.replace(f"}},\n{inner}{{", f"\n{margin}}},\n{margin}{{\n{inner}")
    return f"{margin}{{\n{inner}{rows}\n{margin}}}"


@cache
def _row_encoder(margin: str) -> Callable[[list[Json]], str]:
    return json.JSONEncoder(separators=(f",\n{margin}", ": ")).encode
