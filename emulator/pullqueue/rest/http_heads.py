"""The request line and the headers of a usual request, read at one go.

cheroot reads them line by line, in Python, and that takes longer than many a view. It still reads
whatever is not as usual, and refuses what must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from cheroot.server import comma_separated_headers  # type: ignore[attr-defined]  # not in the stubs

_HEAD = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) "
    rb"((/(?!/)[!\"$&->@-~]*)(?:\?([!\"$-~]*))?) HTTP/1\.1\r\n"
    rb"((?:[!#-'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*)\r\n"
)
"""Nothing escaped in the path, no server before it, and each header in a line of its own."""
_HEADER = re.compile(rb"([^:]+):([^\r]*)\r\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_LISTS = frozenset(comma_separated_headers)
"""Headers that may be repeated, which is as one with commas."""
_UNUSUAL = frozenset({b"Transfer-Encoding", b"Expect"})
_KNOWN_NAMES = 256
_LONGEST_KNOWN = 64


class Head(NamedTuple):
    """What stands before the body of a request."""

    size: int
    """In bytes."""
    method: bytes
    uri: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]


def usual_head(arrived: bytes) -> Head | None:
    """Give the head at the beginning of what has arrived; None if it is not whole, or not usual."""
    match = _HEAD.match(arrived)
    if match is None:
        return None
    method, uri, path, query, lines = match.groups(b"")
    sent = _HEADER.findall(lines)
    headers: dict[bytes, bytes] = {}
    for sent_name, sent_value in sent:
        name, value = sent_name.title(), sent_value.strip()
        before = headers.get(name) if name in _LISTS else None
        headers[name] = b"%b, %b" % (before, value) if before else value
    if not _UNUSUAL.isdisjoint(headers) or not has_clear_length(headers):
        return None
    if len(headers) < len(sent) and lines.lower().count(b"content-length:") > 1:
        return None
    return Head(match.end(), method, uri, path, query, headers)


def has_clear_length(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether Content-Length is a plain number, or absent."""
    return _LENGTH.fullmatch(headers.get(b"Content-Length", b"0")) is not None


def environ_name(header: bytes) -> str:
    """Give the name of a header in the WSGI environment."""
    return (_known_name if len(header) <= _LONGEST_KNOWN else _environ_name)(header)


def _environ_name(header: bytes) -> str:
    name = header.decode("latin-1").upper().replace("-", "_")
    return name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"


_known_name = lru_cache(_KNOWN_NAMES)(_environ_name)
