"""The errors of the service, and the envelope that REST sends them in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pullqueue.api import messages
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.error_codes import codes_of
from pullqueue.errors import (
    PullQueueError,
    TombstonedTaskError,
    UnknownQueueError,
    UnknownTaskError,
)

_TEXTS: Final[Mapping[type[PullQueueError], str]] = MappingProxyType(
    {
        UnknownQueueError: messages.CLOUD_TASKS_QUEUE_NOT_FOUND,
        UnknownTaskError: messages.CLOUD_TASKS_TASK_NOT_FOUND,
        TombstonedTaskError: messages.CLOUD_TASKS_TASK_GONE,
    }
)
"""The real service's text for an error of the engine, where it is known."""


def invalid(message: str, *, field: str | None = None) -> ApiError:
    """Return an INVALID_ARGUMENT error; `field` names the part of the request it is about."""
    return ApiError(message, location=field)


def service_error(error: PullQueueError) -> ApiError:
    """Return an error as this service sends it: one sentence, and the status of its code.

    It begins with the text of the real service where that is known.
    """
    if not isinstance(error, ApiError):
        text = _TEXTS.get(type(error))
        message = f"{text} ({error})" if text else str(error)
        return ApiError(message, rpc_code=codes_of(error).rpc_code)
    text = f"{error} ({error.explanation})" if error.explanation else str(error)
    return ApiError(text, rpc_code=error.rpc_code, location=error.location, headers=error.headers)


def envelope(error: ApiError) -> Json:
    """Return the JSON of an error."""
    content: Json = {"code": error.status, "message": str(error), "status": error.rpc_code}
    if error.location is not None and error.rpc_code == "INVALID_ARGUMENT":
        violations = [{"field": error.location, "description": str(error)}]
        kind = "type.googleapis.com/google.rpc.BadRequest"
        content["details"] = [{"@type": kind, "fieldViolations": violations}]
    return {"error": content}
