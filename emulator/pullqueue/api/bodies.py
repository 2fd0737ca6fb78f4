"""The body of a request: read within bounds, and taken as the JSON or the form that it is."""

from __future__ import annotations

import codecs
import json
import math
import zlib
from typing import NoReturn

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from pullqueue.api import messages
from pullqueue.api.answers import Json
from pullqueue.api.errors import ApiError

BODY_KEY = "pullqueue.body"
"""Where the WSGI environment holds the body of a request once it was read."""
ZIPPED_KEY = "pullqueue.zipped"
"""What the WSGI environment holds while nobody can see whether a body has credentials in it."""

_FORM_TYPE = "application/x-www-form-urlencoded"
_CHARSETS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16", "utf-32"})
_BYTE_ORDER_MARK = "\ufeff"
"""Some editors and shells begin a file with it; RFC 8259 lets a reader pass over it."""
_AS_IT_IS = frozenset({"", "identity"})
_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_WBITS = zlib.MAX_WBITS | 16
"""What zlib calls gzip."""
_GZIP_MAGIC = b"\x1f\x8b"
"""How every gzip file begins (RFC 1952)."""


def read(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: it is larger than Flask permits.
    """
    try:
        data = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise _too_large(request.max_content_length or 0) from None
    request.environ[BODY_KEY] = data
    return data


def unzipped(request: Request, body: bytes) -> bytes:
    """Give a body as it was before its sender zipped it; nor may that be longer than Flask permits.

    Google's clients for Java and .NET zip the body of each call unless told not to.

    Raises:
        ApiError: it grows longer than that, is no gzip, or is encoded otherwise.
    """
    environ = request.environ
    coding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if coding in _AS_IT_IS or not body:
        return body
    environ[ZIPPED_KEY] = True
    if coding not in _GZIP:
        message = f"Content-Encoding is {coding!r:.100}: send gzip, or leave it out"
        raise ApiError(message, status=415, reason="badRequest")
    limit = request.max_content_length or 0
    unzipping = zlib.decompressobj(_GZIP_WBITS)
    try:
        data = unzipping.decompress(body, limit + 1)
    except zlib.error as error:
        raise _not_gzip(str(error)) from None
    if len(data) > limit:
        raise _too_large(limit, explanation="the body is longer than that when it is unzipped")
    if not unzipping.eof:
        raise _not_gzip("its end is missing")
    if unzipping.unused_data:
        raise _not_gzip("more stands behind its end")
    environ[BODY_KEY] = data
    del environ[ZIPPED_KEY]
    return data


def as_form(request: Request, body: bytes) -> bytes:
    """Give the body if it is a form, and nothing otherwise.

    JSON that is called a form, as curl calls every body, is none.
    """
    if (
        body
        and _FORM_TYPE in request.environ.get("CONTENT_TYPE", "").lower()
        and not body.lstrip().startswith((b"{", b"[", _GZIP_MAGIC))
    ):
        return body
    return b""


def as_json(request: Request, body: bytes) -> Json:
    """Give the JSON object in a body.

    Raises:
        ApiError: there is none.
    """
    if not body.strip():
        raise ApiError(messages.BODY_REQUIRED, reason="required")
    charset = "utf-8"
    if "charset" in request.environ.get("CONTENT_TYPE", ""):
        charset = request.mimetype_params.get("charset", charset)
    value = _parsed(_decoded(body, charset))
    if not isinstance(value, dict):
        what = type(value).__name__
        raise ApiError(messages.BODY_REQUIRED, explanation=f"the body is JSON, but a {what}")
    return value


def _parsed(text: str) -> object:
    try:
        return _decode(text.removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise ApiError(
            messages.PARSE_ERROR, reason="parseError", explanation=f"the body is not JSON: {error}"
        ) from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.60} is too large a number")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant).decode
"""JSON has no word for what is no number or not finite; Python takes it unless told not to."""


def _not_gzip(why: str) -> ApiError:
    message = f"the body cannot be unzipped, as its Content-Encoding asks: {why}"
    return ApiError(message, reason="badRequest")


def _too_large(limit: int, *, explanation: str | None = None) -> ApiError:
    message = messages.BODY_TOO_LARGE.format(limit=limit)
    return ApiError(message, status=413, reason="uploadTooLarge", explanation=explanation)


def _decoded(body: bytes, charset: str) -> str:
    try:
        if codecs.lookup(charset).name not in _CHARSETS:
            raise LookupError(f"{charset!r} is not taken here, send UTF-8")
        return body.decode(charset)
    except (LookupError, ValueError) as error:
        if body.startswith(_GZIP_MAGIC):
            explanation = (
                "the body is gzip, which is taken with Content-Encoding: gzip, for calls of the "
                "API and for whole batches"
            )
        else:
            explanation = f"the body is not text in {charset!r}: {error}"
        raise ApiError(messages.PARSE_ERROR, reason="parseError", explanation=explanation) from None
