"""The request line and the headers of a usual request, read at one go.

cheroot reads them line by line, in Python, and that takes longer than many a view. It still reads
whatever is not as usual, and refuses what must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from cheroot.server import comma_separated_headers  # type: ignore[attr-defined]  # not in the stubs

from pullqueue.api.remembering import remembering

_REQUEST_LINE = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) "
    rb"((/(?!/)[!\"$&->@-~]*)(?:\?([!\"$-~]*))?) HTTP/1\.1\r\n"
)
"""Nothing escaped in the path, and no server before it."""
_HEADERS = re.compile(rb"(?:[!#-'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*")
"""Each in a line of its own."""
_HEADER = re.compile(rb"([^:]+):([^\r]*)\r\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_LISTS = frozenset(comma_separated_headers)
"""Headers that may be repeated, which is as one with commas."""
_UNUSUAL = frozenset({b"Transfer-Encoding", b"Expect"})


class Headers(NamedTuple):
    """The headers of a request."""

    values: Mapping[bytes, bytes]
    """By name, as cheroot has them."""
    environ: Mapping[str, str]
    """As they are in the WSGI environment."""


class Head(NamedTuple):
    """What stands before the body of a request."""

    size: int
    """In bytes."""
    method: bytes
    uri: bytes
    path: bytes
    query: bytes
    headers: Headers


def usual_head(arrived: bytes) -> Head | None:
    """Give the head at the beginning of what has arrived; None if it is not whole, or not usual."""
    line = _REQUEST_LINE.match(arrived)
    end = arrived.find(b"\r\n\r\n")
    if line is None or end < 0:
        return None
    lines = arrived[line.end() : end + 2]
    headers = _usual_headers(lines)
    method, uri, path, query = line.groups(b"")
    return None if headers is None else Head(end + 4, method, uri, path, query, headers)


def has_clear_length(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether Content-Length is a plain number, or absent."""
    return _LENGTH.fullmatch(headers.get(b"Content-Length", b"0")) is not None


def environ_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Give headers as the WSGI environment has them (PEP 3333)."""
    return {_environ_name(name): value.decode("latin-1") for name, value in headers.items()}


@remembering
def _usual_headers(lines: bytes) -> Headers | None:
    if not _HEADERS.fullmatch(lines):
        return None
    sent = _HEADER.findall(lines)
    values: dict[bytes, bytes] = {}
    for sent_name, sent_value in sent:
        name, value = sent_name.title(), sent_value.strip()
        before = values.get(name) if name in _LISTS else None
        values[name] = b"%b, %b" % (before, value) if before else value
    if not _UNUSUAL.isdisjoint(values) or not has_clear_length(values):
        return None
    if len(values) < len(sent) and lines.lower().count(b"content-length:") > 1:
        return None
    return Headers(values, environ_of(values))


def _environ_name(header: bytes) -> str:
    name = header.decode("latin-1").upper().replace("-", "_")
    return name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"
