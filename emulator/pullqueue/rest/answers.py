"""JSON as it is sent: pretty unless told otherwise, and zipped for those who can take it."""

from __future__ import annotations

import gzip
import json
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
        rows = [inner + _pretty(item, inner) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{margin}]"
    return _compact(value)
