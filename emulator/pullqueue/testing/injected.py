"""The errors that faults let calls end with."""

from __future__ import annotations

from pullqueue import errors
from pullqueue.errors import OverQuotaError, PullQueueError, QueueError, TaskError

ErrorSource = PullQueueError | type[PullQueueError]
"""An error, or the class of one."""


def made(source: object, where: str) -> PullQueueError:
    """Give an error, or make one of a class with what the class asks for.

    `where` is the queue's name.

    Raises:
        TypeError: it is none of pullqueue's.
    """
    if isinstance(source, PullQueueError):
        return source
    if not (isinstance(source, type) and issubclass(source, PullQueueError)):
        name = _name_here(source) or "TransientError"
        raise TypeError(
            f"{source!r} is no error of pullqueue: give one of its own, such as pullqueue.{name}"
        )
    error: type[PullQueueError] = source
    message = f"{error.__doc__} (injected by the test)"
    if issubclass(error, OverQuotaError):
        return error(message, limit_bytes=0, needed_bytes=0)
    if issubclass(error, TaskError):
        return error(message, queue_name=where, task_name="")
    if issubclass(error, QueueError):
        return error(message, queue_name=where)
    return error(message)


def _name_here(source: object) -> str | None:
    """Give the name of pullqueue's error that goes by the same name as another's."""
    name = (source if isinstance(source, type) else type(source)).__name__
    here = getattr(errors, name, None)
    return name if isinstance(here, type) and issubclass(here, PullQueueError) else None
