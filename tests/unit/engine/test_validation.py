"""pullqueue.engine.validation: which arguments are accepted, and the messages for the others."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tables import each_row

from pullqueue import (
    DuplicateTaskNameError,
    HttpRequest,
    InvalidEtaError,
    InvalidLeaseTimeError,
    InvalidMaxTasksError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    Limits,
    NewTask,
    PullQueueError,
    TaskTooLargeError,
    TooManyTasksError,
)
from pullqueue.clock import FIRST_USEC, LAST_USEC, to_usec
from pullqueue.engine import validation
from pullqueue.text import quoted

LIMITS = Limits()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SURROGATE = "\ud800"
PAST_ALL_YEARS = datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))


def checked(**fields: Any) -> NewTask:
    new = NewTask(**fields)
    validation.check_new_tasks([new], LIMITS, lambda: to_usec(NOW))
    return new


@each_row(
    ("fields", "error", "message"),
    [
        ({"payload": 5}, InvalidTaskError, "payload is of type int: it must be bytes or text"),
        ({"payload": bytearray(b"x")}, InvalidTaskError, "payload is of type bytearray"),
        ({"payload": SURROGATE}, InvalidTaskError, "text that cannot be encoded in UTF-8"),
        (
            {"payload": b"x" * (2**20 + 1)},
            TaskTooLargeError,
            "^payload has 1048577 bytes; the maximum is 1048576",
        ),
        (
            {"name": ""},
            InvalidTaskNameError,
            '^task name is "": use letters .*, or no name to have one generated$',
        ),
        ({"name": "a b"}, InvalidTaskNameError, 'task name is "a b": use letters'),
        ({"name": "one\n"}, InvalidTaskNameError, r'task name is "one\\n"'),
        ({"name": b"one"}, InvalidTaskNameError, "task name is b'one'"),
        (
            {"name": "x" * 501},
            InvalidTaskNameError,
            r'^task name has 501 characters \("x{17}\.\.\."\); the maximum is 500$',
        ),
        (
            {"tag": "x" * 501},
            InvalidTagError,
            r'^tag has 501 characters \("x{17}\.\.\."\); the maximum is 500',
        ),
        ({"tag": b"red"}, InvalidTagError, "tag is b'red': it must be text, or None"),
        ({"tag": SURROGATE}, InvalidTagError, r'^tag is "\\ud800": it cannot be encoded in UTF-8$'),
        ({"request": HttpRequest("http://a/")}, InvalidTaskError, "^url is .* begin with one /"),
        ({"eta": NOW.replace(tzinfo=None)}, InvalidEtaError, "eta: .* has no time zone"),
        ({"eta": 5}, InvalidEtaError, "eta: 5 is not a datetime"),
        ({"eta": PAST_ALL_YEARS}, InvalidEtaError, "eta: .* outside the years 1 to 9999"),
        ({"eta_usec": LAST_USEC + 1}, InvalidEtaError, f"^eta is {LAST_USEC + 1}: use microsec"),
        ({"eta_usec": FIRST_USEC - 1}, InvalidEtaError, "in the years 1 to 9999"),
        ({"eta_usec": "5"}, InvalidEtaError, 'eta is "5": use microseconds since 1970'),
        (
            {"eta": NOW + timedelta(days=30, microseconds=1)},
            InvalidEtaError,
            (
                r"maximum is 2592000 seconds \(30 days\) from now, which is "
                rf"{re.escape(NOW.isoformat())} here$"
            ),
        ),
    ],
)
def test_a_task_that_cannot_be_added_is_refused_with_value_and_rule(
    fields: dict[str, Any], error: type[PullQueueError], message: str
) -> None:
    with pytest.raises(error, match=message):
        checked(**fields)


def test_an_eta_may_be_the_first_and_the_last_time_of_a_datetime() -> None:
    etas = [NewTask(eta_usec=usec) for usec in (FIRST_USEC, LAST_USEC)]

    validation.check_new_tasks(etas, LIMITS, lambda: LAST_USEC)


@each_row("name", ["", "a b", "x" * 501])
def test_a_name_that_is_not_valid_is_found_among_valid_ones(name: str) -> None:
    names = ["good", "y" * 500, name, "better"]
    tasks = [NewTask(name=each) for each in names]

    with pytest.raises(InvalidTaskNameError, match=f"task name .*{name[:17]}"):
        validation.check_new_tasks(tasks, LIMITS, lambda: 0)


def test_only_new_tasks_can_be_added() -> None:
    with pytest.raises(
        InvalidTaskError, match=r'"work" is not a task to add: pass a pullqueue\.New'
    ):
        validation.check_new_tasks(["work"], LIMITS, lambda: 0)  # type: ignore[list-item]


def test_a_batch_that_is_too_large_is_refused() -> None:
    validation.check_new_tasks([NewTask()] * 100, LIMITS, lambda: 0)
    with pytest.raises(TooManyTasksError, match=r"101 tasks in one .* split the batch$"):
        validation.check_new_tasks([NewTask()] * 101, LIMITS, lambda: 0)


def test_a_name_that_is_twice_in_a_batch_is_reported() -> None:
    tasks = [NewTask(name="a"), NewTask(), NewTask(name="b"), NewTask(name="b")]

    with pytest.raises(DuplicateTaskNameError, match='"b" occurs twice in one batch'):
        validation.check_new_tasks(tasks, LIMITS, lambda: 0)


@each_row(("etas", "asked"), [(0, 0), (1, 1), (3, 1)])
def test_the_time_is_asked_for_once_and_only_for_an_eta(etas: int, asked: int) -> None:
    asks: list[int] = []

    def now_usec() -> int:
        asks.append(1)
        return to_usec(NOW)

    last = NewTask(eta=NOW + timedelta(days=30))
    validation.check_new_tasks([NewTask(), *[last] * etas], LIMITS, now_usec)

    assert len(asks) == asked


@each_row(("seconds", "usec"), [(0, 0), (604_800, 604_800_000_000), (1.5, 1_500_000)])
def test_a_lease_of_0_seconds_to_a_week_is_converted_to_microseconds(
    seconds: float, usec: int
) -> None:
    assert validation.check_lease_seconds(seconds, LIMITS, to_usec(NOW)) == usec


@each_row("seconds", [-1, 604_800.000001, float("nan"), float("inf"), "5", None, True])
def test_a_lease_of_another_length_is_refused_with_the_range(seconds: object) -> None:
    text = f"lease_seconds is {quoted(seconds)}: it must be a number of seconds from 0 to 604800"
    with pytest.raises(InvalidLeaseTimeError, match=re.escape(text)):
        validation.check_lease_seconds(seconds, LIMITS, to_usec(NOW))


def test_a_lease_may_end_at_the_last_time_of_a_datetime() -> None:
    last = to_usec(datetime.max.replace(tzinfo=UTC))

    assert validation.check_lease_seconds(1, LIMITS, last - 1_000_000) == 1_000_000
    with pytest.raises(
        InvalidLeaseTimeError, match=r"lease_seconds is 1: .* on would end .* clock$"
    ):
        validation.check_lease_seconds(1, LIMITS, last - 999_999)


@each_row("count", [0, -1, 1001, 1.0, "1", None, True])
def test_a_number_of_tasks_outside_1_to_1000_is_refused(count: object) -> None:
    text = f"max_tasks is {quoted(count)}: it must be an integer from 1 to 1000"
    with pytest.raises(InvalidMaxTasksError, match=f"^{re.escape(text)}$"):
        validation.check_max_tasks(count, LIMITS)


@each_row("count", [-1, 2**63, 1.0, "1", None, True])
def test_a_number_of_tasks_to_list_is_one_that_there_can_be(count: object) -> None:
    text = f"limit is {quoted(count)}: it must be an integer, 0 or more"
    with pytest.raises(InvalidMaxTasksError, match=f"^{re.escape(text)}$"):
        validation.check_list_limit(count)
    assert [validation.check_list_limit(count) for count in (0, 2**63 - 1)] == [0, 2**63 - 1]
