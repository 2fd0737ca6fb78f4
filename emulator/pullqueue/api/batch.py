"""Batches: many calls in one multipart request, answered one by one in one multipart answer."""

from __future__ import annotations

import re
import secrets
from email.message import Message
from email.parser import BytesParser
from io import BytesIO
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

from flask import Flask, Response, request
from werkzeug.wrappers import Response as AnyResponse

from pullqueue.api import bodies
from pullqueue.api.answers import status_line
from pullqueue.api.errors import ApiError, response_to
from pullqueue.api.messages import BAD_BATCH, NOT_FOUND

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_Headers: TypeAlias = dict[str, str]

MAX_PARTS = 1_000
"""Calls in one batch (Google's documentation of batches)."""

_PATHS = ("/batch", "/batch/taskqueue/v1beta1", "/batch/taskqueue/v1beta2")
_BELOW = "/taskqueue/"
"""Where the calls of a batch may lead; not to another batch."""
_INHERITED = ("Authorization",)
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")


def install(app: Flask) -> None:
    """Add the batch routes to an app."""

    def answer_batch() -> Response:
        parts = _parts(bodies.unzipped(request, bodies.read(request)))
        inherited = {name: request.headers[name] for name in _INHERITED if name in request.headers}
        boundary = f"batch_{secrets.token_hex(16)}"
        answers = [_answer(app, part, inherited, boundary) for part in parts]
        return Response(
            b"".join([*answers, f"--{boundary}--\r\n".encode()]),
            content_type=f"multipart/mixed; boundary={boundary}",
        )

    for path in _PATHS:
        app.add_url_rule(path, endpoint=path, view_func=answer_batch, methods=["POST"])


def _parts(body: bytes) -> list[Message]:
    content_type = request.headers.get("Content-Type", "")
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    try:
        message = BytesParser().parsebytes(head + body)
    except RecursionError:
        raise _malformed("the parts are themselves in parts, too deep to be read") from None
    parts = message.get_payload()
    if message.get_content_type() != "multipart/mixed" or not isinstance(parts, list):
        raise _malformed(
            "the body is not multipart/mixed with the boundary that its content type names"
        )
    if len(parts) > MAX_PARTS:
        raise _malformed(f"{len(parts)} calls in one batch: at most {MAX_PARTS} are permitted")
    return [part for part in parts if isinstance(part, Message)]


def _answer(app: Flask, part: Message, inherited: _Headers, boundary: str) -> bytes:
    answer: AnyResponse
    try:
        answer = _call(app, part, inherited)
    except ApiError as error:
        answer = response_to(error)
    except ValueError as error:
        answer = response_to(_malformed(f"a part is no HTTP request: {error}"))
    lines = [f"--{boundary}", "Content-Type: application/http"]
    identifier = " ".join(str(part.get("Content-ID", "")).split())
    if identifier:
        lines.append(f"Content-ID: <response-{identifier.strip('<>')}>")
    body = answer.get_data()
    # Google's client for Ruby does not understand an answer without any header.
    answer.headers.setdefault("Content-Length", str(len(body)))
    lines += ["", f"HTTP/1.1 {status_line(answer.status)}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body + b"\r\n"


class _Received(AnyResponse):
    """An answer as it came: one without a body is given no type."""

    default_mimetype = None


def _call(app: Flask, part: Message, inherited: _Headers) -> AnyResponse:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        raise _malformed("a part is itself in parts: each holds one HTTP request")
    head, body = (*_BLANK_LINE.split(payload, maxsplit=1), b"")[:2]
    line, _, rest = head.partition(b"\n")
    words = line.decode("latin-1").split()
    if len(words) not in (2, 3):
        raise _malformed(f"{line[:100]!r} is no request line: send `GET /path HTTP/1.1`")
    headers = inherited | dict(BytesParser().parsebytes(rest, headersonly=True).items())
    environ = _environ(words[0].upper(), words[1], headers, body)
    if not environ["PATH_INFO"].startswith(_BELOW):
        raise ApiError(NOT_FOUND, status=404, reason="notFound")
    return _Received.from_app(app.wsgi_app, environ, buffered=True)


def _environ(verb: str, target: str, headers: _Headers, body: bytes) -> WSGIEnvironment:
    """Give the environment of a call within the request that is being answered."""
    url = urlsplit(target)
    kept = {
        name: value
        for name, value in request.environ.items()
        if name.startswith(("wsgi.", "SERVER_", "REMOTE_")) or name == "HTTP_HOST"
    }
    named = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return {
        **kept,
        **named,
        "REQUEST_METHOD": verb,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(url.path).decode("latin-1"),
        "QUERY_STRING": url.query,
        "CONTENT_TYPE": named.get("HTTP_CONTENT_TYPE", ""),
        "CONTENT_LENGTH": str(len(body)),
        # Clients say in each part what holds for the whole; a part is never zipped.
        "HTTP_ACCEPT_ENCODING": "",
        "HTTP_CONTENT_ENCODING": "",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": False,
    }


def _malformed(explanation: str) -> ApiError:
    return ApiError(BAD_BATCH, reason="badRequest", explanation=explanation)
