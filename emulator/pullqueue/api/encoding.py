"""JSON as Google's APIs send it: in ASCII, and indented unless the request says otherwise."""

from __future__ import annotations

import gzip
import json
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json; charset=UTF-8"
"""Some clients parse no other content type."""

_DELETE = b"\x7f"
"""The one character of ASCII that Python's json escapes and msgspec does not."""


def encode(value: object, *, indented: bool = True) -> bytes:
    """Return a value as JSON; indented by one space a level, and then with a line end."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: JSON can express it, UTF-8 cannot
        body = b"\xff"
    if body.isascii() and _DELETE not in body:
        return msgspec.json.format(body, indent=1) + b"\n" if indented else body
    value = msgspec.to_builtins(value)
    if indented:
        return json.dumps(value, indent=1).encode() + b"\n"
    return json.dumps(value, separators=(",", ":")).encode()


def status_line(status: int) -> str:
    """Return a status code with its phrase in the spelling of the standard."""
    return f"{status} {HTTPStatus(status).phrase}"


def zipped(body: bytes) -> bytes:
    """Return a body compressed for a response that is read once, on the same machine."""
    return gzip.compress(body, compresslevel=1, mtime=0)
