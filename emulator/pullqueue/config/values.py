"""The numbers of queue.yaml, read as App Engine reads them."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from pullqueue.config.nodes import Scalar

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
BYTES_PER_UNIT = {"B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}

_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?)/([smhd])")
_STORAGE = re.compile(r"([0-9]+(?:\.[0-9]*)?)([BKMGT]?)")
_AGE = re.compile(r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([smhd])")
_EXPONENT = re.compile(r"[-+]?[0-9_]+(\.[0-9_]*)?[eE].*")


class ParsedRate(NamedTuple):
    """A rate: tasks per unit of time."""

    tasks: float
    unit: str = "s"

    @property
    def per_second(self) -> float:
        """The rate in tasks per second."""
        return self.tasks / SECONDS_PER_UNIT[self.unit]


def parse_rate(text: str) -> ParsedRate | None:
    """Read `rate`: `0`, or a number, a slash and one of s, m, h, d. None if it is no rate."""
    if text == "0":
        return ParsedRate(0.0)
    match = _RATE.fullmatch(text)
    return ParsedRate(float(match[1]), match[2]) if match else None


def parse_storage_limit(text: str) -> int | None:
    """Read `total_storage_limit` in bytes: a number with B, K, M, G or T (multiples of 1024),
    cut off to whole bytes; without a unit it must be whole. None if it is no limit.
    """
    match = _STORAGE.fullmatch(text)
    if match is None:
        return None
    try:
        if not match[2]:
            return int(match[1])
        return int(float(match[1]) * BYTES_PER_UNIT[match[2]])
    except (ValueError, OverflowError):
        return None


def parse_age_limit(text: str) -> int | None:
    """Read `task_age_limit` in seconds, cut off to whole ones. None if it is no age."""
    match = _AGE.fullmatch(text)
    if match is None:
        return None
    seconds = float(match[1]) * SECONDS_PER_UNIT[match[2]]
    return int(seconds) if math.isfinite(seconds) else None


def as_integer(scalar: Scalar) -> int | None:
    """Give the whole number that App Engine makes of a value, None if it makes none.

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
    """Give a value as a finite number, None if it is none; truth values are none."""
    value = scalar.value
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_boolean(scalar: Scalar) -> bool | None:
    """Give a value as true or false, None if App Engine takes it for neither."""
    return {"True": True, "False": False}.get(scalar.seen)
