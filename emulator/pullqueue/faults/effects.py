"""What faults do to a call: the error that it raises, the time that it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from pullqueue import errors
from pullqueue.clock import USEC_PER_SECOND, MovableClock
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.store import Lease
from pullqueue.error_codes import ERROR_CODES
from pullqueue.errors import (
    ClockError,
    DeadlineExceededError,
    OverQuotaError,
    PullQueueError,
    QueueError,
    TaskError,
)
from pullqueue.faults.fault import CallNext
from pullqueue.text import did_you_mean, quoted

__tracebackhide__ = True  # a failed test is shown at its own line

ErrorSource = Exception | type[Exception] | str
"""An error of pullqueue, of App Engine's SDK or of Google's clients, the class of one, or a status
of gRPC."""
ERRORS: Final[Mapping[str, type[PullQueueError]]] = {
    kind.__name__: kind
    for kind in (
        errors.TransientError,
        errors.InternalError,
        errors.DeadlineExceededError,
        errors.RateLimitExceededError,
        errors.OverQuotaError,
        errors.TaskLeaseExpiredError,
        errors.QueueDisabledError,
    )
} | {
    "UNAVAILABLE": errors.TransientError,
    "INTERNAL": errors.InternalError,
    "DEADLINE_EXCEEDED": errors.DeadlineExceededError,
    "RESOURCE_EXHAUSTED": errors.RateLimitExceededError,
}
"""The errors that have a name outside of Python: that of the class, or the status of gRPC."""

_SDK = "google.appengine."
_CLIENTS = "google.api_core."


def make_error(source: object, queue_name: str = "") -> Exception:
    """Return an error, or make one of a class with the attributes that the class needs.

    An error of the SDK becomes pullqueue's of the same name, which every interface can translate;
    one that has none stays as it is. One of Google's clients becomes that of its status, with the
    same message.

    Raises:
        ValueError: there is no error of this status.
        TypeError: it is an error of others.
    """
    if isinstance(source, str):
        if source not in ERRORS:
            raise ValueError(f"there is no error {quoted(source)}: {did_you_mean(source, ERRORS)}")
        source = ERRORS[source]
    if isinstance(source, PullQueueError):
        return source
    if isinstance(source, type) and issubclass(source, PullQueueError):
        return _instance(source, f"{source.__doc__} (injected by a fault)", queue_name)
    kind = source if isinstance(source, type) else type(source)
    if kind.__module__.startswith(_CLIENTS) and (status := getattr(kind, "grpc_status_code", None)):
        message = str(getattr(source, "message", ""))  # a class has none
        if not message or status.name not in ERRORS:
            return make_error(status.name)
        return ERRORS[status.name](message)
    same_name = next((known for known in ERROR_CODES if known.__name__ == kind.__name__), None)
    if not (issubclass(kind, Exception) and kind.__module__.startswith(_SDK)):
        example = "TransientError" if same_name is None else kind.__name__
        raise TypeError(
            f"{kind.__name__} is not an error of pullqueue or of App Engine's SDK: use one of "
            f"them, such as pullqueue.{example}"
        )
    if same_name is None:
        return source if isinstance(source, Exception) else kind()
    message = "" if isinstance(source, type) else str(source)
    return _instance(same_name, message or f"{same_name.__doc__} (injected by a fault)", queue_name)


def _instance(kind: type[PullQueueError], message: str, queue_name: str) -> PullQueueError:
    if issubclass(kind, OverQuotaError):
        return kind(message, limit_bytes=0, needed_bytes=0)
    if issubclass(kind, TaskError):
        return kind(message, queue_name=queue_name, task_name="")
    if issubclass(kind, QueueError):
        return kind(message, queue_name=queue_name)
    return kind(message)


def check_service_fault(call: str, error: object) -> None:
    """Check that a call to a bundled service can fail with an error; None is the default.

    Raises:
        ValueError: the SDK is not used, or there is no such call.
        TypeError: it is not an error of the SDK.
    """
    rpcs: Any = sys.modules.get("pullqueue.sdk.rpcs")
    if rpcs is None:
        raise ValueError(
            f"{quoted(call)} is a call to a service of App Engine's SDK, which this test does not "
            "use: add the fixture pullqueue_sdk"
        )
    rpcs.check_service_call(call, error)


def advance(clock: MovableClock, usec: int, deadline_usec: int | None) -> None:
    """Advance a clock by the latency of a call, or by its deadline if that is less.

    Raises:
        DeadlineExceededError: the deadline is less.
    """
    if deadline_usec is None or usec <= deadline_usec:
        clock.advance(timedelta(microseconds=usec))
        return
    clock.advance(timedelta(microseconds=deadline_usec))
    raise DeadlineExceededError(
        f"a fault makes the call take {usec / USEC_PER_SECOND:g} seconds, and its deadline is "
        f"{deadline_usec / USEC_PER_SECOND:g} seconds"
    )


class Lapse:
    """Makes a lease expire before the next call of the worker that has it."""

    def __init__(self, clock: MovableClock, other_worker: Callable[[], object] | None) -> None:
        self._clock = clock
        self._other_worker = other_worker
        self._other_works = False
        self._end_usec: int | None = None

    def note_lease(self, _: QueueCall, call_next: CallNext) -> object:
        """Carry out a lease, and keep its end."""
        lease = call_next()
        if isinstance(lease, Lease) and lease.tasks and not self._other_works:
            self._end_usec = max(task.eta_usec for task in lease.tasks)
        return lease

    def before_call(self) -> None:
        """Move the clock to the end of the last lease, and call the other worker."""
        end_usec, self._end_usec = self._end_usec, None
        if end_usec is None:
            return
        with suppress(ClockError):  # the test, or another thread, has moved it past
            self._clock.move_to_usec(end_usec)
        if self._other_worker is not None:
            self._other_works = True
            try:
                self._other_worker()
            finally:
                self._other_works = False
