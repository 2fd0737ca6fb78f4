"""When cron jobs run, whatever fails: the state of one job, over months of simulated time."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from tables import each_row

from pullqueue.clock import USEC_PER_SECOND, from_usec, to_usec
from pullqueue.cron.file import CronJob, parse_cron
from pullqueue.cron.runner import JobState, keyed
from pullqueue.engine.store import CronRun
from pullqueue.push.retry import backoff_seconds

START_USEC = to_usec(datetime(2026, 3, 1, tzinfo=UTC))
SECOND = USEC_PER_SECOND
DAY = 86_400 * SECOND


def job_of(schedule: str, **retry: object) -> CronJob:
    more = "".join(f"\n    {key}: {value}" for key, value in retry.items())
    parameters = f"\n  retry_parameters:{more}" if more else ""
    [job] = parse_cron(f"cron:\n- url: /job\n  schedule: {schedule}{parameters}\n")
    return job


def new_state(job: CronJob, started_usec: int = START_USEC) -> JobState:
    """Return the state of a job that has not run yet."""
    return JobState("key", job, START_USEC, CronRun(started_usec))


def runs_of(job: CronJob, end_usec: int, *, takes_usec: int = SECOND) -> list[int]:
    """Return when a job that always fails runs, of which each run takes that long."""
    state, runs = new_state(job), []
    while (now_usec := state.next_usec) < end_usec:
        runs.append(now_usec)
        state.begin(now_usec)
        state.end(now_usec + takes_usec, failed=True)
    return runs


def documented_runs(job: CronJob, end_usec: int, limit: int | None, age: int | None) -> list[int]:
    """Return the same by the documentation: each run by the schedule, and after each its retries.

    A run that fails is retried until both limits are reached, but for the one that is not set, and
    not at or after the next run. Neither limit is set: it is not retried.
    """
    runs: list[int] = []
    regular_usec = job.next_usec(START_USEC)
    while regular_usec < end_usec:
        first_usec, now_usec = regular_usec, regular_usec
        regular_usec = job.next_usec(first_usec + SECOND)
        attempts = 0
        while now_usec < min(regular_usec, end_usec):
            runs.append(now_usec)
            attempts += 1
            now_usec += SECOND
            young = age is not None and now_usec - first_usec <= age * 60 * SECOND
            if not (young or attempts <= (limit or 0)):
                break
            assert job.retry is not None
            now_usec += round(backoff_seconds(attempts, job.retry) * SECOND)
    return runs


@pytest.mark.slow
@each_row(
    ("schedule", "days"),
    [
        ("every 1 minutes", 0.1),
        ("every 7 hours", 2),
        ("every 10 minutes from 08:00 to 09:00", 2),
        ("every 6 hours synchronized", 2),
        ("every day 09:00", 3),
        ("1,15 of month 00:00", 30),
        ("2nd,fourth tue,thu of mar 17:00", 30),
    ],
)
def test_a_job_that_always_fails_keeps_its_schedule(schedule: str, days: float) -> None:
    """For several runs by it, with each backoff; an interval counts from the end of such a run."""
    end_usec = START_USEC + round(days * DAY)
    for (least, most, doublings), limit, age in product(
        ((None, None, None), (0.1, 120, 2), (30, 120, 0), (90, None, 2), (90, 120, None)),
        (None, 0, 1, 5),
        (None, 1, 30),
    ):
        given = {
            "job_retry_limit": limit,
            "job_age_limit": None if age is None else f"{age}m",
            "min_backoff_seconds": least,
            "max_backoff_seconds": most,
            "max_doublings": doublings,
        }
        job = job_of(schedule, **{key: each for key, each in given.items() if each is not None})

        assert runs_of(job, end_usec) == documented_runs(job, end_usec, limit, age), given


@each_row(
    ("retry", "expected"),
    [
        ({}, [0]),
        ({"min_backoff_seconds": 10}, [0]),
        ({"job_retry_limit": 0}, [0]),
        ({"job_retry_limit": 5}, [0, 5, 15, 35, 75, 155]),
        ({"job_retry_limit": 2, "min_backoff_seconds": 10}, [0, 10, 30]),
        ({"job_retry_limit": 3, "min_backoff_seconds": 10, "max_doublings": 1}, [0, 10, 30, 70]),
        ({"job_retry_limit": 3, "min_backoff_seconds": 10, "max_doublings": 0}, [0, 10, 30, 60]),
        ({"job_retry_limit": 3, "max_backoff_seconds": 7}, [0, 5, 12, 19]),
        ({"job_retry_limit": 3, "max_backoff_seconds": 2}, [0, 2, 4, 6]),
        ({"job_age_limit": "59s", "min_backoff_seconds": 20}, [0, 20, 60]),
        ({"job_age_limit": "60s", "min_backoff_seconds": 20}, [0, 20, 60, 140]),
        ({"job_age_limit": "1s", "job_retry_limit": 2}, [0, 5, 15]),
        (
            {"job_age_limit": "20m", "min_backoff_seconds": 1},
            [0, 1, 3, 7, 15, 31, 63, 127, 223, 351, 511, 703, 927, 1183],
        ),
        ({"job_retry_limit": 3, "min_backoff_seconds": 1199}, [0, 1199]),
        ({"job_retry_limit": 3, "min_backoff_seconds": 1200}, [0]),
    ],
)
def test_a_run_that_fails_is_repeated_by_its_parameters(
    retry: dict[str, object], expected: list[int]
) -> None:
    """In seconds after a run that ends at once, of which the next comes after 20 minutes."""
    job = job_of("every 20 minutes", **retry)
    first_usec = job.next_usec(START_USEC)

    runs = runs_of(job, first_usec + 1200 * SECOND, takes_usec=0)

    assert [(run - first_usec) // SECOND for run in runs] == expected


@each_row(("seconds", "attempts"), [(59, 1), (60, 2), (1199, 2), (1200, 1), (1201, 1)])
def test_a_run_is_a_repetition_from_its_time_to_the_next_run(seconds: int, attempts: int) -> None:
    """Before, as at the request of a person, and after, it is a run of its own."""
    state = new_state(job_of("every 20 minutes", job_retry_limit=5, min_backoff_seconds=60))
    first_usec = state.next_usec
    state.begin(first_usec)
    state.end(first_usec, failed=True)

    state.begin(first_usec + seconds * SECOND)

    assert state.attempts == attempts


@each_row(("backoff", "attempts"), [(1199, 1), (1200, 0)])
def test_a_run_is_not_repeated_when_the_next_one_comes(backoff: int, attempts: int) -> None:
    state = new_state(job_of("every 20 minutes", job_retry_limit=5, min_backoff_seconds=backoff))
    state.begin(state.next_usec)
    state.end(START_USEC + 1200 * SECOND, failed=True)

    assert state.attempts == attempts


def test_a_repetition_that_takes_past_the_next_run_leaves_it_out() -> None:
    state = new_state(job_of("every day 09:00", job_retry_limit=5, min_backoff_seconds=60))
    first_usec = state.next_usec
    state.begin(first_usec)
    state.end(first_usec, failed=True)
    state.begin(state.next_usec)
    state.end(first_usec + DAY, failed=False)

    assert (state.next_usec, state.attempts) == (first_usec + 2 * DAY, 0)


@each_row("schedule", ["every 30 minutes", "every 1 hours synchronized"])
@each_row("by", [60 * SECOND, DAY, 3650 * DAY])
def test_a_clock_that_went_back_delays_no_job(schedule: str, by: int) -> None:
    """The next run, or the repetition that is due before it, is as near as it was."""
    state = new_state(job_of(schedule, job_retry_limit=1, min_backoff_seconds=10))
    now_usec = state.next_usec
    state.begin(now_usec)
    state.end(now_usec, failed=True)
    assert state.retry_usec == now_usec + 10 * SECOND

    state.set_back(now_usec - by, by)

    assert state.next_usec == now_usec - by + 10 * SECOND
    state.begin(state.next_usec)
    state.end(now_usec - by + 20 * SECOND, failed=False)
    assert now_usec - by < state.next_usec <= now_usec - by + 3600 * SECOND


def test_a_clock_that_went_back_before_a_time_of_the_day_repeats_no_later() -> None:
    """A repetition at 12:00 would be at 11:00; the run at 09:00 is before it again."""
    backoff = {"min_backoff_seconds": 3 * 3600, "max_backoff_seconds": 3 * 3600}
    state = new_state(job_of("every day 09:00", job_retry_limit=1, **backoff))
    first_usec = state.next_usec
    state.begin(first_usec)
    state.end(first_usec, failed=True)

    state.set_back(first_usec - 1800 * SECOND, 3600 * SECOND)

    assert state.next_usec == first_usec
    state.begin(first_usec)
    assert (state.attempts, state.next_usec) == (1, first_usec + DAY)


@each_row(("ahead", "expected"), [(-1, -1), (0, 0), (1, 0), (DAY, 0)])
def test_a_last_run_in_the_future_counts_as_now(ahead: int, expected: int) -> None:
    """As after a restart on a machine whose clock went back."""
    state = new_state(job_of("every 1 hours"), START_USEC + ahead)

    assert state.next_usec == START_USEC + expected + 3600 * SECOND


def test_each_job_has_a_key_of_its_own() -> None:
    """Two that are the same do not share the record of their last runs."""
    jobs = parse_cron("cron:\n" + "- {url: /a, schedule: every 1 hours}\n" * 3)

    key = "every 1 hours, UTC: default /a"
    assert list(keyed(jobs)) == [key, f"{key} again", f"{key} again again"]
    assert list(keyed(jobs).values()) == list(jobs)


def test_times_are_those_of_the_day_when_clocks_change() -> None:
    """In Berlin, 2 o'clock is left out on 29 March, and there is twice on 25 October."""
    text = "cron:\n- {url: /a, schedule: every 2 hours synchronized, timezone: Europe/Berlin}\n"
    [job] = parse_cron(text)

    for month, day, left_out in ((3, 29, [2]), (10, 25, [])):
        usec, seen = to_usec(datetime(2026, month, day - 1, 23, 30, tzinfo=job.zone)), []
        while (usec := job.next_usec(usec)) < to_usec(
            datetime(2026, month, day + 1, tzinfo=job.zone)
        ):
            seen.append(from_usec(usec).astimezone(job.zone).hour)
        expected = [hour for hour in range(0, 24, 2) if hour not in left_out]
        assert seen == sorted([*expected, *([3] if left_out else [])])
