"""Errors of the API, and the envelope of Google's JSON APIs in which they are sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from pullqueue.api import messages
from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.error_codes import codes_of
from pullqueue.errors import PullQueueError

_log = logging.getLogger("pullqueue.server")

_REASONS: Mapping[int, tuple[str, str]] = {
    404: ("notFound", messages.NOT_FOUND),
    405: ("httpMethodNotAllowed", messages.METHOD_NOT_ALLOWED),
}


class ApiError(PullQueueError):
    """a request is refused"""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        reason: str = "invalid",
        location_type: str | None = None,
        location: str | None = None,
        explanation: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store what the envelope contains.

        `message` is the text of the real service where that is known; `explanation` then states
        what exactly was wrong, and is sent as `debugInfo`.
        """
        self.status = status
        self.reason = reason
        self.location_type = location_type
        self.location = location
        self.explanation = explanation
        self.headers = dict(headers or {})
        super().__init__(message)

    @classmethod
    def parameter(cls, message: str, name: str, *, reason: str = "invalidParameter") -> ApiError:
        """Return the error for a parameter that is not valid."""
        return cls(message, reason=reason, location_type="parameter", location=name)


def envelope(error: ApiError) -> Json:
    """Return the JSON of an error."""
    detail: Json = {"domain": "global", "reason": error.reason, "message": str(error)}
    if error.location is not None:
        detail["locationType"] = error.location_type
        detail["location"] = error.location
    if error.explanation is not None:
        detail["debugInfo"] = error.explanation
    return {"error": {"errors": [detail], "code": error.status, "message": str(error)}}


def api_error_of(error: PullQueueError) -> ApiError:
    """Return the API's error for one of the engine's."""
    if isinstance(error, ApiError):
        return error
    codes = codes_of(error)
    message = messages.message_of(error)
    return ApiError(
        message or str(error),
        status=codes.http_status,
        reason=codes.reason,
        explanation=str(error) if message else None,
    )


def error_response(error: PullQueueError) -> Response:
    """Return the HTTP response for an error."""
    refusal = api_error_of(error)
    body = encode(envelope(refusal))
    return Response(body, refusal.status, refusal.headers, content_type=JSON_TYPE)


def register_error_handlers(app: Flask) -> None:
    """Send every error of an application in the envelope, those of our own making included."""
    app.register_error_handler(PullQueueError, error_response)
    app.register_error_handler(HTTPException, _http_error_response)
    app.register_error_handler(Exception, _internal_error_response)


def _http_error_response(error: HTTPException) -> Response:
    status = error.code or 500
    reason, text = _REASONS.get(status, ("badRequest", error.description or error.name))
    refusal = ApiError(text, status=status, reason=reason)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        refusal.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return error_response(refusal)


def _internal_error_response(error: Exception) -> Response:
    _log.error("a request failed because of an error in the emulator", exc_info=error)
    return error_response(ApiError(messages.INTERNAL_ERROR, status=500, reason="internalError"))
