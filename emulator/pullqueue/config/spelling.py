"""What was most likely meant by a value that App Engine does not accept."""

from __future__ import annotations

import re

from pullqueue.config.values import parse_age_limit, parse_rate, parse_storage_limit

_UNITS = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
    "d": "d", "day": "d", "days": "d",
}  # fmt: skip
_WEEKS = frozenset({"w", "wk", "week", "weeks"})
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"([0-9]*\.?[0-9]+)\s*(?:(?:/|per)\s*([A-Za-z]+))?")
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]*)")
_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*([BKMGTbkmgt])(?:i?[Bb])?")


def meant_rate(text: str) -> str | None:
    """Give the rate meant by `1/min`, `5 / s` or `.5/s`."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        return None
    unit = _UNITS.get((match[2] or "s").lower())
    meant = f"{_with_digit(match[1])}/{unit}"
    return meant if unit and parse_rate(meant) else None


def meant_age_limit(text: str) -> str | None:
    """Give the age limit meant by `2D`, `1w`, `3 days` or `3600`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    unit = match[2].lower()
    if unit in _WEEKS:
        meant = f"{_decimal(float(match[1]) * 7)}d"
    elif (unit or "s") in _UNITS:
        meant = _with_digit(match[1]) + _UNITS[unit or "s"]
    else:
        return None
    return meant if parse_age_limit(meant) else None


def meant_seconds(text: str) -> str | None:
    """Give the number of seconds meant by `10s` or `5m`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    return _decimal(float(match[1]) * _SECONDS[_UNITS[match[2].lower()]])


def meant_storage_limit(text: str) -> str | None:
    """Give the storage limit meant by `120MB`, `120m` or `1 GiB`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    meant = _with_digit(match[1]) + match[2].upper()
    return meant if parse_storage_limit(meant) is not None else None


def _with_digit(number: str) -> str:
    return f"0{number}" if number.startswith(".") else number


def _decimal(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")
