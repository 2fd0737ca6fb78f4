"""Errors of the API, and the envelope of Google's JSON APIs in which they are sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from pullqueue.api import messages
from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.error_codes import LOCALIZED_MESSAGE, RPC_CODES, find_codes, find_rpc_code
from pullqueue.errors import PullQueueError, TaskLeaseExpiredError, UnknownQueueError

LOCALE = "en-US"

_log = logging.getLogger("pullqueue.server")

_UNKNOWN_ROUTES: Mapping[int, str] = {404: "notFound", 405: "httpMethodNotAllowed"}
"""Reasons of what is answered where there is no such route."""
_ADVICE = "/discovery/v1/apis/taskqueue/v1beta2/rest and /_emulator/openapi.json list the routes"
_TEXTS: Mapping[type[PullQueueError], str] = {
    TaskLeaseExpiredError: messages.LEASE_EXPIRED,
    UnknownQueueError: messages.QUEUE_NOT_FOUND,
}
"""The real service's text for an error of the engine, where it is known."""


class ApiError(PullQueueError):
    """a request is refused"""

    def __init__(
        self,
        message: str,
        *,
        rpc_code: str | None = None,
        status: int | None = None,
        reason: str | None = None,
        location_type: str = "parameter",
        location: str | None = None,
        explanation: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store what the envelope contains; without a code and a status it is INVALID_ARGUMENT.

        `message` is the text of the real service where that is known; `explanation` then states
        what exactly was wrong and what to do: among the details, which Google's clients print.
        """
        self.rpc_code = rpc_code or find_rpc_code(status or 400)
        self.status = status or RPC_CODES[self.rpc_code].http_status
        self.reason = reason or RPC_CODES[self.rpc_code].reason
        self.location_type = location_type
        self.location = location
        self.explanation = explanation
        self.headers = dict(headers or {})
        super().__init__(message)

    @classmethod
    def parameter(cls, message: str, name: str, *, reason: str = "invalidParameter") -> ApiError:
        """Return the error for a parameter that is not valid."""
        return cls(message, reason=reason, location=name)

    @classmethod
    def of(cls, error: PullQueueError) -> ApiError:
        """Return the API's error for any of ours."""
        if isinstance(error, cls):
            return error
        codes, text = find_codes(error), _TEXTS.get(type(error))
        return cls(
            text or str(error),
            status=codes.http_status,
            reason=codes.reason,
            rpc_code=codes.rpc_code,
            explanation=str(error) if text else None,
        )

    def response(self, *, with_rpc_code: bool = False) -> Response:
        """Return the HTTP response, with the envelope, which can contain the code as `status`."""
        detail: Json = {"domain": "global", "reason": self.reason, "message": str(self)}
        if self.location is not None:
            detail |= {"locationType": self.location_type, "location": self.location}
        error = {"errors": [detail], "code": self.status, "message": str(self)}
        if self.explanation is not None:
            error["details"] = [localized(self.explanation)]
        if with_rpc_code:
            error["status"] = self.rpc_code
        body = encode({"error": error})
        return Response(body, self.status, self.headers, content_type=JSON_TYPE)


def localized(advice: str) -> Json:
    """Return the detail of an error that has the emulator's advice."""
    return {"@type": LOCALIZED_MESSAGE, "locale": LOCALE, "message": advice}


def register_error_handlers(app: Flask) -> None:
    """Send every error of an application in the envelope, those of our own making included."""

    @app.errorhandler(PullQueueError)
    def refuse(error: PullQueueError) -> Response:
        refusal = ApiError.of(error)
        if refusal.explanation is not None:
            _log.info(
                "%s %s refused, %d: %s (%s)",
                *(request.method, request.path, refusal.status, refusal, refusal.explanation),
            )
        return refusal.response()

    @app.errorhandler(HTTPException)
    def refuse_request(error: HTTPException) -> Response:
        status = error.code or 500
        text, reason, explanation = error.description or error.name, "badRequest", None
        if status in _UNKNOWN_ROUTES:
            text, reason, explanation = error.name, _UNKNOWN_ROUTES[status], _ADVICE
        refusal = ApiError(text, status=status, reason=reason, explanation=explanation)
        if isinstance(error, MethodNotAllowed) and error.valid_methods:
            refusal.headers["Allow"] = ", ".join(sorted(error.valid_methods))
        return refusal.response()

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        _log.error("a request failed because of an error in the emulator", exc_info=error)
        return ApiError(messages.INTERNAL_ERROR, status=500).response()
