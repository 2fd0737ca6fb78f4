"""The body of a request: read within a limit, unzipped, and parsed as JSON or a form.

A body that is not valid raises ApiError.
"""

from __future__ import annotations

import zlib

import msgspec
from flask import Request, g
from werkzeug.exceptions import RequestEntityTooLarge

from pullqueue.api import messages
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.config.text import quoted

_FORM_TYPE = "application/x-www-form-urlencoded"
_BYTE_ORDER_MARK = "\ufeff"
"""Some editors and shells write it at the beginning of a file; RFC 8259 permits to skip it."""
_GZIP_WBITS = zlib.MAX_WBITS | 16
"""What zlib calls gzip."""
_GZIP_MAGIC = b"\x1f\x8b"
"""How every gzip file begins (RFC 1952)."""


def read(request: Request) -> bytes:
    """Return the body of a request, unzipped; the request log finds it in `flask.g`.

    Google's clients for Java and .NET zip the body of each call unless configured otherwise. It
    must not be longer than `request.max_content_length`, neither zipped nor unzipped.
    """
    limit = request.max_content_length or 0
    try:
        data = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise _too_large(limit) from None
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if data and coding not in ("", "identity"):
        g.zipped_bytes = len(data)
        if coding not in ("gzip", "x-gzip"):
            message = f"Content-Encoding is {quoted(coding)}: send gzip, or leave it out"
            raise ApiError(message, status=415, reason="badRequest")
        data = _unzip(data, limit)
    g.body = data
    return data


def as_form(request: Request, body: bytes) -> bytes:
    """Return the body if it is a form, and nothing otherwise.

    JSON that is declared as a form, as curl does with every body, is not one.
    """
    declared = _FORM_TYPE in (request.content_type or "").lower()
    if declared and not body.lstrip().startswith((b"{", b"[", _GZIP_MAGIC)):
        return body
    return b""


def as_json(request: Request, body: bytes) -> Json:
    """Return the JSON object in a body."""
    if not body.strip():
        raise ApiError(messages.BODY_REQUIRED, reason="required")
    text = _decode(body, request.mimetype_params.get("charset", "utf-8"))
    try:
        value = msgspec.json.decode(text.removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise _parse_error(not_json(error)) from None
    if not isinstance(value, dict):
        raise ApiError(messages.BODY_REQUIRED, explanation="the body is JSON, but not an object")
    return value


def not_json(error: Exception) -> str:
    """Return what is wrong with a body that msgspec cannot decode."""
    return f"the body is not JSON: {str(error).removeprefix('JSON is malformed: ')}"


def _unzip(data: bytes, limit: int) -> bytes:
    unzipping = zlib.decompressobj(_GZIP_WBITS)
    try:
        unzipped = unzipping.decompress(data, limit + 1)
    except zlib.error as error:
        raise _not_gzip(str(error)) from None
    if len(unzipped) > limit:
        raise _too_large(limit, explanation="the unzipped body is longer than that")
    if not unzipping.eof:
        raise _not_gzip("its end is missing")
    if unzipping.unused_data:
        raise _not_gzip("more data follows its end")
    return unzipped


def _decode(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset)
    except (LookupError, ValueError) as error:
        if body.startswith(_GZIP_MAGIC):
            raise _parse_error("the body is gzip: send Content-Encoding: gzip with it") from None
        raise _parse_error(f"the body is not text in {quoted(charset)}: {error}") from None


def _parse_error(explanation: str) -> ApiError:
    return ApiError(messages.PARSE_ERROR, reason="parseError", explanation=explanation)


def _not_gzip(why: str) -> ApiError:
    message = f"the body cannot be unzipped, as its Content-Encoding asks: {why}"
    return ApiError(message, reason="badRequest")


def _too_large(limit: int, *, explanation: str | None = None) -> ApiError:
    message = messages.BODY_TOO_LARGE.format(limit=limit)
    return ApiError(message, status=413, explanation=explanation)
