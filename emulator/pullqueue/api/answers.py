"""JSON as it is sent: pretty unless told otherwise, and zipped for those who can take it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json; charset=UTF-8"
"""Some clients parse nothing that is called otherwise."""

AT_ONCE_KEY = "pullqueue.at_once"
"""What the WSGI environment holds where the server sends at once what is written."""

_FASTEST = 1

_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Plain(str):
    """Text without anything that JSON escapes, such as base64: it is written without a look."""

    __slots__ = ()


@cache
def status_line(status: str) -> str:
    """Give a status in the words of the standard, which werkzeug writes in capitals."""
    code, _, name = status.partition(" ")
    with suppress(ValueError):
        name = HTTPStatus(int(code)).phrase
    return f"{code} {name}"


def compact(value: Json) -> str:
    """Give JSON without a space."""
    return _written(value, colon=":", line="")


def pretty(value: Json) -> str:
    """Give JSON with one key a line, one space further in at each level, as Google's.

    The standard library's encoder leaves its fast path when it is to indent; a lease of a
    thousand tasks then takes several times as long as this.
    """
    return _written(value, colon=": ", line="\n") + "\n"


def zipped(body: bytes) -> bytes:
    """Give a body compressed for an answer that is read once, on the same machine."""
    return gzip.compress(body, _FASTEST, mtime=0)


def _written(value: Json, *, colon: str, line: str) -> str:
    parts: list[str] = []
    _write(value, colon, line, parts.append)
    return "".join(parts)


def _write(value: object, colon: str, line: str, put: Callable[[str], None]) -> None:
    """Write a value; `line` is what begins a line, the margin included, or nothing."""
    inner = f"{line} " if line else ""
    if isinstance(value, dict) and value:
        before = f"{{{inner}"
        for key, item in value.items():
            if type(item) is str:
                put(f"{before}{_quoted(key)}{colon}{_quoted(item)}")
            elif type(item) is Plain:
                put(f'{before}{_quoted(key)}{colon}"{item}"')
            elif type(item) is int:
                put(f"{before}{_quoted(key)}{colon}{item}")
            else:
                put(f"{before}{_quoted(key)}{colon}")
                _write(item, colon, inner, put)
            before = f",{inner}"
        put(f"{line}}}")
    elif isinstance(value, list) and value:
        before = f"[{inner}"
        for item in value:
            put(before)
            _write(item, colon, inner, put)
            before = f",{inner}"
        put(f"{line}]")
    else:
        put(_encoded(value))
