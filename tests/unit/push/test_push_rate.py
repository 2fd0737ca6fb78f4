"""The token bucket of a push queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from pullqueue.config.model import QueueSettings, Rate
from pullqueue.engine.events import EventKind, Operation
from pullqueue.push.rate import TokenBucket
from pullqueue.tasks import AttemptResult

SECOND = 1_000_000


def settings(rate: float | None = None, unit: str = "s", **options: Any) -> QueueSettings:
    given_rate = None if rate is None else Rate(count=rate, unit=unit)
    return QueueSettings(name="web", rate=given_rate, **options)


def event(
    usec: int, kind: EventKind = EventKind.ATTEMPT_STARTED, status: int | None = None
) -> Operation:
    """Return the start or the end of an attempt, as a store records it."""
    result = None if status is None else AttemptResult(status)
    return Operation(usec, kind, ("t",), (1,), result=result)


def attempted(bucket: TokenBucket, steps: list[tuple[int, int]]) -> list[Operation]:
    """Start attempts as fast as a bucket permits, each with a status, and return their events."""
    events = []
    now_usec = 0
    for step, status in steps:
        now_usec += step
        if bucket.count(now_usec):
            bucket.take()
            bucket.adapt(status, is_http_target=False)
            kind = EventKind.ATTEMPT_SUCCEEDED if status == 200 else EventKind.ATTEMPT_FAILED
            events.append(event(now_usec))
            events.append(event(now_usec, kind, status))
    return events


def starts(bucket: TokenBucket, now_usec: int) -> int:
    """Take every token that there is, and return how many."""
    count = bucket.count(now_usec)
    for _ in range(count):
        bucket.take()
    return count


@each_row(
    ("queue", "seconds", "expected"),
    [
        (settings(), (0, 0.1, 0.2, 0.3, 0.4, 2), [5, 0, 1, 0, 1, 5]),
        # Google's example: 40 start at once, then 20 a second.
        (settings(20, bucket_size=40), (0, 1, 2, 3), [40, 20, 20, 20]),
        # Ten tenths are one, whatever is lost in a sum of floats.
        (settings(1, bucket_size=1), [tenth / 10 for tenth in range(11)], [1, *[0] * 9, 1]),
        # A bucket that was full for long has no part of a token more.
        (settings(1, "m", bucket_size=1), (90, 149.999999, 150), [1, 0, 1]),
        (settings(1, bucket_size=1), (0, 1.000001, 2, 2.000001), [1, 1, 0, 1]),
        *((settings(100, unit, bucket_size=3), (0, 10**9), [3, 3]) for unit in "smhd"),
    ],
)
def test_a_full_bucket_starts_at_once_and_then_as_many_as_the_rate_permits(
    queue: QueueSettings, seconds: Sequence[float], expected: list[int]
) -> None:
    bucket = TokenBucket(queue, 0)

    assert [starts(bucket, round(each * SECOND)) for each in seconds] == expected


@given(
    rate=st.floats(0.01, 500),
    size=st.integers(1, 500),
    steps=st.lists(st.integers(0, 10 * SECOND), max_size=30),
)
def test_a_token_comes_when_it_was_predicted(rate: float, size: int, steps: list[int]) -> None:
    """And none before."""
    bucket = TokenBucket(settings(rate, bucket_size=size), 0)
    now_usec = 0
    for step in steps:
        now_usec += step
        starts(bucket, now_usec)
        next_usec = bucket.next_usec(now_usec)
        assert next_usec > now_usec
        # One microsecond for rounding up, one for the billionth that a token may lack.
        earlier_usec = next_usec - 2
        assert earlier_usec <= now_usec or bucket.count(earlier_usec) == 0
        assert bucket.count(next_usec) >= 1
        now_usec = next_usec


def test_no_part_of_a_token_is_lost_by_who_asks_as_soon_as_there_is_one() -> None:
    """Though times are rounded up to microseconds."""
    bucket, now_usec = TokenBucket(settings(7, bucket_size=1), 0), 0
    assert starts(bucket, 0) == 1
    last_usec = bucket.next_usec(0, 700)
    for _ in range(700):
        now_usec = bucket.next_usec(now_usec)
        assert starts(bucket, now_usec) == 1

    assert now_usec == last_usec == 100 * SECOND


def test_an_attempt_that_may_start_is_not_one_of_the_past() -> None:
    """Though there is a part of another token."""
    bucket = TokenBucket(settings(1, "m", bucket_size=2), 0)
    bucket.take()

    assert bucket.next_usec(30 * SECOND) == 30 * SECOND


def test_a_new_rate_and_size_apply_to_the_tokens_there() -> None:
    bucket = TokenBucket(settings(1, bucket_size=10), 0)

    bucket.configure(settings(2, bucket_size=3))

    assert (starts(bucket, 0), starts(bucket, SECOND)) == (3, 2)


@each_row(("rate", "rates"), [(8, [4, 2, 1, 1]), (1.5, [1, 1]), (1, [1]), (0.5, [0.5, 0.5])])
def test_status_503_slows_a_queue(rate: float, rates: list[float]) -> None:
    """Each halves the rate, down to 1/s; a queue below that keeps its rate."""
    bucket = TokenBucket(settings(rate), 0)

    for expected in rates:
        bucket.adapt(503, is_http_target=False)
        assert bucket.rate == pytest.approx(expected)


@each_row(
    ("status", "app_engine_rate", "http_rate"),
    [
        (None, 10, 10),
        (0, 10, 10),
        (404, 10, 10),
        (428, 10, 10),
        (429, 10, 5),
        (430, 10, 10),
        (499, 10, 10),
        (500, 10, 5),
        (502, 10, 5),
        (503, 5, 5),
        (504, 10, 5),
        (599, 10, 5),
        (600, 10, 10),
    ],
)
def test_what_slows_a_queue_depends_on_its_targets(
    status: int | None, app_engine_rate: float, http_rate: float
) -> None:
    """Documented of both: 503 of App Engine, 429 or 5xx of external targets."""
    for is_http_target, rate in ((False, app_engine_rate), (True, http_rate)):
        events = [event(0, EventKind.ATTEMPT_FAILED, status)]
        bucket, restored = TokenBucket(settings(10), 0), TokenBucket(settings(10), 0)
        bucket.adapt(status, is_http_target=is_http_target)
        restored.replay(events, is_complete=True, is_http_target=is_http_target)

        assert (bucket.rate, restored.rate) == (rate, rate)


def test_each_success_raises_the_rate_by_a_tenth() -> None:
    """Up to the queue's own; other statuses change nothing."""
    bucket = TokenBucket(settings(10), 0)
    bucket.adapt(503, is_http_target=False)

    rates = []
    for status in (500, None, 302, 200, 201, *[200] * 20):
        bucket.adapt(status, is_http_target=False)
        rates.append(bucket.rate)

    assert rates[:5] == pytest.approx([5, 5, 5, 5.5, 6.05])
    assert rates[-1] == 10


def test_who_is_late_loses_nothing_of_an_empty_bucket() -> None:
    """Up to a limit; and a bucket that was not empty holds no more than its size."""
    bucket = TokenBucket(settings(100, bucket_size=2), 0)
    for _ in range(2):
        bucket.take()

    assert bucket.count(100_000, late_seconds=0.25) == 10
    assert bucket.count(200_000, late_seconds=0.25) == 2
    for _ in range(2):
        bucket.take()
    assert bucket.count(60_200_000, late_seconds=0.25) == 25
    assert bucket.count(60_300_000) == 2


def test_a_token_that_lacks_what_is_lost_in_a_sum_is_not_none() -> None:
    bucket = TokenBucket(settings(1 - 1e-9, bucket_size=1), 0)
    bucket.take()

    assert bucket.count(SECOND) == 1
    assert bucket.count(9 * SECOND, late_seconds=5) == 1


def test_who_is_late_loses_no_part_of_a_token() -> None:
    bucket = TokenBucket(settings(100, bucket_size=1), 0)
    counts = []
    for usec in (0, 5_000, 25_000, 30_000):
        counts.append(bucket.count(usec, late_seconds=0.25))
        for _ in range(counts[-1]):
            bucket.take()

    assert counts == [1, 0, 2, 1]


def test_more_attempts_than_tokens_wait_until_all_are_back_or_were_not_used() -> None:
    """As where two dispatchers take the last one."""
    bucket = TokenBucket(settings(1, bucket_size=1), 0)
    for _ in range(3):
        bucket.take()

    assert (bucket.count(0), bucket.next_usec(0)) == (0, 3 * SECOND)
    for _ in range(3):
        bucket.refund()
    assert bucket.count(0) == 1


STEPS = st.lists(
    st.tuples(st.integers(0, 3 * SECOND), st.sampled_from([200, 200, 200, 500, 503])), max_size=200
)


@given(rate=st.floats(0.01, 500), size=st.integers(1, 20), steps=STEPS)
def test_the_events_of_all_attempts_restore_a_bucket(
    rate: float, size: int, steps: list[tuple[int, int]]
) -> None:
    options = settings(rate, bucket_size=size)
    before, after = TokenBucket(options, 0), TokenBucket(options, 10**12)
    events = attempted(before, steps)

    after.replay(events, is_complete=True, is_http_target=False)

    now_usec = sum(step for step, _ in steps)
    assert after.rate == pytest.approx(before.rate)
    for usec in (now_usec, now_usec + SECOND, now_usec + 100 * SECOND):
        # A sum of floats in another order can lack a billionth.
        assert after.next_usec(usec) == pytest.approx(before.next_usec(usec), abs=2)


@given(rate=st.floats(0.01, 500), size=st.integers(1, 20), steps=STEPS, lost=st.integers(1, 100))
def test_events_without_the_first_restore_no_more_tokens_than_there_were(
    rate: float, size: int, steps: list[tuple[int, int]], lost: int
) -> None:
    """A queue that always waits for its rate does not send a full bucket after a restart."""
    options = settings(rate, bucket_size=size)
    before, after = TokenBucket(options, 0), TokenBucket(options, 0)
    events = attempted(before, [(step, 200) for step, _ in steps])[lost:]

    after.replay(events, is_complete=False, is_http_target=False)

    now_usec = sum(step for step, _ in steps)
    assert not events or after.count(now_usec) <= before.count(now_usec)


@each_row(
    ("starts", "is_complete", "next_second"),
    [(4, True, 0), (5, True, 1), (6, True, 1), (9, True, 1), (0, False, 1), (1, False, 1)],
)
def test_a_replay_leaves_no_fewer_tokens_than_none(
    starts: int, *, is_complete: bool, next_second: int
) -> None:
    """What started beyond them was permitted: after a delay, or by tokens that are not known."""
    bucket = TokenBucket(settings(1, bucket_size=5), 0)
    events = [event(0, EventKind.ATTEMPT_FAILED, 500), *[event(0)] * starts]

    bucket.replay(events, is_complete=is_complete, is_http_target=False)

    assert bucket.next_usec(0) == next_second * SECOND
