"""What a request contains, body and parameters, and the objects from which it is answered.

There is one Flask application in a process, whatever is served. `create_app` of
`pullqueue.server.app` puts the objects of one server into the WSGI environment of each request,
where `served` finds them. A body or a parameter that is not valid raises ApiError.
"""

from __future__ import annotations

import re
import zlib
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from flask import Request, g, request
from werkzeug.exceptions import RequestEntityTooLarge

from pullqueue.api import messages
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.text import quoted

SERVED_KEY: Final = "pullqueue.served"
"""In the environment: the objects that are served, by class."""
FIND_SERVED_KEY: Final = "pullqueue.find_served"
"""In the environment: the function that returns them for an environment."""

_FORM_TYPE = "application/x-www-form-urlencoded"
_BYTE_ORDER_MARK = "\ufeff"
"""Some editors and shells write it at the beginning of a file; RFC 8259 permits to skip it."""
_GZIP_WBITS = zlib.MAX_WBITS | 16
"""What zlib calls gzip."""
_GZIP_MAGIC = b"\x1f\x8b"
"""How every gzip file begins (RFC 1952)."""
_INCOMPLETE = r"it is cut off, or its last text has half of a surrogate pair, such as \ud800"
"""What msgspec calls truncated: it expects the other half there."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_INT32 = 2**31
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_MAX_PARAMETERS = 1_000

_T = TypeVar("_T")


def current_request() -> Request:
    """Return the current request itself.

    `flask.request` looks it up for each attribute, which takes more than a microsecond: a view
    needs dozens.
    """
    found: Request = request.environ["werkzeug.request"]
    return found


def served(kind: type[_T]) -> _T:
    """Return what the current request is answered from: `served(Emulator)`."""
    found: _T = request.environ[SERVED_KEY][kind]
    return found


def read_body() -> bytes:
    """Return the body of the current request, unzipped; the request log finds it in `flask.g`.

    Google's clients for Java and .NET zip the body of each call unless configured otherwise. It
    must not be longer than `request.max_content_length`, neither zipped nor unzipped.
    """
    request = current_request()
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


def as_form(body: bytes, content_type: str | None) -> bytes:
    """Return the body if it is a form, and nothing otherwise.

    JSON that is declared as a form, as curl does with every body, is not one.
    """
    declared = _FORM_TYPE in (content_type or "").lower()
    if declared and not body.lstrip().startswith((b"{", b"[", _GZIP_MAGIC)):
        return body
    return b""


def as_json(body: bytes) -> Json:
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
    problem = str(error).removeprefix("JSON is malformed: ")
    return f"the body is not JSON: {_INCOMPLETE if 'truncated' in problem else problem}"


class Parameters:
    """The parameters of one request, by name. One with two values is refused when it is read."""

    def __init__(self, *encoded: bytes) -> None:
        """Parse URL-encoded parameters: the query first, then a form."""
        self._values: dict[str, str] = {}
        self._repeated: set[str] = set()
        for text in filter(None, encoded):
            for name, value in _parse(text):
                if self._values.setdefault(name, value) != value:
                    self._repeated.add(name)

    @classmethod
    def of_json(cls, values: Json) -> Parameters:
        """Return the texts of a JSON object as parameters."""
        parameters = cls()
        parameters._values = {name: text for name, text in values.items() if isinstance(text, str)}
        return parameters

    def text(self, name: str) -> str | None:
        """Return a parameter as it is, or None."""
        if name in self._repeated:
            raise ApiError.parameter(f"{name} is set to two values: set it once", name)
        return self._values.get(name)

    def integer(self, name: str, *, minimum: int, maximum: int, alias: str = "") -> int:
        """Return a required parameter as a whole number; `alias` is another name for it."""
        if name in self._values and alias in self._values:
            message = f"{name} and {alias} are both set, and mean the same: leave out {alias}"
            raise ApiError.parameter(message, alias)
        value = self.text(alias if alias in self._values else name)
        if value is None:
            message = messages.REQUIRED_PARAMETER.format(name=name)
            raise ApiError.parameter(message, name, reason="required")
        number = int(value) if _INTEGER.fullmatch(value) else _INT32
        if not -_INT32 <= number < _INT32:
            raise ApiError.parameter(messages.INVALID_INTEGER.format(value=value), name)
        if not minimum <= number <= maximum:
            message = messages.OUT_OF_RANGE.format(value=value, minimum=minimum, maximum=maximum)
            raise ApiError.parameter(message, name)
        return number

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return a parameter that is true or false."""
        value = str(default) if (given := self.text(name)) is None else given
        if value not in _TRUE + _FALSE:
            raise ApiError.parameter(messages.INVALID_BOOLEAN.format(value=value), name)
        return value in _TRUE

    def check_format(self) -> None:
        """Refuse every response format but plain JSON, that is `alt` and `callback`."""
        alt = self.text("alt")
        if alt not in (None, "json"):
            message = messages.INVALID_ENUM.format(value=alt, allowed="json")
            raise ApiError.parameter(message, "alt")
        if "callback" in self._values:
            message = "callback is not supported: responses are JSON, never a script; leave it out"
            raise ApiError.parameter(message, "callback")


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
    return ApiError(message, status=413, reason="uploadTooLarge", explanation=explanation)


def _parse(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            encoded.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        message = "the parameters are not UTF-8: encode them in UTF-8"
        raise ApiError(message, reason="badRequest") from None
    except ValueError:
        message = (
            f"more than {_MAX_PARAMETERS} parameters: leave out those that the method does not have"
        )
        raise ApiError(message, reason="badRequest") from None
