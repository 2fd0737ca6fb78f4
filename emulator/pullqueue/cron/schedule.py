"""The language of schedules in cron.yaml, as Google's reference documents it.

Everything here is a pure function of its arguments. What the reference does not show in its grammar
or an example is refused.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, TypeAlias

from pullqueue.limits import DAY_SECONDS

_UNITS = {"minutes": 60, "mins": 60, "hours": 3600}
_SINGULARS = {"minute": "minutes", "min": "mins", "hour": "hours"}
_ORDINALS: Final = {
    word: number
    for number, words in enumerate(
        (
            ("1st", "first"),
            ("2nd", "second"),
            ("3rd", "third"),
            ("4th", "fourth"),
            ("5th", "fifth"),
        ),
        start=1,
    )
    for word in words
}
_WEEKDAYS: Final = {
    word: number
    for number, name in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    for word in (name, name[:3])
}
_MONTHS: Final = {
    word: number
    for number, name in enumerate(
        (
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ),
        start=1,
    )
    for word in (name, name[:3])
}
_QUARTER = frozenset({1, 4, 7, 10})
_YEARS = 40
"""Within so many years every permitted day occurs, such as a fifth Monday of February."""

_INTERVAL = re.compile(
    r"every (?P<count>[0-9]{1,5}) (?P<unit>[a-z]+)"
    r"(?: (?:(?P<synchronized>synchronized)|from (?P<start>\S+) to (?P<end>\S+)))?"
)
_SPECIFIC = re.compile(
    r"(?:(?P<monthdays>[0-9]+(?:,[0-9]+)*)|(?P<ordinals>every|[a-z0-9]+(?:,[a-z0-9]+)*) "
    r"(?P<days>[a-z]+(?:,[a-z]+)*))(?: of (?P<months>[a-z]+(?:,[a-z]+)*))? (?P<time>[0-9]\S*)"
)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Every so many seconds: after the end of the run before, or within a range of each day."""

    seconds: int
    between: tuple[time, time] | None = None
    """The beginning of the range, and its last minute; None: there is none, and a run begins that
    long after the last one has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calendar:
    """At one time of the day, on certain days."""

    at: time
    months: frozenset[int]
    """1 is January."""
    monthdays: frozenset[int] = frozenset()
    """Days of the month; empty: weekdays decide."""
    weekdays: frozenset[int] = frozenset()
    """0 is Monday."""
    ordinals: frozenset[int] = frozenset()
    """Which of these weekdays of a month: 1 to 5."""


Schedule: TypeAlias = Interval | Calendar


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule, such as `every 5 minutes` or `2nd,third mon,wed of march 17:00`.

    Raises:
        ValueError: it is not valid.
    """
    words = re.sub(r"\s*,\s*", ",", " ".join(text.lower().split()))
    if found := _INTERVAL.fullmatch(words):
        return _interval(found)
    if found := _SPECIFIC.fullmatch(words):
        return _calendar(found)
    raise ValueError(_advice(words))


def _advice(words: str) -> str:
    if re.fullmatch(r"\S+ \S+ \S+ \S+ \S+", words) and "*" in words:
        return (
            "this is the syntax of crontab: App Engine's is English, such as `every 5 minutes` or "
            "`every monday 09:00`"
        )
    if words in ("every minute", "every hour"):
        return f"the number is missing: write `every 1 {words.removeprefix('every ')}s`"
    if _SPECIFIC.fullmatch(f"{words} 00:00"):
        return f"the time of the day is missing: write it at the end, as in `{words} 09:00`"
    return (
        "write `every N minutes` or `every N hours` (`synchronized`, or `from 10:00 to 14:00`), "
        "`every monday 09:00`, `1st,third mon of sep,oct 17:00` or `1,15 of month 09:00`"
    )


def _interval(found: re.Match[str]) -> Interval:
    unit, count = found["unit"], int(found["count"])
    if unit not in _UNITS:
        plural = _SINGULARS.get(unit)
        if unit in ("day", "days"):
            raise ValueError(f"`{unit}` is not a unit: write `every {count * 24} hours`")
        known = f"write `{plural}`" if plural else "write `minutes` or `hours`"
        raise ValueError(f"`{unit}` is not a unit: {known}")
    seconds = count * _UNITS[unit]
    if not count:
        raise ValueError(f"the interval is 0 {unit}: it must be 1 or more")
    if found["synchronized"]:
        if DAY_SECONDS % seconds:
            raise ValueError(
                f"{count} {unit} do not divide 24 hours evenly, as `synchronized` requires"
            )
        return Interval(seconds=seconds, between=(time(0), time(23, 59)))
    if found["start"]:
        return Interval(seconds=seconds, between=(_time(found["start"]), _time(found["end"])))
    return Interval(seconds=seconds)


def _calendar(found: re.Match[str]) -> Calendar:
    months = _months(found["months"])
    at = _time(found["time"])
    if found["monthdays"]:
        monthdays = frozenset(map(int, found["monthdays"].split(",")))
        if found["months"] is None:
            raise ValueError("the months are missing after the days: write `of month`")
        longest = max(monthrange(2024, month)[1] for month in months)
        for day in sorted(monthdays):
            if not 1 <= day <= longest:
                raise ValueError(f"there is no day {day} in these months: 1 to {longest}")
        return Calendar(at=at, months=months, monthdays=monthdays)
    every, is_day = found["ordinals"] == "every", found["days"] == "day"
    ordinals = _ORDINALS.values() if every else _numbers(found["ordinals"], _ORDINALS, "an ordinal")
    if is_day and not every:  # Google's parser: `1st day` is day 1 of the month
        return Calendar(at=at, months=months, monthdays=frozenset(ordinals))
    weekdays = _WEEKDAYS.values() if is_day else _numbers(found["days"], _WEEKDAYS, "a day")
    return Calendar(
        at=at, months=months, weekdays=frozenset(weekdays), ordinals=frozenset(ordinals)
    )


def _months(words: str | None) -> frozenset[int]:
    if words in (None, "month"):
        return frozenset(_MONTHS.values())
    return _QUARTER if words == "quarter" else frozenset(_numbers(str(words), _MONTHS, "a month"))


def _numbers(words: str, known: dict[str, int], kind: str) -> Iterable[int]:
    for word in words.split(","):
        if word not in known:
            names = list(dict.fromkeys(known))
            raise ValueError(f"`{word}` is not {kind}: use one of {', '.join(names)}")
    return [known[word] for word in words.split(",")]


def _time(text: str) -> time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is not a time of the day: use 00:00 to 23:59")
    return time(int(found[1]), int(found[2]))


def next_time(schedule: Schedule, after: datetime, zone: tzinfo) -> datetime:
    """Return the first time of a schedule after an aware datetime, in UTC.

    `after` is when the run before ended, for an interval without a range, else when it began. Times
    of the day are those of `zone`: one that is left out, as in spring, is the first one after it,
    and of one that there is twice the first counts.
    """
    today = after.astimezone(zone).date()
    if isinstance(schedule, Calendar):
        times = _calendar_times(schedule, today, zone)
    elif schedule.between is None:
        return (after + timedelta(seconds=schedule.seconds)).astimezone(UTC)
    else:
        times = _interval_times(*schedule.between, schedule.seconds, today, zone)
    return next(found for found in times if found > after)


def _interval_times(
    start: time, end: time, seconds: int, today: date, zone: tzinfo
) -> Iterator[datetime]:
    """Yield the times from the range that yesterday began on; in a gap one may be there twice.

    They are the same times of each day, also on a day on which the clocks change.
    """
    first = datetime.combine(today, start) - timedelta(days=1)
    length = (end.hour - start.hour) * 60 + end.minute - start.minute
    steps = (length if end >= start else length + DAY_SECONDS // 60) * 60 // seconds
    while True:
        for step in range(steps + 1):
            at = first + timedelta(seconds=step * seconds)
            yield _in_utc(at.date(), at.time(), zone)
        first += timedelta(days=1)


def _calendar_times(schedule: Calendar, today: date, zone: tzinfo) -> Iterator[datetime]:
    """Yield the times from the month before on."""
    first = today.year * 12 + today.month - 2
    for index in range(first, first + _YEARS * 12):
        year, month = index // 12, index % 12 + 1
        if month in schedule.months:
            for day in _days(schedule, year, month):
                yield _in_utc(date(year, month, day), schedule.at, zone)


def _days(schedule: Calendar, year: int, month: int) -> list[int]:
    first, last = monthrange(year, month)
    days = range(1, last + 1)
    if schedule.monthdays:
        return [day for day in days if day in schedule.monthdays]
    return [
        day
        for day in days
        if (first + day - 1) % 7 in schedule.weekdays and (day + 6) // 7 in schedule.ordinals
    ]


def _in_utc(day: date, at: time, zone: tzinfo) -> datetime:
    """Return when it is a time of a day in a zone, in UTC; the first time after a gap."""
    local = datetime.combine(day, at)
    while True:
        found = local.replace(tzinfo=zone).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None) == local:
            return found
        local += timedelta(minutes=1)
