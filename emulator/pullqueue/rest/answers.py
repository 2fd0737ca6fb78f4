"""JSON as it is sent: pretty unless told otherwise, and zipped for those who can take it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from itertools import chain, repeat
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json; charset=UTF-8"
"""Some clients parse nothing that is called otherwise."""

_FASTEST = 1
_NESTED = frozenset({dict, list})
_ROWS = 50
"""Objects written in one go: few enough that a copy of their text stays near the processor."""

_compact = json.JSONEncoder(separators=(",", ":")).encode


def compact(value: Json) -> str:
    """Give JSON without a space."""
    return _compact(value)


def pretty(value: Json) -> str:
    """Give JSON with one key a line, one space further in at each level, as Google's.

    The standard library's encoder leaves its fast path when it is to indent; a lease of a
    thousand tasks then takes several times as long as this.
    """
    parts: list[str] = []
    _write(value, "", parts.append)
    parts.append("\n")
    return "".join(parts)


def zipped(body: bytes) -> bytes:
    """Give a body compressed for an answer that is read once, on the same machine."""
    return gzip.compress(body, _FASTEST, mtime=0)


def _write(value: object, margin: str, put: Callable[[str], None]) -> None:
    inner = margin + " "
    if isinstance(value, dict) and value:
        before = "{\n"
        for key, item in value.items():
            if isinstance(item, str):
                put(f"{before}{inner}{_quoted(key)}: {_quoted(item)}")
            else:
                put(f"{before}{inner}{_quoted(key)}: ")
                _write(item, inner, put)
            before = ",\n"
        put(f"\n{margin}}}")
    elif isinstance(value, list) and value:
        if all(map(_is_flat, value)):
            _write_rows(value, inner, put)
        else:
            for before, item in zip(chain(["[\n"], repeat(",\n")), value, strict=False):
                put(before + inner)
                _write(item, inner, put)
        put(f"\n{margin}]")
    else:
        put(_compact(value))


def _is_flat(value: object) -> bool:
    return type(value) is dict and bool(value) and _NESTED.isdisjoint(map(type, value.values()))


def _write_rows(values: list[Json], margin: str, put: Callable[[str], None]) -> None:
    """Write objects of text and numbers, as leases and lists have them by the thousand.

    The library's encoder writes many in one go, with a new line in its separator. Since no text
    holds a new line as such, where one object ends and the next begins cannot be mistaken.
    """
    inner = margin + " "
    encode = _row_encoder(inner)
    before = "[\n"
    for start in range(0, len(values), _ROWS):
        rows = encode(values[start : start + _ROWS])[2:-2]
        rows = rows.replace(f"}},\n{inner}{{", f"\n{margin}}},\n{margin}{{\n{inner}")
        put(f"{before}{margin}{{\n{inner}{rows}\n{margin}}}")
        before = ",\n"


@cache
def _row_encoder(margin: str) -> Callable[[list[Json]], str]:
    return json.JSONEncoder(separators=(f",\n{margin}", ": ")).encode
