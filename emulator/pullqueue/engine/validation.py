"""Validation of every argument of a queue's methods, before anything is changed.

What has passed here is not checked again: a store takes it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard

from pullqueue import errors
from pullqueue.clock import FIRST_USEC, LAST_USEC, USEC_PER_SECOND, from_usec
from pullqueue.engine.request_validation import METHODS_WITH_BODY, check_request
from pullqueue.limits import DAY_SECONDS, LOCATION_NAME, QUEUE_NAME, Limits
from pullqueue.tasks import LOCATED, HttpRequest, NewTask
from pullqueue.text import is_integer, is_number, quoted

__tracebackhide__ = errors.is_expected_error

_is_queue_name = re.compile(f"{QUEUE_NAME}({LOCATED}{LOCATION_NAME})?").fullmatch
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
        raise errors.InvalidTaskNameError(f"{quoted(task)} is neither a task nor a task name")
    if not isinstance(task.name, str):
        raise errors.InvalidTaskNameError(
            f"{quoted(task)} has no name: add it first, or set its name"
        )
    return task.name


def is_task(value: object) -> TypeGuard[AnyTask]:
    """Return whether a value is a task, also of the SDK's."""
    return hasattr(value, "payload") and hasattr(value, "name")


def check_new_tasks(
    tasks: Sequence[NewTask],
    limits: Limits,
    now_usec: Callable[[], int],
    *,
    absolute_urls: bool = False,
) -> None:
    """Check a batch of new tasks; `now_usec` is called once, and only if an eta is given.

    Tasks with a request are push tasks; with `absolute_urls` it can have such a URL.

    Raises:
        TooManyTasksError: the batch is too large.
        InvalidTaskError: a task, its name, tag, eta, payload or request cannot be stored.
        DuplicateTaskNameError: two tasks of the batch have the same name.
    """
    if len(tasks) > limits.tasks_per_add:
        raise errors.TooManyTasksError(
            f"{len(tasks)} tasks in one batch: the maximum is {limits.tasks_per_add}; split the "
            "batch"
        )
    for task in tasks:
        _check_new_task(task, limits, absolute_urls=absolute_urls)
    names = [task.name for task in tasks if task.name is not None]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.DuplicateTaskNameError(
            f"task name {quoted(twice)} occurs twice in one batch: names are unique in a queue"
        )
    etas_usec = [task.eta_usec for task in tasks if task.eta_usec is not None]
    if etas_usec:
        last_usec, current_usec = max(etas_usec), now_usec()
        if last_usec > current_usec + limits.eta_seconds_ahead * USEC_PER_SECOND:
            raise errors.InvalidEtaError(
                f"eta is {from_usec(last_usec).isoformat()}; the maximum is "
                f"{limits.eta_seconds_ahead} seconds ({limits.eta_seconds_ahead // DAY_SECONDS} "
                f"days) from now, which is {from_usec(current_usec).isoformat()} here"
            )


def with_request(task: NewTask, request: HttpRequest) -> NewTask:
    """Return a new task with a request if it has none; what is not a new task is left alone."""
    given: object = task  # not what its annotation promises
    if isinstance(given, NewTask) and given.request is None:
        return given._replace(request=request)
    return task


def check_queue_name(name: str) -> str:
    """Return the name of a queue that is to be made, with a location or not, if it is valid.

    Raises:
        InvalidQueueNameError: it is not valid.
    """
    if not _is_queue_name(name):
        raise errors.InvalidQueueNameError(
            f"invalid queue name {quoted(name)}: use letters, digits and hyphens (1 to 100 "
            "characters)",
            queue_name=name,
        )
    return name


def check_lease_seconds(lease_seconds: object, limits: Limits, now_usec: int) -> int:
    """Check the duration of a lease that begins now and return it in microseconds, rounded down.

    Raises:
        InvalidLeaseTimeError: it is not a number, negative, longer than permitted, or would end at
            a time that no datetime can represent.
    """
    if not is_number(lease_seconds) or not 0 <= lease_seconds <= limits.lease_seconds:
        raise errors.InvalidLeaseTimeError(
            f"lease_seconds is {quoted(lease_seconds)}: it must be a number of seconds from 0 to "
            f"{limits.lease_seconds}"
        )
    length_usec = int(lease_seconds * USEC_PER_SECOND)
    if now_usec + length_usec > LAST_USEC:
        raise errors.InvalidLeaseTimeError(
            f"lease_seconds is {lease_seconds}: a lease from {from_usec(now_usec).isoformat()} "
            "on would end after the year 9999; use a shorter one, or an earlier clock"
        )
    return length_usec


def check_max_tasks(count: object, limits: Limits) -> int:
    """Check the number of tasks to lease.

    Raises:
        InvalidMaxTasksError: it is not an integer from 1 to the limit.
    """
    if not is_integer(count) or not 1 <= count <= limits.tasks_per_lease:
        raise errors.InvalidMaxTasksError(
            f"max_tasks is {quoted(count)}: it must be an integer from 1 to "
            f"{limits.tasks_per_lease}"
        )
    return count


def check_list_limit(count: object) -> int:
    """Check the number of tasks to list.

    Raises:
        InvalidMaxTasksError: it is not an integer, 0 or more.
    """
    if not is_integer(count) or not 0 <= count <= _LARGEST_COUNT:
        raise errors.InvalidMaxTasksError(
            f"limit is {quoted(count)}: it must be an integer, 0 or more"
        )
    return count


def clamp_position(eta_usec: int, sequence: int) -> tuple[int, int]:
    """Return a position in a list of tasks, moved into what every store can be asked for."""
    last, first = _LARGEST_COUNT, -_LARGEST_COUNT
    return max(first, min(eta_usec, last)), max(first, min(sequence, last))


def check_tag(value: object, limits: Limits) -> None:
    """Check a tag.

    Raises:
        InvalidTagError: it is neither text nor None, too long, or cannot be encoded in UTF-8.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise errors.InvalidTagError(f"tag is {quoted(value)}: it must be text, or None for no tag")
    if len(value) > limits.tag_characters:
        raise errors.InvalidTagError(
            f"tag has {len(value)} characters ({quoted(value, limit=20)}); the maximum is "
            f"{limits.tag_characters}"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidTagError(
            f"tag is {quoted(value)}: it cannot be encoded in UTF-8"
        ) from None


def _check_new_task(task: object, limits: Limits, *, absolute_urls: bool) -> None:
    if not isinstance(task, NewTask):
        raise errors.InvalidTaskError(
            f"{quoted(task)} is not a task to add: pass a pullqueue.NewTask"
        )
    payload: object = task.payload  # not what its annotation promises
    if not isinstance(payload, bytes):
        raise errors.InvalidTaskError(
            f"payload is of type {type(payload).__name__}: it must be bytes or text"
        )
    if task.request is not None:
        check_request(task.request, limits, absolute_urls=absolute_urls)
        _check_body(task.payload, task.request, limits)
    elif len(task.payload) > limits.task_bytes:
        raise _too_large("payload", len(task.payload), limits.task_bytes)
    _check_name(task.name, limits)
    check_tag(task.tag, limits)
    _check_eta(task.eta_usec)


def _check_body(body: bytes, request: HttpRequest, limits: Limits) -> None:
    if body and request.method not in METHODS_WITH_BODY:
        raise errors.InvalidTaskError(
            f"a {request.method} request has no body, and the payload has {len(body)} bytes: use "
            "POST, PUT or PATCH, or no payload"
        )
    size = len(body) + request.size
    if size > limits.push_task_bytes:
        raise _too_large("push task (url, headers, body)", size, limits.push_task_bytes)


def _too_large(what: str, size: int, maximum: int) -> errors.TaskTooLargeError:
    return errors.TaskTooLargeError(
        f"{what} has {size} bytes; the maximum is {maximum}: store the data elsewhere and put a "
        "reference in the task"
    )


def _check_name(name: object, limits: Limits) -> None:
    if name is None:
        return
    if not isinstance(name, str) or not _is_task_name(name):
        raise errors.InvalidTaskNameError(
            f"task name is {quoted(name)}: use letters A-Z a-z, digits, _ and -, or no name to "
            "have one generated"
        )
    if len(name) > limits.task_name_characters:
        raise errors.InvalidTaskNameError(
            f"task name has {len(name)} characters ({quoted(name, limit=20)}); the maximum is "
            f"{limits.task_name_characters}"
        )


def _check_eta(eta_usec: object) -> None:
    if eta_usec is None:
        return
    if type(eta_usec) is not int or not FIRST_USEC <= eta_usec <= LAST_USEC:
        raise errors.InvalidEtaError(
            f"eta is {quoted(eta_usec)}: use microseconds since 1970, in the years 1 to 9999"
        )
