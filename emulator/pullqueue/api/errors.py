"""Refusals, and the envelope of Google's JSON APIs that they are sent in."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from pullqueue.api import messages
from pullqueue.api.answers import JSON_TYPE, Json, pretty
from pullqueue.error_codes import codes_of
from pullqueue.errors import PullQueueError

_log = logging.getLogger("pullqueue.rest")

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
        """Carry what the envelope shows.

        `message` is the text of the real service where that is known; `explanation` then says
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
        """Refuse a parameter."""
        return cls(message, reason=reason, location_type="parameter", location=name)


def envelope(error: ApiError) -> Json:
    """Give the JSON of a refusal."""
    detail: Json = {"domain": "global", "reason": error.reason, "message": str(error)}
    if error.location is not None:
        detail["locationType"] = error.location_type
        detail["location"] = error.location
    if error.explanation is not None:
        detail["debugInfo"] = error.explanation
    return {"error": {"errors": [detail], "code": error.status, "message": str(error)}}


def api_error_of(error: PullQueueError) -> ApiError:
    """Give the refusal for an error of the engine."""
    if isinstance(error, ApiError):
        return error
    codes = codes_of(error)
    known = next(
        (messages.TEXT_OF[kind] for kind in type(error).__mro__ if kind in messages.TEXT_OF), ""
    )
    return ApiError(
        known or str(error),
        status=codes.http_status,
        reason=codes.reason,
        explanation=str(error) if known else None,
    )


def install(app: Flask) -> None:
    """Let every error of an app leave in the envelope, faults of our own included."""
    app.register_error_handler(PullQueueError, lambda error: response_to(api_error_of(error)))
    app.register_error_handler(HTTPException, _http_response)
    app.register_error_handler(Exception, _fault_response)


def response_to(error: ApiError) -> Response:
    """Give the HTTP answer of a refusal."""
    body = pretty(envelope(error)).encode()
    return Response(body, error.status, error.headers, content_type=JSON_TYPE)


def _http_response(error: HTTPException) -> Response:
    status = error.code or 500
    reason, text = _REASONS.get(status, ("badRequest", error.description or error.name))
    refusal = ApiError(text, status=status, reason=reason)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        refusal.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response_to(refusal)


def _fault_response(error: Exception) -> Response:
    _log.error("a request failed through a fault of the emulator", exc_info=error)
    return response_to(ApiError(messages.INTERNAL_ERROR, status=500, reason="internalError"))
