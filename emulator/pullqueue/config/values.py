"""The values of queue.yaml, read as App Engine reads them, and what wrong ones were meant to be."""

from __future__ import annotations

import math
import re

from pullqueue.config.document import Scalar
from pullqueue.config.model import Rate
from pullqueue.text import SECONDS_PER_UNIT, closest, decimal

BYTES_PER_UNIT = {"B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}

_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?)/([smhd])")
_STORAGE = re.compile(r"([0-9]+(?:\.[0-9]*)?)([BKMGT]?)")
_AGE = re.compile(r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([smhd])")
is_deployable_age = re.compile(r"([0-9]+(\.[0-9]+)?|\.[0-9]+)[smhd]").fullmatch
"""Match an age limit that gcloud can deploy; Google's parser also reads `1.s` and `1e3s`."""
_EXPONENT = re.compile(r"[-+]?[0-9_]+(\.[0-9_]*)?[eE].*")


def parse_rate(text: str) -> Rate | None:
    """Parse `rate`: `0`, or a number, a slash and one of s, m, h, d. None if it is not valid."""
    if text == "0":
        return Rate(count=0.0)
    match = _RATE.fullmatch(text)
    return Rate(count=float(match[1]), unit=match[2]) if match else None


def parse_storage_limit(text: str) -> int | None:
    """Parse `total_storage_limit`, in bytes.

    A number with B, K, M, G or T (multiples of 1024), truncated to whole bytes; without a unit it
    must be whole. None if it is not valid.
    """
    match = _STORAGE.fullmatch(text)
    if match is None:
        return None
    try:
        return int(float(match[1]) * BYTES_PER_UNIT[match[2]]) if match[2] else int(match[1])
    except (ValueError, OverflowError):
        return None


def is_age_limit(text: str) -> bool:
    """Return whether a text has the format of `task_age_limit`, whatever its number."""
    return _AGE.fullmatch(text) is not None


def parse_age_limit(text: str) -> int | None:
    """Parse `task_age_limit`, in seconds truncated to whole ones. None if it is not valid."""
    match = _AGE.fullmatch(text)
    if match is None:
        return None
    seconds = float(match[1]) * SECONDS_PER_UNIT[match[2]]
    return int(seconds) if math.isfinite(seconds) else None


def as_integer(scalar: Scalar) -> int | None:
    """Return the whole number that App Engine makes of a value, None if it makes none.

    Fractions are cut off, truth values are 1 and 0, quoted numbers count. An exponent is refused:
    some YAML readers take `1e2` for text.
    """
    value = scalar.value
    if value is None or (isinstance(value, float) and _EXPONENT.fullmatch(scalar.text)):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def as_number(scalar: Scalar) -> float | None:
    """Return a value as a finite number, None if it is not one; truth values are not numbers."""
    value = scalar.value
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_boolean(scalar: Scalar) -> bool | None:
    """Return a value as true or false, None if App Engine takes it for neither."""
    return {"True": True, "False": False}.get(scalar.effective_text)


_UNITS = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
    "d": "d", "day": "d", "days": "d",
}  # fmt: skip
_WEEKS = frozenset({"w", "wk", "week", "weeks"})
_ANY_RATE = r"((?:[0-9]*\.)?[0-9]+)\s*(?:(?:/|per)\s*([A-Za-z]+))?"
_ANY_DURATION = r"((?:[0-9]*\.)?[0-9]+)\s*([A-Za-z]*)"
_ANY_SIZE = r"((?:[0-9]*\.)?[0-9]+)\s*([BKMGTbkmgt])(?:i?[Bb])?"


def suggested_mode(text: str) -> str | None:
    """Return the mode meant by `PULL` or `pul`."""
    return closest(text.strip().lower(), ("pull", "push"))


def suggested_rate(text: str) -> str | None:
    """Return the rate meant by `1/min`, `5 / s` or `.5/s`."""
    match = re.fullmatch(_ANY_RATE, text.strip())
    unit = _UNITS.get((match[2] or "s").lower()) if match else None
    suggested = f"{_with_digit(match[1])}/{unit}" if match else ""
    return suggested if unit and parse_rate(suggested) else None


def suggested_age_limit(text: str) -> str | None:
    """Return the age limit meant by `2D`, `1w`, `3 days` or `3600`."""
    match = re.fullmatch(_ANY_DURATION, text.strip())
    if match is None:
        return None
    unit = match[2].lower()
    if unit in _WEEKS:
        suggested = f"{decimal(float(match[1]) * 7)}d"
    elif (unit or "s") in _UNITS:
        suggested = _with_digit(match[1]) + _UNITS[unit or "s"]
    else:
        return None
    return suggested if parse_age_limit(suggested) else None


def suggested_seconds(text: str) -> str | None:
    """Return the number of seconds meant by `10s` or `5m`."""
    match = re.fullmatch(_ANY_DURATION, text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    return decimal(float(match[1]) * SECONDS_PER_UNIT[_UNITS[match[2].lower()]])


def suggested_storage_limit(text: str) -> str | None:
    """Return the storage limit meant by `120MB`, `120m` or `1 GiB`."""
    match = re.fullmatch(_ANY_SIZE, text.strip())
    suggested = _with_digit(match[1]) + match[2].upper() if match else ""
    return suggested if match and parse_storage_limit(suggested) is not None else None


def _with_digit(number: str) -> str:
    return f"0{number}" if number.startswith(".") else number
