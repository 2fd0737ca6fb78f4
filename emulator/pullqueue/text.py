"""Values of messages and reports: their types, and quoting, shortening, escaping, measuring."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeGuard

SECONDS_PER_UNIT = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of time spans and rates, by their first letters, the largest first."""

_MOST_NAMED = 50
_THOUSAND_YEARS = 365_250 * 86_400


# Without a range that is negated and goes beyond ASCII, which takes long to compile.
_PART = r"[!#-'*+\--9=?A-\[\]-~]+"
is_email = re.compile(rf"(?!.{{255}}){_PART}@{_PART}\.{_PART}").fullmatch
"""Match an e-mail address without characters that would end it in a list or in a cookie.

It has at most 254 characters (RFC 5321); without this limit, a million dots take hours.
"""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number, and neither True nor False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number, and neither True nor False."""
    return isinstance(value, int) and not isinstance(value, bool)


def escaped(text: str) -> str:
    r"""Return a text with everything that is not printable as an escape, such as `\x1b`.

    Names and contents of files may hold control characters (C0, C1, DEL), which steer terminals
    and forge lines of a log.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def shorten(text: str, *, limit: int = 60) -> str:
    """Return a text escaped and cut so that it fits into one line of a message."""
    shown = escaped(text)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def quoted(value: object, *, limit: int = 100) -> str:
    """Return a value as messages show it: text in double quotes, on one line, and not too long."""
    if isinstance(value, float):
        return f"{value:.15g}"  # without the `.0` of a whole number
    shown = shorten(str(value), limit=limit)
    return f'"{shown}"' if isinstance(value, str) else shown


def decode_name(data: bytes | str) -> str:
    """Return a name of the SDK's messages, which hold bytes, as text.

    A name that is not in UTF-8 is replaced by one that nothing has.
    """
    return data if isinstance(data, str) else data.decode(errors="replace")


def counted(count: int, noun: str) -> str:
    """Return a number of things in words: `1 lease`, `2 leases`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def list_first(texts: Sequence[str], limit: int) -> str:
    """Return the first of some texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return f"{', '.join(texts[:limit])}{more}"


def describe_os_error(error: BaseException) -> str:
    """Return what the operating system reports, for use within a sentence."""
    text = getattr(error, "strerror", None) or str(error)
    return f"{text[:1].lower()}{text[1:]}"


def decimal(number: float) -> str:
    """Return a number without an exponent and without zeros at its end."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def format_span(seconds: float) -> str:
    """Return a time span in its two largest units, such as `2 h 5 min`."""
    if 0 < seconds < 1:
        return "< 1 s"
    if seconds > _THOUSAND_YEARS:
        return "> 1,000 years"
    rest, parts = int(seconds), []
    for unit, size in SECONDS_PER_UNIT.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {'min' if unit == 'm' else unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 s"


def format_size(count: int) -> str:
    """Return a number of bytes in a unit that suits it, such as `1.5 KiB`."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1023.95 * 1024 else f"{count / 1024**2:.1f} MiB"


def count_columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - most text is ASCII

    return sum(
        0
        if unicodedata.category(letter) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(letter) in ("W", "F"))
        for letter in text
    )


def to_snake_case(name: str) -> str:
    """Return a name with underscores in place of capitals: `max_attempts` for `maxAttempts`."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the known word that a misspelt one is most likely meant to be."""
    import difflib  # noqa: PLC0415 - only a file with such a fault pays for it

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the advice on an unknown word: the known word that is meant, or the first of them."""
    words = list(known)
    if near := closest(word, words):
        return f"did you mean {quoted(near)}?"
    others = len(words) - _MOST_NAMED
    more = f", or {counted(others, 'other')}" if others > 0 else ""
    return f"use one of {', '.join(words[:_MOST_NAMED])}{more}"
