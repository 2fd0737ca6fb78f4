"""What may be asked of a queue: every argument is checked here, before anything is changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from pullqueue.clock import USEC_PER_SECOND, to_usec
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

_is_task_name = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_make_draft = partial(tuple.__new__, Draft)  # see `pullqueue.tasks.make_task`


def drafts_of(tasks: Sequence[NewTask], limits: Limits, now_usec: int) -> list[Draft]:
    """Check a batch of new tasks.

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
    drafts = [_draft(task, limits, now_usec) for task in tasks]
    names = [name for draft in drafts if (name := draft.name) is not None]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateTaskNameError(
            f"task name {twice!r} stands twice in one batch: names are unique in a queue"
        )
    return drafts


def lease_usec(lease_seconds: object, limits: Limits) -> int:
    """Check the length of a lease and give it in microseconds, cut off below.

    Raises:
        InvalidLeaseTimeError: it is no number, negative, or longer than permitted.
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
    return int(lease_seconds * USEC_PER_SECOND)


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


def tag_bytes(tag: object, limits: Limits) -> int:
    """Check a tag and give its length in UTF-8.

    Raises:
        InvalidTagError: it is neither text nor None, too long, or has no UTF-8 form.
    """
    if tag is None:
        return 0
    if not isinstance(tag, str):
        raise InvalidTagError(f"tag is {tag!r}: give text, or None for no tag")
    if len(tag) > limits.tag_characters:
        raise InvalidTagError(
            f"tag has {len(tag)} characters ({tag[:20]!r}...): at most {limits.tag_characters} "
            "are permitted"
        )
    try:
        return len(tag.encode())
    except UnicodeEncodeError:
        raise InvalidTagError(f"tag is {tag!r}: it cannot be written as UTF-8") from None


def _draft(task: object, limits: Limits, now_usec: int) -> Draft:
    # This runs for each task that is added: what is as it should be passes without a call.
    if not isinstance(task, NewTask):
        raise InvalidTaskError(f"{task!r} is no task to add: give a pullqueue.NewTask")
    given: tuple[object, object, object, datetime | None] = task  # what its types do not promise
    payload, name, tag, eta = given
    if not isinstance(payload, bytes):
        payload = _encoded(payload)
    size = len(payload)
    if size > limits.task_bytes:
        raise TaskTooLargeError(
            f"payload has {size} bytes: a task holds at most {limits.task_bytes}; store the "
            "data elsewhere and put a reference in the task"
        )
    if name is not None:
        if not isinstance(name, str) or not _is_task_name(name):
            raise InvalidTaskNameError(
                f"task name is {name!r}: give letters A-Z a-z, digits, _ and -, or None to have "
                "one made up"
            )
        if len(name) > limits.task_name_characters:
            raise InvalidTaskNameError(
                f"task name has {len(name)} characters ({name[:20]!r}...): at most "
                f"{limits.task_name_characters} are permitted"
            )
        size += len(name)
    if tag is not None:
        size += tag_bytes(tag, limits)
    eta_usec = None if eta is None else _eta_usec(eta, limits, now_usec)
    return _make_draft((name, payload, tag, eta_usec, size))


def _encoded(payload: object) -> bytes:
    if not isinstance(payload, str):
        raise InvalidTaskError(f"payload is of type {type(payload).__name__}: give bytes or text")
    try:
        return payload.encode()
    except UnicodeEncodeError:
        raise InvalidTaskError("payload is text that cannot be written as UTF-8") from None


def _eta_usec(eta: datetime, limits: Limits, now_usec: int) -> int:
    try:
        eta_usec = to_usec(eta)
    except ClockError as error:
        raise InvalidEtaError(f"eta: {error}") from None
    if eta_usec > now_usec + limits.eta_seconds_ahead * USEC_PER_SECOND:
        raise InvalidEtaError(
            f"eta is {eta.isoformat()}: at most {limits.eta_seconds_ahead} seconds "
            f"({limits.eta_seconds_ahead // 86_400} days) from now are permitted"
        )
    return eta_usec
