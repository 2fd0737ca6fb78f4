"""pullqueue.clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from freezegun import freeze_time
from hypothesis import example, given
from hypothesis import strategies as st
from tables import each_row

from pullqueue import ClockError, Emulator, ManualClock, SystemClock
from pullqueue.clock import duration_usec, from_usec, movable_clock, parse_time, to_usec

START = datetime(2026, 1, 1, tzinfo=UTC)


FARTHEST = timezone(timedelta(hours=12))
NEAREST = timezone(-timedelta(hours=12))
A_DAY = timedelta(days=1)


@given(
    st.datetimes(
        datetime.min + A_DAY,  # noqa: DTZ901 - the strategy adds the zone
        datetime.max - A_DAY,  # noqa: DTZ901
        timezones=st.timezones(),
    )
)
@example(datetime.min.replace(tzinfo=UTC))
@example(datetime.max.replace(tzinfo=UTC))
def test_a_time_survives_the_round_trip(when: datetime) -> None:
    """An aware datetime in any zone comes back from microseconds as the same instant."""
    assert from_usec(to_usec(when)) == when.astimezone(UTC)


@each_row("when", [datetime(2026, 1, 1), "2026-01-01", 5, None])  # noqa: DTZ001
def test_a_time_must_be_an_aware_datetime(when: object) -> None:
    """Naive datetimes and other things are refused, with an example of what to pass."""
    with pytest.raises(ClockError, match=r"pass an aware one, such as datetime\(2026, 1, 1, tz"):
        to_usec(when)


@pytest.mark.parametrize(
    "when", [datetime.min.replace(tzinfo=FARTHEST), datetime.max.replace(tzinfo=NEAREST)]
)
def test_a_time_outside_the_years_1_to_9999_is_refused(when: datetime) -> None:
    with pytest.raises(ClockError, match=r"is outside the years 1 to 9999 in UTC"):
        to_usec(when)
    with pytest.raises(ClockError, match=r"is outside the years 1 to 9999 in UTC"):
        ManualClock(when)


@each_row(
    ("value", "shown", "problem"),
    [
        (5, "5", "is not a valid time"),
        ("tomorrow", '"tomorrow"', "is not a valid time"),
        ("2026-01-01T00:00:00", '"2026-01-01T00:00:00"', "has no time zone"),
    ],
)
def test_what_is_not_a_time_is_refused_with_an_example(
    value: object, shown: str, problem: str
) -> None:
    with pytest.raises(ClockError) as raised:
        parse_time(value, "eta", ClockError)

    assert str(raised.value) == (
        f"eta is {shown}, which {problem}: use one such as 2026-01-01T00:00:00Z"
    )


class TestManualClock:
    @pytest.mark.parametrize(
        "start", [(), (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),)]
    )
    def test_it_starts_at_2026_or_any_aware_datetime(self, start: tuple[datetime, ...]) -> None:
        clock = ManualClock(*start)

        assert clock.now() == clock.now() == START
        assert repr(clock) == "ManualClock(2026-01-01T00:00:00+00:00)"

    @each_row("step", [90, 90.0, timedelta(seconds=90)])
    def test_it_moves_by_seconds_or_a_timedelta(self, step: float | timedelta) -> None:
        """And returns the new time."""
        clock = ManualClock()

        moved = clock.advance(step)

        assert moved == clock.now() == START + timedelta(seconds=90)

    def test_it_advances_by_a_microsecond(self) -> None:
        """A microsecond is not lost to floating point, however late it is."""
        clock = ManualClock(datetime(2060, 1, 1, tzinfo=UTC))

        for _ in range(1000):
            clock.advance(0.000001)

        assert clock.now() == datetime(2060, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)

    def test_it_moves_to_a_time_and_not_back(self) -> None:
        clock = ManualClock()
        later = START + timedelta(days=1)
        last = datetime.max.replace(tzinfo=UTC)

        clock.move_to(later)
        clock.move_to(later)

        assert clock.now() == later
        with pytest.raises(ClockError, match="the clock is at 2026-01-02T00:00:00"):
            clock.move_to(later - timedelta(microseconds=1))
        assert clock.now() == later
        assert clock.move_to(last) == clock.now() == last

    @each_row(
        ("step", "message"),
        [
            (-1, "^cannot advance by -1: a clock never goes back$"),
            (timedelta(microseconds=-1), "a clock never goes back"),
            ("1", '^"1" is not a valid duration: pass seconds or a timedelta$'),
            *((step, "is not a valid duration") for step in (None, True)),
            *((float(step), "is not a valid duration") for step in ("nan", "inf", "1e300")),
            (timedelta(days=365 * 9000), "^cannot move past the year 9999$"),
        ],
    )
    def test_an_invalid_step_is_refused_and_moves_nothing(self, step: Any, message: str) -> None:
        clock = ManualClock()

        with pytest.raises(ClockError, match=message):
            clock.advance(step)

        assert clock.now() == START


class TestSystemClock:
    def test_it_obeys_freezegun(self) -> None:
        """Made before or after the freeze, it returns the frozen time, to the microsecond."""
        clock = SystemClock()

        with freeze_time("2026-03-01T12:00:00.123457Z"):
            assert clock.now() == datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)

    def test_it_obeys_time_machine(self) -> None:
        when = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)

        with time_machine.travel(when, tick=False):
            assert SystemClock().now() == when

    def test_it_cannot_be_moved(self) -> None:
        with pytest.raises(ClockError) as raised:
            movable_clock(Emulator.from_text("queue: []"))

        assert str(raised.value) == (
            "cannot move the time of Emulator(file='queue.yaml', queues=['default']), whose clock "
            "is a SystemClock: make the emulator with clock=ManualClock(), or use the fixtures of "
            "the pytest plugin"
        )

    def test_it_moves_by_itself(self) -> None:
        """Without a library that stops time, it goes on."""
        clock = SystemClock()
        start = clock.now_usec()

        assert any(clock.now_usec() > start for _ in range(1_000_000))


@each_row(
    ("duration", "usec"),
    [(timedelta(seconds=1.5), 1_500_000), (0.25, 250_000), (4e-7, 0), (6e-7, 1)],
)
def test_a_duration_is_rounded(duration: float | timedelta, usec: int) -> None:
    """To the nearest microsecond."""
    assert duration_usec(duration) == usec
