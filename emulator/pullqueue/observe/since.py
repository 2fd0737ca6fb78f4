"""Lists of what happened from a time on: `since`, a time or a time of the day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from typing import Final, Protocol, TypeVar

from pullqueue.api.errors import ApiError
from pullqueue.clock import from_usec
from pullqueue.engine.validation import parse_time
from pullqueue.structs import Time
from pullqueue.text import quoted

SINCE_FORMS: Final = " A time such as 2026-01-01T14:05:00Z; 14:05 (UTC) is the last such time."
"""The second half of the description of `since`."""
_TIME_OF_DAY = re.compile(r"\d\d:\d\d(:\d\d)?")


class _Timed(Protocol):
    """Something that happened at a time."""

    time: Time


_T = TypeVar("_T", bound=_Timed)


def from_time_on(things: Iterable[_T], since: str, now_usec: int) -> Iterator[_T]:
    """Return an iterator over what happened from a time on; an empty text: over everything.

    Raises:
        ApiError: the text is not a time.
    """
    start = parse_since(since, now_usec)
    if start is None:
        return iter(things)
    return (thing for thing in things if datetime.fromisoformat(thing.time) >= start)


def parse_since(since: str, now_usec: int) -> datetime | None:
    """Return the time that is meant; None: the text is empty.

    Raises:
        ApiError: the text is not a time.
    """
    text, now = since.strip(), from_usec(now_usec)
    if not text:
        return None
    if not _TIME_OF_DAY.fullmatch(text):
        return parse_time(text, "since", ApiError)
    try:
        day_time = time.fromisoformat(text)
    except ValueError:
        message = f"since is {quoted(text)}, which is not a time of the day: use one such as 14:05"
        raise ApiError(message) from None
    today = datetime.combine(now.date(), day_time, now.tzinfo)
    return today if today <= now else today - timedelta(days=1)
