"""Validation of every argument of a queue's methods, before anything is changed.

What has passed here is not checked again: stores get bytes, integers and microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard

from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, from_usec, to_usec
from pullqueue.config.text import quoted
from pullqueue.engine.store import ValidatedTask
from pullqueue.errors import (
    ClockError,
    DuplicateTaskNameError,
    InvalidEtaError,
    InvalidLeaseTimeError,
    InvalidMaxTasksError,
    InvalidQueueNameError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    TaskTooLargeError,
    TooManyTasksError,
    is_expected_error,
)
from pullqueue.limits import Limits
from pullqueue.tasks import NewTask, Task

__tracebackhide__ = is_expected_error

_QUEUE_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
_LARGEST_COUNT = 2**63 - 1
"""The largest number that every store can be asked for."""
_is_task_name = re.compile(r"[A-Za-z0-9_-]+").fullmatch


class AnyTask(Protocol):
    """A task of this package or of App Engine's SDK."""

    @property
    def name(self) -> str | None:
        """Its name; None before it is added without one."""

    @property
    def payload(self) -> bytes | str | None:
        """Its payload."""


def name_of(task: AnyTask | str) -> str:
    """Return the name of a task, also of the SDK's, or the name that is given.

    Raises:
        InvalidTaskNameError: it is neither, or a task without a name.
    """
    if isinstance(task, str):
        return task
    if not is_task(task):
        raise InvalidTaskNameError(f"{quoted(task)} is neither a task nor a task name")
    if not isinstance(task.name, str):
        raise InvalidTaskNameError(f"{quoted(task)} has no name: add it first, or set its name")
    return task.name


def is_task(value: object) -> TypeGuard[AnyTask]:
    """Return whether a value is a task, also of the SDK's."""
    return isinstance(value, Task) or (hasattr(value, "payload") and hasattr(value, "name"))


def validated_tasks(
    tasks: Sequence[NewTask], limits: Limits, now_usec: Callable[[], int]
) -> list[ValidatedTask]:
    """Check a batch of new tasks; `now_usec` is called once, and only if an eta is given.

    Raises:
        TooManyTasksError: the batch is too large.
        InvalidTaskError: a task, its name, tag, eta or payload cannot be stored.
        DuplicateTaskNameError: two tasks of the batch have the same name.
    """
    if len(tasks) > limits.tasks_per_add:
        raise TooManyTasksError(
            f"{len(tasks)} tasks in one batch: the maximum is {limits.tasks_per_add}; split the "
            "batch"
        )
    validated = [_validated(task, limits) for task in tasks]
    names = [task.name for task in validated if task.name is not None]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateTaskNameError(
            f"task name {quoted(twice)} occurs twice in one batch: names are unique in a queue"
        )
    etas_usec = [task.eta_usec for task in validated if task.eta_usec is not None]
    if etas_usec:
        _check_eta(max(etas_usec), limits, now_usec())
    return validated


def queue_name(name: str) -> str:
    """Return the name of a queue that is to be made, if it is valid.

    Raises:
        InvalidQueueNameError: it is not.
    """
    if not _QUEUE_NAME.fullmatch(name):
        raise InvalidQueueNameError(
            f"invalid queue name {quoted(name)}: use letters, digits and hyphens (1 to 100 "
            "characters)",
            queue_name=name,
        )
    return name


def lease_usec(lease_seconds: object, limits: Limits, now_usec: int) -> int:
    """Check the duration of a lease that begins now and return it in microseconds, rounded down.

    Raises:
        InvalidLeaseTimeError: it is not a number, negative, longer than permitted, or would end at
            a time that no datetime can represent.
    """
    if (
        isinstance(lease_seconds, bool)
        or not isinstance(lease_seconds, int | float)
        or not 0 <= lease_seconds <= limits.lease_seconds
    ):
        raise InvalidLeaseTimeError(
            f"lease_seconds is {quoted(lease_seconds)}: it must be a number of seconds from 0 to "
            f"{limits.lease_seconds}"
        )
    length_usec = int(lease_seconds * USEC_PER_SECOND)
    if now_usec + length_usec > LAST_USEC:
        raise InvalidLeaseTimeError(
            f"lease_seconds is {lease_seconds}: a lease from {from_usec(now_usec).isoformat()} "
            "on would end after the year 9999; use a shorter one, or an earlier clock"
        )
    return length_usec


def max_tasks(count: object, limits: Limits) -> int:
    """Check the number of tasks to lease.

    Raises:
        InvalidMaxTasksError: it is not an integer from 1 to the limit.
    """
    if (
        isinstance(count, bool)
        or not isinstance(count, int)
        or not 1 <= count <= limits.tasks_per_lease
    ):
        raise InvalidMaxTasksError(
            f"max_tasks is {quoted(count)}: it must be an integer from 1 to "
            f"{limits.tasks_per_lease}"
        )
    return count


def list_limit(count: object) -> int:
    """Check the number of tasks to list.

    Raises:
        InvalidMaxTasksError: it is not an integer from 0 on.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _LARGEST_COUNT:
        raise InvalidMaxTasksError(f"limit is {quoted(count)}: it must be an integer, 0 or more")
    return count


def tag_bytes(tag: object, limits: Limits) -> int:
    """Check a tag and return its length in UTF-8.

    Raises:
        InvalidTagError: it is neither text nor None, too long, or cannot be encoded in UTF-8.
    """
    if tag is None:
        return 0
    if not isinstance(tag, str):
        raise InvalidTagError(f"tag is {quoted(tag)}: it must be text, or None for no tag")
    if len(tag) > limits.tag_characters:
        raise InvalidTagError(
            f"tag has {len(tag)} characters ({quoted(tag, limit=20)}); the maximum is "
            f"{limits.tag_characters}"
        )
    try:
        return len(tag.encode())
    except UnicodeEncodeError:
        raise InvalidTagError(f"tag is {quoted(tag)}: it cannot be encoded in UTF-8") from None


def _validated(task: object, limits: Limits) -> ValidatedTask:
    if not isinstance(task, NewTask):
        raise InvalidTaskError(f"{quoted(task)} is not a task to add: pass a pullqueue.NewTask")
    given: tuple[object, ...] = task  # not what its annotations promise
    payload, name, tag, eta, request = given
    if request is not None:
        raise InvalidTaskError("a pull task has no request: remove it, or use a push queue")
    data = _payload(payload, limits)
    name = _name(name, limits)
    size = len(data) + tag_bytes(tag, limits) + len(name or "")
    eta_usec = None if eta is None else _eta_usec(eta)
    return ValidatedTask(name, data, task.tag, eta_usec, size)


def _payload(payload: object, limits: Limits) -> bytes:
    if isinstance(payload, str):
        try:
            payload = payload.encode()
        except UnicodeEncodeError:
            raise InvalidTaskError("payload is text that cannot be encoded in UTF-8") from None
    if not isinstance(payload, bytes):
        raise InvalidTaskError(
            f"payload is of type {type(payload).__name__}: it must be bytes or text"
        )
    if len(payload) > limits.task_bytes:
        raise TaskTooLargeError(
            f"payload has {len(payload)} bytes; the maximum is {limits.task_bytes}: store the data "
            "elsewhere and put a reference in the task"
        )
    return payload


def _name(name: object, limits: Limits) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not _is_task_name(name):
        raise InvalidTaskNameError(
            f"task name is {quoted(name)}: use letters A-Z a-z, digits, _ and -, or no name to "
            "have one generated"
        )
    if len(name) > limits.task_name_characters:
        raise InvalidTaskNameError(
            f"task name has {len(name)} characters ({quoted(name, limit=20)}); the maximum is "
            f"{limits.task_name_characters}"
        )
    return name


def _eta_usec(eta: object) -> int:
    try:
        return to_usec(eta)
    except ClockError as error:
        raise InvalidEtaError(f"eta: {error}") from None


def _check_eta(eta_usec: int, limits: Limits, now_usec: int) -> None:
    if eta_usec > now_usec + limits.eta_seconds_ahead * USEC_PER_SECOND:
        raise InvalidEtaError(
            f"eta is {from_usec(eta_usec).isoformat()}; the maximum is {limits.eta_seconds_ahead} "
            f"seconds ({limits.eta_seconds_ahead // 86_400} days) from now, which is "
            f"{from_usec(now_usec).isoformat()} here"
        )
