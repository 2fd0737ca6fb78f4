"""JSON as it is sent: pretty unless told otherwise, and zipped for those who can take it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json; charset=UTF-8"
"""Some clients parse nothing that is called otherwise."""

_FASTEST = 1

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
    _write(value, "\n", parts.append)
    parts.append("\n")
    return "".join(parts)


def zipped(body: bytes) -> bytes:
    """Give a body compressed for an answer that is read once, on the same machine."""
    return gzip.compress(body, _FASTEST, mtime=0)


def _write(value: object, line: str, put: Callable[[str], None]) -> None:
    """Write a value; `line` is what begins a line: the end of the one before, and the margin."""
    inner = f"{line} "
    if isinstance(value, dict) and value:
        before = f"{{{inner}"
        for key, item in value.items():
            if type(item) is str:
                put(f"{before}{_quoted(key)}: {_quoted(item)}")
            else:
                put(f"{before}{_quoted(key)}: ")
                _write(item, inner, put)
            before = f",{inner}"
        put(f"{line}}}")
    elif isinstance(value, list) and value:
        before = f"[{inner}"
        for item in value:
            put(before)
            _write(item, inner, put)
            before = f",{inner}"
        put(f"{line}]")
    else:
        put(_compact(value))
