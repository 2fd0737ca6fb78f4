"""What each error is called by each interface: one table for REST, the SDK and the command line.

REST statuses and reasons are those of Google's JSON error envelope; SDK codes are those of
`TaskQueueServiceError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pullqueue import errors

EXIT_REFUSED = 1
"""There are findings, or the operation was refused."""
EXIT_USAGE = 2
"""An argument, or a value in it, is not valid."""
EXIT_FAILURE = 3
"""There is no server, a file cannot be used, or the command has a bug."""


_EXIT_STATUSES: Mapping[str, int] = {
    "INVALID_ARGUMENT": EXIT_USAGE,
    "INTERNAL": EXIT_FAILURE,
    "UNAVAILABLE": EXIT_FAILURE,
    "DEADLINE_EXCEEDED": EXIT_FAILURE,
}


class ErrorCodes(NamedTuple):
    """The codes of one error."""

    http_status: int
    reason: str
    rpc_code: str
    sdk_code: int

    @property
    def exit_status(self) -> int:
        """The exit status of a command."""
        return _EXIT_STATUSES.get(self.rpc_code, EXIT_REFUSED)


ERROR_CODES: Mapping[type[errors.PullQueueError], ErrorCodes] = MappingProxyType(
    {
        errors.PullQueueError: ErrorCodes(500, "internalError", "INTERNAL", 3),
        errors.ClockError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 13),
        errors.ConfigFileError: ErrorCodes(500, "internalError", "UNAVAILABLE", 3),
        errors.InvalidQueueConfigError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 13),
        errors.UnknownQueueError: ErrorCodes(404, "notFound", "NOT_FOUND", 1),
        errors.InvalidQueueModeError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 21),
        errors.QueueDisabledError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 26),
        errors.QueuePausedError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 26),
        errors.InvalidQueueNameError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 6),
        errors.QueueNameInUseError: ErrorCodes(409, "duplicate", "ALREADY_EXISTS", 15),
        errors.InvalidTaskError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 13),
        errors.InvalidTaskNameError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 5),
        errors.InvalidTagError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 27),
        errors.InvalidEtaError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 12),
        errors.TaskTooLargeError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 4),
        errors.TooManyTasksError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 18),
        errors.DuplicateTaskNameError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 16),
        errors.InvalidLeaseTimeError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 13),
        errors.InvalidMaxTasksError: ErrorCodes(400, "invalid", "INVALID_ARGUMENT", 13),
        errors.UnknownTaskError: ErrorCodes(404, "notFound", "NOT_FOUND", 14),
        errors.TaskLeaseExpiredError: ErrorCodes(400, "invalid", "FAILED_PRECONDITION", 25),
        errors.TaskAlreadyExistsError: ErrorCodes(400, "invalid", "ALREADY_EXISTS", 10),
        errors.TombstonedTaskError: ErrorCodes(400, "invalid", "NOT_FOUND", 11),
        errors.OverQuotaError: ErrorCodes(403, "quotaExceeded", "RESOURCE_EXHAUSTED", 3),
        errors.StoreFullError: ErrorCodes(403, "quotaExceeded", "RESOURCE_EXHAUSTED", 3),
        errors.TransientError: ErrorCodes(503, "backendError", "UNAVAILABLE", 2),
        errors.InternalError: ErrorCodes(500, "internalError", "INTERNAL", 3),
        errors.DeadlineExceededError: ErrorCodes(504, "deadlineExceeded", "DEADLINE_EXCEEDED", 2),
        errors.RateLimitExceededError: ErrorCodes(
            403, "rateLimitExceeded", "RESOURCE_EXHAUSTED", 2
        ),
        errors.StoreError: ErrorCodes(500, "internalError", "UNAVAILABLE", 3),
        errors.ServerAddressError: ErrorCodes(500, "internalError", "INTERNAL", 3),
    }
)
"""Through the SDK, quota and deadline are exceptions of their own, not codes (`pullqueue.sdk`)."""


def codes_of(error: errors.PullQueueError) -> ErrorCodes:
    """Return the codes of an error: its own, or those of the nearest class above it."""
    return next(ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES)
