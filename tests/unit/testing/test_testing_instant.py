"""Each run of `crash_test` and `race_test` begins at the time at which the test has called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from freezegun import freeze_time
from functions import Run

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.clock import Clock
from pullqueue.testing import (
    ProcessClock,
    RaceTestError,
    assert_added,
    describe,
    record_calls,
)

pytestmark = pytest.mark.slow

EVENING = datetime(2026, 1, 1, 23, 50, tzinfo=UTC)


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Iterator[Clock]:
    """A clock that can be moved, ten minutes before midnight."""
    freeze: Callable[..., Any] | None = getattr(request, "param", None)
    if freeze is None:
        yield ManualClock(EVENING)
    else:
        with freeze(EVENING, tick=False):
            yield ProcessClock()


class Diary:
    def __init__(self, queue: Queue, clock: Clock) -> None:
        self.queue = queue
        self.clock = clock
        self.begun: list[datetime] = []
        self.days: dict[str, str] = {}

    def setup(self) -> None:
        self.begun.append(self.clock.now())
        self.days.clear()
        self.queue.add(name="one")

    def work(self) -> None:
        for task in self.queue.lease_tasks(60, 1):
            self.days.setdefault(task.name, f"{self.clock.now():%d}")
            self.queue.fetch_statistics()
            self.queue.delete_tasks(task)

    def check(self) -> None:
        assert self.days == {"one": "01"}


@pytest.fixture
def diary(queue: Queue, clock: Clock) -> Diary:
    return Diary(queue, clock)


@pytest.fixture
def race(race: Run, diary: Diary) -> Run:
    return partial(race, diary.work, setup=diary.setup, check=diary.check, copies=2)


@pytest.mark.parametrize("clock", [None, freeze_time, time_machine.travel], indirect=True)
def test_each_schedule_begins_at_the_same_time(race: Run, diary: Diary) -> None:
    """A lease expires in most of them, so that all together end after midnight."""
    assert race(schedules=30) == 30
    assert {*diary.begun} == {EVENING}


def test_each_crash_begins_at_the_same_time(crash: Run, diary: Diary) -> None:
    def slow() -> None:
        time.sleep(200)  # noqa: TID251 - moves the clock
        diary.work()

    assert crash(slow, setup=diary.setup, check=diary.check) > 6
    assert {*diary.begun} == {EVENING}


def test_a_replay_sees_the_time_that_its_schedule_saw(
    race: Run, clock: ManualClock, diary: Diary
) -> None:
    seen: list[datetime] = []

    def check() -> None:
        seen.append(diary.clock.now())
        assert diary.clock.now() < EVENING + timedelta(minutes=1)

    with pytest.raises(RaceTestError) as first:
        race(check=check)
    late = seen[-1]
    clock.return_to_usec(round(EVENING.timestamp() * 1_000_000))
    with pytest.raises(RaceTestError) as again:
        race(check=check, replay=first.value.replay)
    assert again.value.schedule == first.value.schedule
    assert seen[-1] == late


def test_what_is_recorded_is_of_the_last_run(race: Run, emulator: Emulator, diary: Diary) -> None:
    """A clock that goes back between two runs is not a hint about the test's own."""
    with record_calls(emulator):
        race(schedules=20)

        assert_added(diary.queue, count=1)
        assert "the clock went back" not in describe(emulator)
