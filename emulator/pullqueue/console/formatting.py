"""Times, sizes and payloads as the console shows them."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from pullqueue.structs import Bytes
from pullqueue.tasks import result_text
from pullqueue.text import format_size, format_span

_HEX_BYTES = 16
_MAX_VIEW_BYTES = 64 * 1024
_MIN_FOLDED_LINES, _MAX_FOLDED_LINES = 40, 5_000
_MAX_PREVIEW_CHARACTERS = 160


def span(seconds: float | None) -> str:
    """Return a time span such as `2 h 5 min`; a dash for None."""
    return "\N{EN DASH}" if seconds is None else format_span(seconds)


def instant(text: str) -> str:
    """Return a time to the second, or to the millisecond if it has a fraction."""
    time = datetime.fromisoformat(text)
    shown = f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{shown}.{time.microsecond // 1000:03}" if time.microsecond else shown


def between(earlier: str, later: str) -> str:
    """Return the time span between two times."""
    passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    return span(max(passed, timedelta()).total_seconds())


def until(later: str, now: str) -> str:
    """Return a time relative to now: `in 5 s`, `3 min ago`, `now`."""
    passed = (datetime.fromisoformat(later) - datetime.fromisoformat(now)).total_seconds()
    if not passed:
        return "now"
    return f"in {span(passed)}" if passed > 0 else f"{span(-passed)} ago"


def number(value: int) -> str:
    """Return a number with thousands separators."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def preview(payload: Bytes) -> str:
    """Return the beginning of a payload on one line."""
    text = payload.call or payload.text
    shown = payload.data[:64].hex(" ") if text is None else " ".join(text.split())
    cut = payload.truncated or len(shown) > _MAX_PREVIEW_CHARACTERS
    return shown[:_MAX_PREVIEW_CHARACTERS] + ("…" if cut else "")


def build_views(payload: Bytes) -> dict[str, str]:
    """Return a payload as json, text and hex, where possible; the most readable first."""
    views: dict[str, str] = {}
    if payload.text is not None:
        try:
            parsed = json.loads(payload.text)
            views["json"] = _indented(parsed)
        except (ValueError, RecursionError):
            pass
        views["text"] = payload.text[:_MAX_VIEW_BYTES]
    call = f"{payload.call}\n\n" if payload.call else ""
    views["hex"] = call + hex_dump(payload.data[:_MAX_VIEW_BYTES])
    return views


def json_text(value: object) -> str:
    """Return a value as JSON."""
    return _encodable(json.dumps(value, ensure_ascii=False))


def _indented(value: object) -> str:
    """Return the beginning of indented JSON; the whole can have 2,000 times the payload's size."""
    parts, size = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        size += len(part)
        if size >= _MAX_VIEW_BYTES:
            break
    return _encodable("".join(parts)[:_MAX_VIEW_BYTES])


def _encodable(text: str) -> str:
    """Return a text with halves of pairs of surrogates escaped, which have no UTF-8 form."""
    return text.encode("utf-8", "backslashreplace").decode()


def fold_payload(payload: Bytes) -> object | None:
    """Return a payload of JSON that is so long that its parts are folded; None: it is not."""
    text = build_views(payload).get("json", "")
    is_long = _MIN_FOLDED_LINES <= text.count("\n") <= _MAX_FOLDED_LINES
    if not is_long or len(text) >= _MAX_VIEW_BYTES:
        return None
    value: object = json.loads(payload.text or "")
    return value


def base64(payload: Bytes) -> str:
    """Return a payload in base64."""
    return b64encode(payload.data).decode()


def hex_dump(data: bytes) -> str:
    """Return bytes as lines of offset, hexadecimal digits and printable characters."""
    lines = []
    for start in range(0, len(data), _HEX_BYTES):
        row = data[start : start + _HEX_BYTES]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' ', 8):<33}  {characters}")
    return "\n".join(lines)


FILTERS: Final = (
    *(span, instant, between, until, format_size, number, result_text),
    *(quote, preview, base64, json_text),
)
