"""The errors of the service: status codes, and the envelope that REST sends them in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pullqueue.api.errors import ApiError
from pullqueue.error_codes import codes_of
from pullqueue.errors import PullQueueError

HTTP_STATUS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": 400,
        "FAILED_PRECONDITION": 400,
        "UNAUTHENTICATED": 401,
        "PERMISSION_DENIED": 403,
        "NOT_FOUND": 404,
        "ALREADY_EXISTS": 409,
        "ABORTED": 409,
        "RESOURCE_EXHAUSTED": 429,
        "UNIMPLEMENTED": 501,
        "INTERNAL": 500,
        "UNAVAILABLE": 503,
        "DEADLINE_EXCEEDED": 504,
    }
)
"""The HTTP status of each code of `google.rpc.Code` that is used here."""


class StatusError(PullQueueError):
    """a call of Cloud Tasks was refused"""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store a code of `google.rpc.Code`, and headers of an HTTP response.

        `field` names the part of the request that the error is about.
        """
        self.code = code
        self.http_status = HTTP_STATUS[code]
        self.field = field
        self.headers = headers or {}
        super().__init__(message)

    def envelope(self) -> dict[str, Any]:
        """Return the JSON that REST sends."""
        error: dict[str, Any] = {
            "code": self.http_status,
            "message": str(self),
            "status": self.code,
        }
        if self.field is not None:
            violations = [{"field": self.field, "description": str(self)}]
            kind = "type.googleapis.com/google.rpc.BadRequest"
            error["details"] = [{"@type": kind, "fieldViolations": violations}]
        return {"error": error}


def invalid(message: str, *, field: str | None = None) -> StatusError:
    """Return an INVALID_ARGUMENT error."""
    return StatusError("INVALID_ARGUMENT", message, field=field)


def status_error_of(error: PullQueueError) -> StatusError:
    """Return what an error of the engine or of the HTTP layer is here."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, ApiError):
        message = f"{error} ({error.explanation})" if error.explanation else str(error)
        field = error.location if error.rpc_code == "INVALID_ARGUMENT" else None
        return StatusError(error.rpc_code, message, field=field, headers=error.headers)
    return StatusError(codes_of(error).rpc_code, str(error))
