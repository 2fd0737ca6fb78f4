"""The pause before a retry, both limits, and what an attempt leaves behind."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tables import each_row

from pullqueue.config.model import QueueSettings
from pullqueue.errors import InvalidTaskError
from pullqueue.push.request import PushResponse
from pullqueue.push.retry import (
    backoff_seconds,
    conclude,
    count_refused,
    find_retry,
    interrupted_for_good,
    may_retry,
    start,
)
from pullqueue.tasks import AttemptRecord, HttpRequest, RetryParameters, Task

SETTINGS = QueueSettings(name="web")
SECOND = 1_000_000


def task(
    request: HttpRequest | None = None,
    attempts: AttemptRecord | None = None,
    *,
    retry_count: int = 1,
) -> Task:
    """Return a push task in its first attempt."""
    return Task(
        *(7 * SECOND, 1, retry_count, "t", "web", b"", None, 0, 5),
        request or HttpRequest("/mail"),
        attempts or AttemptRecord(),
    )


@pytest.mark.parametrize(
    ("retry", "pauses"),
    [
        pytest.param(
            RetryParameters(),
            [0.1 * 2**n for n in range(16)] + [3600, 3600],
            id="App Engine's defaults",
        ),
        pytest.param(
            RetryParameters(min_backoff_seconds=10, max_backoff_seconds=200, max_doublings=0),
            [10, 20, 30, 40, 50],
            id="linear from the first on",
        ),
        pytest.param(
            RetryParameters(min_backoff_seconds=10, max_backoff_seconds=300, max_doublings=3),
            [10, 20, 40, 80, 160, 240, 300, 300],
            id="doubled, then linear (Google's example)",
        ),
        pytest.param(
            RetryParameters(min_backoff_seconds=5, max_backoff_seconds=7),
            [5, 7, 7],
            id="the maximum between two doublings",
        ),
        pytest.param(RetryParameters(max_backoff_seconds=0.05), [0.05, 0.05], id="only a maximum"),
        pytest.param(RetryParameters(min_backoff_seconds=7200), [3600], id="more than the default"),
        pytest.param(
            RetryParameters(max_backoff_seconds=900 * 86_400, min_backoff_seconds=30 * 86_400),
            [30 * 86_400, 60 * 86_400],
            id="longer than any lease",
        ),
        pytest.param(RetryParameters(min_backoff_seconds=0), [0, 0, 0], id="no pause"),
    ],
)
def test_pauses_double_then_grow_by_the_last_up_to_the_maximum(
    retry: RetryParameters, pauses: list[float]
) -> None:
    found = [backoff_seconds(n, retry) for n in range(1, len(pauses) + 1)]

    assert found == pytest.approx(pauses)


@given(
    failures=st.integers(1, 10**9),
    shortest=st.floats(0, 1e9),
    longest=st.floats(0, 1e9),
    doublings=st.integers(0, 2**62),
)
def test_pauses_never_exceed_the_maximum(
    failures: int, shortest: float, longest: float, doublings: int
) -> None:
    """No numbers of a queue.yaml overflow; the pause is at most the maximum and never shrinks."""
    retry = RetryParameters(
        min_backoff_seconds=shortest, max_backoff_seconds=longest, max_doublings=doublings
    )

    pause = backoff_seconds(failures, retry)

    assert 0 <= pause <= longest
    assert pause <= backoff_seconds(failures + 1, retry)


@each_row(
    ("retry_limit", "age_limit", "failures", "age", "expected"),
    [
        (None, None, 10**6, 10**9, True),
        (0, None, 1, 0, False),
        (7, None, 7, 10**9, True),
        (7, None, 8, 0, False),
        (None, 60, 10**6, 60, True),
        (None, 60, 1, 60.000001, False),
        (7, 172_800, 8, 172_800, True),
        (7, 172_800, 7, 172_801, True),
        (7, 172_800, 8, 172_801, False),
    ],
)
def test_both_limits_must_be_passed(
    retry_limit: int | None,
    age_limit: int | None,
    failures: int,
    age: float,
    expected: bool,  # noqa: FBT001
) -> None:
    """A retry limit counts retries, not attempts."""
    retry = RetryParameters(task_retry_limit=retry_limit, task_age_limit_seconds=age_limit)

    assert may_retry(failures, age, retry) is expected


@each_row(
    ("limit", "age_limit", "finished", "started", "age", "is_attempted"),
    [
        # Nothing was interrupted, or one attempt: it is attempted again, whatever the limit.
        (0, None, 0, 0, 0, True),
        (0, None, 0, 1, 0, True),
        (2, None, 2, 3, 0, True),
        (2, None, 3, 4, 0, True),
        # More of them: one more attempt than is permitted.
        (0, None, 0, 2, 0, False),
        (1, None, 0, 2, 0, True),
        (2, None, 0, 2, 0, True),
        (2, None, 0, 3, 0, True),
        (2, None, 0, 4, 0, False),
        (2, None, 1, 3, 0, True),
        (2, None, 2, 4, 0, False),
        # By age: until it has passed, then once.
        (None, 60, 0, 9, 60, True),
        (None, 60, 8, 9, 61, True),
        (None, 60, 7, 9, 61, False),
        # Both limits have to be passed.
        (2, 60, 0, 4, 60, True),
        (2, 60, 0, 3, 61, True),
        (2, 60, 0, 4, 61, False),
        (None, None, 0, 1000, 10**9, True),
    ],
)
def test_interrupted_attempts_permit_one_more_than_the_limits(
    *,
    limit: int | None,
    age_limit: int | None,
    finished: int,
    started: int,
    age: int,
    is_attempted: bool,
) -> None:
    retry = RetryParameters(task_retry_limit=limit, task_age_limit_seconds=age_limit)
    record = AttemptRecord(finished=finished, first_usec=0)
    settings = QueueSettings(name="web", retry_parameters=retry)

    found = interrupted_for_good(task(attempts=record, retry_count=started), settings, age * SECOND)

    assert (found is None) is is_attempted
    if found is not None:
        assert (found.finished, found.status, found.ended_usec) == (started, 0, age * SECOND)
        assert found.reason == f"the last {started - finished} attempts were interrupted"


def test_a_tasks_own_parameters_replace_those_of_the_queue() -> None:
    """What a task's own do not set is App Engine's default, not the queue's value."""
    of_queue = RetryParameters(task_retry_limit=3, min_backoff_seconds=10)
    own = RetryParameters(max_doublings=1)
    settings = QueueSettings(name="web", retry_parameters=of_queue)

    assert find_retry(task(), settings) is of_queue
    assert find_retry(task(HttpRequest("/", retry=own)), settings) is own
    assert find_retry(task(), SETTINGS) == RetryParameters()
    defaults = RetryParameters()
    assert find_retry(task(HttpRequest("/", retry=defaults)), settings) == defaults


def test_a_pull_task_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidTaskError, match=r'^task "t" of queue "web" is a pull task$'):
        find_retry(task()._replace(request=None), SETTINGS)


def test_an_attempt_keeps_the_start_of_the_first_one_and_when_it_was_scheduled() -> None:
    first = start(task(), 9)
    second = start(task(attempts=first)._replace(eta_usec=20), 21)

    assert first == AttemptRecord(first_usec=9, schedule_usec=7 * SECOND, dispatched_usec=9)
    assert second == AttemptRecord(first_usec=9, schedule_usec=20, dispatched_usec=21)


@each_row(
    ("status", "pause"),
    [(199, 0.1), (200, None), (299, None), (302, 0.1), (404, 0.1), (503, 0.1), (None, 0.1)],
)
def test_only_2xx_is_a_success(status: int | None, pause: float | None) -> None:
    """Every other status, and no response, is a failure that is retried; redirects too."""
    attempts, found = conclude(task(), PushResponse(status), settings=SETTINGS, now_usec=0)

    assert (attempts.succeeded, found) == (pause is None, pause)


@each_row(
    ("url", "status", "executions", "responses"),
    [
        ("/mail", 503, 1, 1),
        ("/mail", 500, 1, 1),
        ("/mail", 404, 1, 1),
        ("/mail", None, 0, 0),
        ("https://a.example", 503, 0, 1),
        ("https://a.example", 500, 0, 1),
        ("https://a.example", 502, 0, 1),
        ("https://a.example", 599, 0, 1),
        ("https://a.example", 404, 1, 1),
        ("https://a.example", 429, 1, 1),
        ("https://a.example", 302, 1, 1),
        ("https://a.example", None, 0, 0),
    ],
)
def test_what_counts_as_an_execution(
    url: str, status: int | None, executions: int, responses: int
) -> None:
    """Of App Engine every response counts, of HTTP targets none with 5xx."""
    response = PushResponse(status)
    attempts, _ = conclude(task(HttpRequest(url)), response, settings=SETTINGS, now_usec=0)

    assert (attempts.executions, attempts.responses) == (executions, responses)


@each_row(("seconds", "pause"), [(0, 10), (4, 6), (10, 0), (11, 0)])
def test_the_pause_after_an_attempt_by_call_begins_at_the_call(seconds: int, pause: int) -> None:
    retry = RetryParameters(min_backoff_seconds=10)
    begun = task(HttpRequest("/", retry=retry), AttemptRecord(dispatched_usec=5 * SECOND))

    now_usec = (5 + seconds) * SECOND
    _, found = conclude(
        begun, PushResponse(500), settings=SETTINGS, now_usec=now_usec, by_call=True
    )
    _, other = conclude(begun, PushResponse(500), settings=SETTINGS, now_usec=now_usec)
    assert (found, other) == (pause, 10)


@each_row(
    ("retry_after", "pause"),
    [
        ("4", 4),
        ("0", 0.1),
        ("99999", 3600),
        ("Thu, 01 Jan 1970 00:01:10 GMT", 10),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.1),
        *(
            (text, 0.1)
            for text in ("", "soon", "-1", "1.5", "\u0664", "Thu, 99 Jan 1970 00:00:00 GMT")
        ),
    ],
)
def test_an_http_target_can_ask_for_a_longer_pause(retry_after: str, pause: float) -> None:
    """In seconds or as a date, up to max_backoff; App Engine is not asked."""
    response = PushResponse(503, retry_after=retry_after)

    retry = RetryParameters(max_backoff_seconds=5)
    (_, asked), (_, limited), (_, other) = (
        conclude(task(request), response, settings=SETTINGS, now_usec=60 * SECOND)
        for request in (
            HttpRequest("https://a.example"),
            HttpRequest("https://a.example", retry=retry),
            HttpRequest("/mail"),
        )
    )

    assert asked == pytest.approx(pause)
    assert limited == pytest.approx(min(pause, 5))
    assert other == pytest.approx(0.1)


def test_a_failed_attempt_leaves_number_status_reason_and_end() -> None:
    attempts = AttemptRecord(finished=1, responses=1, executions=1, first_usec=0, status=500)

    left, pause = conclude(
        task(attempts=attempts, retry_count=3),
        PushResponse(None, reason="timeout"),
        settings=SETTINGS,
        now_usec=SECOND,
    )

    assert left == attempts._replace(finished=3, ended_usec=SECOND, status=0, reason="timeout")
    assert pause == pytest.approx(0.4)


@pytest.mark.parametrize(("status", "kept"), [(500, "no such template: xmas"), (200, None)])
def test_the_first_line_of_a_failure_is_kept(status: int, kept: str | None) -> None:
    """With the task; of a success nothing is."""
    body = b"\r\n  no such template: xmas \r\nTraceback".ljust(4097)
    response = PushResponse(status, body, fault=3)

    attempts, _ = conclude(task(), response, settings=SETTINGS, now_usec=0)

    assert (attempts.reason, attempts.fault) == (kept, 3)
    assert attempts.response == (b"" if kept is None else body[:4096])


def test_the_end_of_all_retries() -> None:
    """The age counts from the start of the first attempt to the end of this one."""
    limits = RetryParameters(task_retry_limit=1, task_age_limit_seconds=60)
    settings = QueueSettings(name="web", retry_parameters=limits)
    last = task(attempts=AttemptRecord(finished=1, first_usec=5 * SECOND), retry_count=2)

    failed, in_time = conclude(last, PushResponse(500), settings=settings, now_usec=65 * SECOND)
    exhausted, too_late = conclude(
        last, PushResponse(500), settings=settings, now_usec=65 * SECOND + 1
    )

    assert in_time == pytest.approx(0.2)
    assert too_late is None
    assert (failed.status, exhausted.status) == (500, 500)


@given(
    st.builds(
        RetryParameters,
        task_retry_limit=st.none() | st.integers(0, 5),
        task_age_limit_seconds=st.none() | st.integers(1, 90),
        min_backoff_seconds=st.none() | st.sampled_from([0.1, 1, 30]),
        max_backoff_seconds=st.none() | st.sampled_from([30, 200]),
        max_doublings=st.none() | st.integers(0, 3),
    ),
    st.integers(0, 3),
    st.sampled_from([0, 1, 29, 30, 31, 600]),
)
@example(RetryParameters(task_age_limit_seconds=10), 0, 30)
def test_attempts_that_are_counted_are_those_that_would_have_been_made(
    retry: RetryParameters, before: int, seconds: int
) -> None:
    """One after the other, each at its eta."""
    record = AttemptRecord(finished=before, first_usec=SECOND if before else None)
    first = task(HttpRequest("/mail", retry=retry), record, retry_count=before)
    now_usec = first.eta_usec + seconds * SECOND
    each, made, next_usec = first, 0, first.eta_usec
    pause: float | None = 0
    while pause is not None and next_usec <= now_usec:
        at_usec, made = next_usec, made + 1
        due = each._replace(eta_usec=at_usec)
        each = due._replace(retry_count=due.retry_count + 1, attempts=start(due, at_usec))
        response = PushResponse(None, reason="connection refused")
        record, pause = conclude(each, response, settings=SETTINGS, now_usec=at_usec)
        each = each._replace(attempts=record)
        next_usec = at_usec + round((pause or 0) * SECOND)

    counts, *rest = count_refused(
        first, SETTINGS, reason="connection refused", now_usec=now_usec, shortest_seconds=0
    )
    assert counts.total() == made
    assert rest == [record, None if pause is None else (next_usec - now_usec) / SECOND]


@each_row(("shortest", "count"), [(0, 601), (1, 601), (2, 301), (700, 1)])
def test_attempts_that_are_counted_respect_the_rate(shortest: float, count: int) -> None:
    retry = RetryParameters(min_backoff_seconds=1, max_backoff_seconds=1)
    settings = QueueSettings(name="web", retry_parameters=retry)
    due = task(attempts=AttemptRecord(fault=3, response=b"busy"), retry_count=0)
    now_usec = due.eta_usec + 600 * SECOND

    counted, record, pause = count_refused(
        due, settings, reason="refused", now_usec=now_usec, shortest_seconds=shortest
    )
    assert (counted.total(), record.finished) == (count, count)
    assert (record.fault, record.response) == (None, b"")
    assert pause == (100 if shortest == 700 else max(shortest, 1))


def test_attempts_without_a_pause_are_one_microsecond_apart() -> None:
    due = task(HttpRequest("/mail", retry=RetryParameters(min_backoff_seconds=0)), retry_count=0)

    counted, _, pause = count_refused(
        due, SETTINGS, reason="refused", now_usec=due.eta_usec + 2, shortest_seconds=0
    )
    assert (counted, pause) == ({due.eta_usec + 2: 3}, 1e-6)


def test_attempts_are_counted_in_the_minutes_before_now() -> None:
    """One exactly a minute ago is not of the last minute."""
    retry = RetryParameters(min_backoff_seconds=30, max_backoff_seconds=30)
    due = task(HttpRequest("/mail", retry=retry), retry_count=0)
    now_usec = due.eta_usec + 120 * SECOND

    counts, *_ = count_refused(
        due, SETTINGS, reason="refused", now_usec=now_usec, shortest_seconds=0
    )

    assert counts == {now_usec - 120 * SECOND: 1, now_usec - 60 * SECOND: 2, now_usec: 2}
