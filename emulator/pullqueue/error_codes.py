"""What each error is called by each interface: one table for REST, gRPC, the SDK and commands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pullqueue import errors
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.tasks import TaskAlreadyExistsError, TombstonedTaskError

EXIT_REFUSED = 1
"""There are findings, or the operation was refused."""
EXIT_USAGE = 2
"""An argument, or a value in it, is not valid."""
EXIT_FAILURE = 3
"""There is no server, a file cannot be used, or the command has a bug."""


LOCALIZED_MESSAGE = "type.googleapis.com/google.rpc.LocalizedMessage"
"""The type of a detail that has the emulator's advice, beside a message of production."""


class RpcCode(NamedTuple):
    """What a code of `google.rpc.Code` is elsewhere."""

    http_status: int
    reason: str
    """What Google's older JSON envelope states."""
    exit_status: int = EXIT_REFUSED


RPC_CODES: Mapping[str, RpcCode] = MappingProxyType(
    {
        "INVALID_ARGUMENT": RpcCode(400, "invalid", EXIT_USAGE),
        "FAILED_PRECONDITION": RpcCode(400, "invalid"),
        "UNAUTHENTICATED": RpcCode(401, "authError"),
        "PERMISSION_DENIED": RpcCode(403, "forbidden"),
        "NOT_FOUND": RpcCode(404, "notFound"),
        "ALREADY_EXISTS": RpcCode(409, "duplicate"),
        "ABORTED": RpcCode(409, "aborted"),
        "RESOURCE_EXHAUSTED": RpcCode(429, "rateLimitExceeded"),
        "INTERNAL": RpcCode(500, "internalError", EXIT_FAILURE),
        "UNIMPLEMENTED": RpcCode(501, "notImplemented", EXIT_FAILURE),
        "UNAVAILABLE": RpcCode(503, "backendError", EXIT_FAILURE),
        "DEADLINE_EXCEEDED": RpcCode(504, "deadlineExceeded", EXIT_FAILURE),
    }
)
"""Of two codes with the same HTTP status, the first is what that status means."""


class ErrorCodes(NamedTuple):
    """The codes of one error."""

    rpc_code: str
    sdk_code: int
    """That of `TaskQueueServiceError`."""
    rest: tuple[int, str] | None = None
    """HTTP status and reason of `taskqueue/v1beta2`, where they are not those of `rpc_code`."""

    @property
    def http_status(self) -> int:
        """The HTTP status of `taskqueue/v1beta2`, and of the emulator's own routes."""
        return self.rest[0] if self.rest else RPC_CODES[self.rpc_code].http_status

    @property
    def reason(self) -> str:
        """The reason in the envelope of that status."""
        return self.rest[1] if self.rest else RPC_CODES[self.rpc_code].reason

    @property
    def exit_status(self) -> int:
        """The exit status of a command."""
        return RPC_CODES[self.rpc_code].exit_status


ERROR_CODES: Mapping[type[errors.PullQueueError], ErrorCodes] = MappingProxyType(
    {
        errors.PullQueueError: ErrorCodes("INTERNAL", 3),
        errors.ClockError: ErrorCodes("FAILED_PRECONDITION", 13),
        errors.ConfigFileError: ErrorCodes("UNAVAILABLE", 3, (500, "internalError")),
        InvalidQueueConfigError: ErrorCodes("FAILED_PRECONDITION", 13),
        errors.InvalidCronError: ErrorCodes("FAILED_PRECONDITION", 13),
        errors.UnknownQueueError: ErrorCodes("NOT_FOUND", 1),
        errors.InvalidQueueModeError: ErrorCodes("FAILED_PRECONDITION", 21),
        errors.QueueDisabledError: ErrorCodes("FAILED_PRECONDITION", 26),
        errors.QueuePausedError: ErrorCodes("FAILED_PRECONDITION", 26),
        errors.InvalidQueueNameError: ErrorCodes("INVALID_ARGUMENT", 6),
        errors.InvalidQueueSettingsError: ErrorCodes("INVALID_ARGUMENT", 13),
        errors.QueueNameInUseError: ErrorCodes("ALREADY_EXISTS", 15),
        errors.InvalidTaskError: ErrorCodes("INVALID_ARGUMENT", 13),
        errors.InvalidTaskNameError: ErrorCodes("INVALID_ARGUMENT", 5),
        errors.InvalidTagError: ErrorCodes("INVALID_ARGUMENT", 27),
        errors.InvalidEtaError: ErrorCodes("INVALID_ARGUMENT", 12),
        errors.TaskTooLargeError: ErrorCodes("INVALID_ARGUMENT", 4),
        errors.TooManyTasksError: ErrorCodes("INVALID_ARGUMENT", 18),
        errors.DuplicateTaskNameError: ErrorCodes("INVALID_ARGUMENT", 16),
        errors.InvalidLeaseTimeError: ErrorCodes("INVALID_ARGUMENT", 13),
        errors.InvalidMaxTasksError: ErrorCodes("INVALID_ARGUMENT", 13),
        errors.UnknownTaskError: ErrorCodes("NOT_FOUND", 14),
        errors.TaskLeaseExpiredError: ErrorCodes("FAILED_PRECONDITION", 25),
        TaskAlreadyExistsError: ErrorCodes("ALREADY_EXISTS", 10, (400, "invalid")),
        TombstonedTaskError: ErrorCodes("NOT_FOUND", 11, (400, "invalid")),
        errors.OverQuotaError: ErrorCodes("RESOURCE_EXHAUSTED", 3, (403, "quotaExceeded")),
        errors.StoreFullError: ErrorCodes("RESOURCE_EXHAUSTED", 3, (403, "quotaExceeded")),
        errors.TransientError: ErrorCodes("UNAVAILABLE", 2),
        errors.InternalError: ErrorCodes("INTERNAL", 3),
        errors.DeadlineExceededError: ErrorCodes("DEADLINE_EXCEEDED", 2),
        errors.RateLimitExceededError: ErrorCodes(
            "RESOURCE_EXHAUSTED", 2, (403, "rateLimitExceeded")
        ),
        errors.StoreError: ErrorCodes("UNAVAILABLE", 3, (500, "internalError")),
        errors.ServerAddressError: ErrorCodes("INTERNAL", 3),
    }
)
"""Through the SDK, quota and deadline are exceptions of their own, not codes (`pullqueue.sdk`)."""


def advice_in(error: Mapping[str, Any]) -> str | None:
    """Return the advice in an `error` of a response, or None.

    Raises:
        TypeError, AttributeError, LookupError: it is not an error of this server.
    """
    found = (each for each in error.get("details", ()) if each.get("@type") == LOCALIZED_MESSAGE)
    return next((str(each["message"]) for each in found), None)


def find_codes(error: errors.PullQueueError) -> ErrorCodes:
    """Return the codes of an error: its own, or those of the nearest class above it."""
    return next(ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES)


def find_rpc_code(http_status: int) -> str:
    """Return what an HTTP status means as a code of `google.rpc.Code`."""
    found = (code for code, row in RPC_CODES.items() if row.http_status == http_status)
    return next(found, "INVALID_ARGUMENT")
