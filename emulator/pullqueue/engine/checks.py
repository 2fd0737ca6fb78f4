"""What may be asked of a queue: every argument is checked here, before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, from_usec, to_usec
from pullqueue.engine.store import Draft
from pullqueue.errors import (
    ClockError,
    DuplicateTaskNameError,
    InvalidEtaError,
    InvalidLeaseTimeError,
    InvalidMaxTasksError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    TaskTooLargeError,
    TooManyTasksError,
    is_refusal,
)
from pullqueue.limits import Limits
from pullqueue.tasks import NewTask

__tracebackhide__ = is_refusal

_MOST_LISTED = 2**63 - 1
"""The largest number that every store can be asked for."""
_is_task_name = re.compile(r"[A-Za-z0-9_-]+").fullmatch


def drafts_of(tasks: Sequence[NewTask], limits: Limits, now_usec: Callable[[], int]) -> list[Draft]:
    """Check a batch of new tasks; `now_usec` is asked once, and only where an eta is given.

    Raises:
        TooManyTasksError: the batch is too large.
        InvalidTaskError: a task, its name, tag, eta or payload cannot be stored.
        DuplicateTaskNameError: two tasks of the batch have one name.
    """
    if len(tasks) > limits.tasks_per_add:
        raise TooManyTasksError(
            f"{len(tasks)} tasks in one batch: at most {limits.tasks_per_add} can be added at a "
            "time; split the batch"
        )
    drafts, names, etas_usec = _drafts(tasks, limits)
    if names:
        _check_names(names, limits)
    if etas_usec:
        _check_etas(etas_usec, limits, now_usec())
    return drafts


def lease_usec(lease_seconds: object, limits: Limits, now_usec: int) -> int:
    """Check the length of a lease that begins now, and give it in microseconds, cut off below.

    Raises:
        InvalidLeaseTimeError: it is no number, negative, longer than permitted, or would end at a
            moment that no datetime can tell.
    """
    if (
        isinstance(lease_seconds, bool)
        or not isinstance(lease_seconds, int | float)
        or not 0 <= lease_seconds <= limits.lease_seconds
    ):
        raise InvalidLeaseTimeError(
            f"lease_seconds is {lease_seconds!r}: give a number of seconds from 0 to "
            f"{limits.lease_seconds}"
        )
    length_usec = int(lease_seconds * USEC_PER_SECOND)
    if now_usec + length_usec > LAST_USEC:
        raise InvalidLeaseTimeError(
            f"lease_seconds is {lease_seconds!r}: a lease from {from_usec(now_usec).isoformat()} "
            "on would end past the year 9999; give a shorter one, or an earlier clock"
        )
    return length_usec


def max_tasks(count: object, limits: Limits) -> int:
    """Check the number of tasks one lease asks for.

    Raises:
        InvalidMaxTasksError: it is no whole number from 1 to the limit.
    """
    if (
        isinstance(count, bool)
        or not isinstance(count, int)
        or not 1 <= count <= limits.tasks_per_lease
    ):
        raise InvalidMaxTasksError(
            f"max_tasks is {count!r}: give a whole number from 1 to {limits.tasks_per_lease}"
        )
    return count


def listed_tasks(count: object) -> int:
    """Check the number of tasks a list asks for.

    Raises:
        InvalidMaxTasksError: it is no whole number from 0 on.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_LISTED:
        raise InvalidMaxTasksError(f"limit is {count!r}: give a whole number, 0 or more")
    return count


def tag_bytes(tag: object, limits: Limits) -> int:
    """Check a tag and give its length in UTF-8.

    Raises:
        InvalidTagError: it is neither text nor None, too long, or has no UTF-8 form.
    """
    if tag is None:
        return 0
    if not isinstance(tag, str) or len(tag) > limits.tag_characters:
        raise _no_tag(tag, limits)
    return _utf8_bytes(tag)


def _drafts(tasks: Iterable[object], limits: Limits) -> tuple[list[Draft], list[str], list[int]]:
    """Give drafts, and what is left to be checked of all at once: the names and etas given."""
    most, longest_tag = limits.task_bytes, limits.tag_characters
    drafts: list[Draft] = []
    names: list[str] = []
    etas_usec: list[int] = []
    # What is as it should be passes without a call.
    for task in tasks:
        if not isinstance(task, NewTask):
            raise InvalidTaskError(f"{task!r} is no task to add: give a pullqueue.NewTask")
        given: tuple[object, object, object, datetime | None] = task  # not what its types promise
        payload, name, tag, eta = given
        data = payload if isinstance(payload, bytes) else _encoded(payload)
        size = len(data)
        if size > most:
            raise TaskTooLargeError(
                f"payload has {size} bytes: a task holds at most {most}; store the data elsewhere "
                "and put a reference in the task"
            )
        if name is not None:
            if not isinstance(name, str):
                raise _no_name(name, limits)
            names.append(name)
            size += len(name)
        if tag is not None:
            if not isinstance(tag, str) or len(tag) > longest_tag:
                raise _no_tag(tag, limits)
            size += len(tag) if tag.isascii() else _utf8_bytes(tag)
        eta_usec = None
        if eta is not None:
            eta_usec = _eta_usec(eta)
            etas_usec.append(eta_usec)
        drafts.append((name, data, tag, eta_usec, size))
    return drafts, names, etas_usec


def _check_names(names: Sequence[str], limits: Limits) -> None:
    longest = limits.task_name_characters
    # All at once, since one search costs little more than one for each; what is wrong is then
    # looked for one by one.
    if not (_is_task_name("".join(names)) and all(names)) or max(map(len, names)) > longest:
        wrong = (name for name in names if not _is_task_name(name) or len(name) > longest)
        raise _no_name(next(wrong), limits)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateTaskNameError(
            f"task name {twice!r} stands twice in one batch: names are unique in a queue"
        )


def _no_name(name: object, limits: Limits) -> InvalidTaskNameError:
    if isinstance(name, str) and _is_task_name(name):
        return InvalidTaskNameError(
            f"task name has {len(name)} characters ({name[:20]!r}...): at most "
            f"{limits.task_name_characters} are permitted"
        )
    return InvalidTaskNameError(
        f"task name is {name!r}: give letters A-Z a-z, digits, _ and -, or none to have one made up"
    )


def _no_tag(tag: object, limits: Limits) -> InvalidTagError:
    if not isinstance(tag, str):
        return InvalidTagError(f"tag is {tag!r}: give text, or None for no tag")
    return InvalidTagError(
        f"tag has {len(tag)} characters ({tag[:20]!r}...): at most {limits.tag_characters} are "
        "permitted"
    )


def _utf8_bytes(tag: str) -> int:
    try:
        return len(tag.encode())
    except UnicodeEncodeError:
        raise InvalidTagError(f"tag is {tag!r}: it cannot be written as UTF-8") from None


def _encoded(payload: object) -> bytes:
    if not isinstance(payload, str):
        raise InvalidTaskError(f"payload is of type {type(payload).__name__}: give bytes or text")
    try:
        return payload.encode()
    except UnicodeEncodeError:
        raise InvalidTaskError("payload is text that cannot be written as UTF-8") from None


def _eta_usec(eta: datetime) -> int:
    try:
        return to_usec(eta)
    except ClockError as error:
        raise InvalidEtaError(f"eta: {error}") from None


def _check_etas(etas_usec: Sequence[int], limits: Limits, now_usec: int) -> None:
    latest_usec = max(etas_usec)
    if latest_usec > now_usec + limits.eta_seconds_ahead * USEC_PER_SECOND:
        raise InvalidEtaError(
            f"eta is {from_usec(latest_usec).isoformat()}: at most {limits.eta_seconds_ahead} "
            f"seconds ({limits.eta_seconds_ahead // 86_400} days) from now are permitted"
        )
