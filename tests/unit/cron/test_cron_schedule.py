"""When the jobs of a cron.yaml run, for each form of schedule that Google's reference documents.

The schedules are those of its page "Formatting the schedule" and of the parser in Google's SDK.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from tables import each_row

from pullqueue.cron.schedule import next_time, parse_schedule

# Thursday; 2024 is a leap year.
START = "2026-01-01T00:00"

CASES = [
    # Intervals after the end of the run before.
    ("every 5 minutes", "2026-01-01T10:03", ["10:08", "10:13"]),
    ("every 1 mins", "2026-01-01T10:03", ["10:04", "10:05"]),
    ("every 12 hours", "2026-01-01T10:03", ["22:03", "2026-01-02T10:03"]),
    ("every 24 hours", "2026-01-01T10:03", ["2026-01-02T10:03", "2026-01-03T10:03"]),
    ("every 100 hours", "2026-01-01T00:00", ["2026-01-05T04:00"]),
    # Intervals from a time of the day on.
    ("every 5 minutes from 10:00 to 14:00", "2026-01-01T09:58", ["10:00", "10:05"]),
    ("every 5 minutes from 10:00 to 14:00", "2026-01-01T10:00", ["10:05"]),
    ("every 5 minutes from 10:00 to 14:00", "2026-01-01T13:58", ["14:00", "2026-01-02T10:00"]),
    ("every 45 mins from 10:00 to 11:00", "2026-01-01T10:01", ["10:45", "2026-01-02T10:00"]),
    ("every 1 hours from 22:00 to 2:00", "2026-01-01T23:30",
     ["2026-01-02T00:00", "2026-01-02T01:00", "2026-01-02T02:00", "2026-01-02T22:00"]),
    ("every 1 hours from 08:00 to 8:00", START, ["08:00", "2026-01-02T08:00"]),
    ("every 10 mins from 10:15 to 10:35", "2026-01-01T10:20",
     ["10:25", "10:35", "2026-01-02T10:15"]),
    ("every 1 mins from 10:00 to 12:00", "2026-01-01T11:59", ["12:00", "2026-01-02T10:00"]),
    ("every 30 mins synchronized", "2026-01-01T23:10", ["23:30", "2026-01-02T00:00"]),
    ("every 2 hours synchronized", "2026-01-01T01:17", ["02:00", "04:00"]),
    ("every 8 hours synchronized", "2026-01-01T16:00", ["2026-01-02T00:00", "2026-01-02T08:00"]),
    ("every 5 minutes synchronized", "2026-01-01T23:56", ["2026-01-02T00:00"]),
    ("every 24 hours synchronized", "2026-01-01T01:00", ["2026-01-02T00:00"]),
    # Days of the week.
    ("every day 00:00", START, ["2026-01-02T00:00", "2026-01-03T00:00"]),
    ("every day 9:15", START, ["09:15", "2026-01-02T09:15"]),
    ("every monday 09:00", START, ["2026-01-05T09:00", "2026-01-12T09:00"]),
    ("every thu 09:00", START, ["09:00", "2026-01-08T09:00"]),
    ("every mon,wed , fri 12:30", START, ["2026-01-02T12:30", "2026-01-05T12:30"]),
    ("every day of jan,july 00:00", "2026-01-31T00:00", ["2026-07-01T00:00"]),
    # Ordinals.
    ("1st monday of sep,oct,nov 17:00", START,
     ["2026-09-07T17:00", "2026-10-05T17:00", "2026-11-02T17:00", "2027-09-06T17:00"]),
    ("2nd,third mon,wed,thu of march 17:00", START,
     ["2026-03-09T17:00", "2026-03-11T17:00", "2026-03-12T17:00", "2026-03-16T17:00",
      "2026-03-18T17:00", "2026-03-19T17:00", "2027-03-08T17:00"]),
    ("first tuesday of month 07:00", START, ["2026-01-06T07:00", "2026-02-03T07:00"]),
    ("first tuesday 07:00", START, ["2026-01-06T07:00", "2026-02-03T07:00"]),
    ("fifth saturday of month 07:00", START, ["2026-01-31T07:00", "2026-05-30T07:00"]),
    ("5th sunday of feb 07:00", START, ["2032-02-29T07:00"]),
    # Days of the month.
    ("first day 08:00", "2026-01-06T00:00", ["2026-02-01T08:00", "2026-03-01T08:00"]),
    ("1st,third day of feb,march 08:00", START,
     ["2026-02-01T08:00", "2026-02-03T08:00", "2026-03-01T08:00"]),
    ("1 of jan,april,july,oct 00:00", START, ["2026-04-01T00:00", "2026-07-01T00:00"]),
    ("1 of quarter 00:00", START, ["2026-04-01T00:00", "2026-07-01T00:00"]),
    ("1,15,31 of month 09:00", "2026-01-20T00:00", ["2026-01-31T09:00", "2026-02-01T09:00"]),
    ("29 of february 09:00", START, ["2028-02-29T09:00", "2032-02-29T09:00"]),
    ("EVERY  Monday   09:00", START, ["2026-01-05T09:00"]),
]  # fmt: skip


@each_row(("schedule", "after", "expected"), CASES)
def test_a_schedule_has_these_times(schedule: str, after: str, expected: list[str]) -> None:
    """One after the other; a time alone is one of the day of `after`."""
    found = datetime.fromisoformat(after).replace(tzinfo=UTC)
    day = after[:10]
    for text in expected:
        found = next_time(parse_schedule(schedule), found, UTC)
        assert found.isoformat() == f"{text if 'T' in text else f'{day}T{text}'}:00+00:00"


ZONES = [
    # America/New_York is UTC-5, and UTC-4 from 2026-03-08 02:00 to 2026-11-01 02:00.
    ("every day 09:00", "2026-03-07T20:00", ["2026-03-08T13:00", "2026-03-09T13:00"]),
    ("every day 02:31", "2026-03-07T20:00", ["2026-03-08T07:00", "2026-03-09T06:31"]),
    ("every day 01:30", "2026-10-31T20:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
    ("every 1 hours from 01:00 to 03:00", "2026-03-08T00:00",
     ["2026-03-08T06:00", "2026-03-08T07:00", "2026-03-09T05:00"]),
    ("every 1 hours from 22:00 to 21:00", "2026-06-02T00:30",
     ["2026-06-02T01:00", "2026-06-02T02:00"]),
    ("every 6 hours synchronized", "2026-06-01T00:00", ["2026-06-01T04:00", "2026-06-01T10:00"]),
    ("1 of month 00:00", "2026-06-01T00:00", ["2026-06-01T04:00"]),
    ("every 90 minutes", "2026-03-08T06:00", ["2026-03-08T07:30"]),
]  # fmt: skip


@each_row(("schedule", "after", "expected"), ZONES)
def test_times_of_the_day_are_those_of_the_time_zone(
    schedule: str, after: str, expected: list[str]
) -> None:
    """Also where an hour is left out, and where there is one twice: then the first counts."""
    found = datetime.fromisoformat(after).replace(tzinfo=UTC)
    for text in expected:
        found = next_time(parse_schedule(schedule), found, ZoneInfo("America/New_York"))
        assert found.isoformat() == f"{text}:00+00:00"


def test_the_day_is_that_of_the_time_zone_and_not_of_the_machine() -> None:
    """At 20:30 in Honolulu it is the next day where the tests run."""
    schedule, after = "every 1 hours from 22:00 to 21:00", datetime(2026, 6, 2, 6, 30, tzinfo=UTC)

    found = next_time(parse_schedule(schedule), after, ZoneInfo("Pacific/Honolulu"))

    assert found == datetime(2026, 6, 2, 7, tzinfo=UTC)


_FORMS = (
    "write `every N minutes` or `every N hours` (`synchronized`, or `from 10:00 to 14:00`), "
    "`every monday 09:00`, `1st,third mon of sep,oct 17:00` or `1,15 of month 09:00`"
)


_DAYS = (
    "monday, mon, tuesday, tue, wednesday, wed, thursday, thu, friday, fri, saturday, sat, sunday, "
    "sun"
)
_ORDINALS = "1st, first, 2nd, second, 3rd, third, 4th, fourth, 5th, fifth"
_MONTHS = (
    "january, jan, february, feb, march, mar, april, apr, may, june, jun, july, jul, august, aug, "
    "september, sep, october, oct, november, nov, december, dec"
)
_CRONTAB = (
    "this is the syntax of crontab: App Engine's is English, such as `every 5 minutes` or `every "
    "monday 09:00`"
)
_UNEVEN = "hours do not divide 24 hours evenly, as `synchronized` requires"


@each_row(
    ("schedule", "message"),
    [
        ("*/5 * * * *", _CRONTAB),
        ("every \u0665 minutes", _FORMS),
        ("every minute", "the number is missing: write `every 1 minutes`"),
        ("every hour", "the number is missing: write `every 1 hours`"),
        ("every 1 hour", "`hour` is not a unit: write `hours`"),
        ("every 1 minute", "`minute` is not a unit: write `minutes`"),
        ("every 2 days", "`days` is not a unit: write `every 48 hours`"),
        ("every 1 day", "`day` is not a unit: write `every 24 hours`"),
        ("every 5 seconds", "`seconds` is not a unit: write `minutes` or `hours`"),
        ("every 0 minutes", "the interval is 0 minutes: it must be 1 or more"),
        ("every 7 hours synchronized", f"7 {_UNEVEN}"),
        ("every 48 hours synchronized", f"48 {_UNEVEN}"),
        ("every 5 minutes from 10:00", _FORMS),
        (
            "every 5 minutes from 25:00 to 26:00",
            "`25:00` is not a time of the day: use 00:00 to 23:59",
        ),
        ("every 5 minutes from 10:00 to 14:00 synchronized", _FORMS),
        (
            "every monday",
            "the time of the day is missing: write it at the end, as in `every monday 09:00`",
        ),
        ("every monday 24:00", "`24:00` is not a time of the day: use 00:00 to 23:59"),
        ("every moonday 09:00", f"`moonday` is not a day: use one of {_DAYS}"),
        ("6th monday of month 09:00", f"`6th` is not an ordinal: use one of {_ORDINALS}"),
        ("1st monday of febuary 09:00", f"`febuary` is not a month: use one of {_MONTHS}"),
        ("31 of february 09:00", "there is no day 31 in these months: 1 to 29"),
        ("0 of month 09:00", "there is no day 0 in these months: 1 to 31"),
        ("1 09:00", "the months are missing after the days: write `of month`"),
        ("", _FORMS),
    ],
)
def test_what_is_not_a_schedule_is_refused(schedule: str, message: str) -> None:
    """With what to write instead."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_schedule(schedule)
