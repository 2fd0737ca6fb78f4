"""Batches: many calls in one multipart request, answered one by one in one multipart response."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from email.message import Message
from email.parser import BytesParser
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes, urlsplit

from flask import Blueprint, Response, current_app, request
from werkzeug.datastructures import Headers
from werkzeug.test import run_wsgi_app

from pullqueue.api.discovery import Api
from pullqueue.api.encoding import status_line
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import BAD_BATCH, NOT_FOUND
from pullqueue.api.requests import FIND_SERVED_KEY, read_body
from pullqueue.limits import KIB, MIB
from pullqueue.text import shorten

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MAX_PARTS: Final = 1_000
"""Calls in one batch (Google's documentation of batches)."""
MAX_RESPONSE_BYTES: Final = 64 * MIB
"""Responses of one batch; calls after that are refused without being carried out (ours)."""
_MAX_HEAD_BYTES = 64 * KIB
"""Headers of a part, or of the request within it."""

_OF_ALL_PARTS = ("HTTP_HOST", "HTTP_USER_AGENT", FIND_SERVED_KEY)
"""What each part has from the request that is answered."""
_END_OF_HEAD = re.compile(rb"(?:\A|\r?\n)\r?\n")


def blueprint(apis: Iterable[Api]) -> Blueprint:
    """Return the routes of batches of calls of some APIs."""
    routes = Blueprint("batch", __name__)
    served = list(apis)
    # Calls cannot lead to another batch, nor to routes of the emulator's own.
    view = partial(_call_batch, tuple(path for api in served for path in api.paths))
    for path in ("/batch", *(f"/batch/{api.name}/{api.version}" for api in served)):
        routes.add_url_rule(path, "call_batch", view, methods=["POST"])
    return routes


def _call_batch(paths: tuple[str, ...]) -> Response:
    """Carry out the calls of a batch in order."""
    boundary = f"batch_{secrets.token_hex(16)}"
    answers: list[bytes] = []
    size = 0
    for part in _parts(read_body()):
        answers.append(_answer(part, boundary, paths, fits=size < MAX_RESPONSE_BYTES))
        size += len(answers[-1])
    return Response(
        b"".join([*answers, f"--{boundary}--\r\n".encode()]),
        content_type=f"multipart/mixed; boundary={boundary}",
    )


def _parts(body: bytes) -> list[Message]:
    """Return the parts of the body; they are counted before any of them is parsed."""
    boundary = request.mimetype_params.get("boundary", "").encode("latin-1", "replace")
    if request.mimetype != "multipart/mixed" or not boundary:
        raise _malformed("the body is not multipart/mixed with a boundary in its content type")
    delimiter = re.compile(rb"(?:\A|\r?\n)--" + re.escape(boundary) + rb"(--)?[ \t]*(?:\r?\n|\Z)")
    sections = delimiter.split(body, maxsplit=MAX_PARTS + 1)
    # `split` returns what the group matched as well: the end's hyphens, or None.
    texts, ends = sections[2::2], sections[1::2]
    if b"--" in ends:
        texts = texts[: ends.index(b"--")]
    if not texts:
        raise _malformed("the body has no part that begins with its boundary")
    if len(texts) > MAX_PARTS:
        raise _malformed(f"more than {MAX_PARTS} calls in one batch: send several batches")
    try:
        return [BytesParser().parsebytes(_checked(text)) for text in texts]
    except RecursionError:
        raise _malformed(
            "the parts are nested too deeply: each part must be one HTTP request"
        ) from None


def _checked(text: bytes) -> bytes:
    """Return a part, or a request within one, if its headers are not too large to be parsed."""
    if len(text) > _MAX_HEAD_BYTES and not _END_OF_HEAD.search(text, 0, _MAX_HEAD_BYTES):
        raise _malformed(f"the headers of a part exceed {_MAX_HEAD_BYTES} bytes")
    return text


def _answer(part: Message, boundary: str, paths: tuple[str, ...], *, fits: bool) -> bytes:
    try:
        status, headers, body = _call(part, paths, fits=fits)
    except (ApiError, ValueError) as error:
        if not isinstance(error, ApiError):
            error = _malformed(f"a part is not an HTTP request: {error}")
        response = error.response()
        status, headers, body = response.status_code, response.headers, response.get_data()
    lines = [f"--{boundary}", "Content-Type: application/http"]
    identifier = " ".join(str(part.get("Content-ID", "")).split())
    if identifier:
        # As it was sent, in angle brackets or not: clients look for exactly that.
        bracket = "<" * identifier.startswith("<")
        lines.append(f"Content-ID: {bracket}response-{identifier.removeprefix('<')}")
    # Google's client for Ruby does not understand a response without any header.
    headers.setdefault("Content-Length", str(len(body)))
    lines += ["", f"HTTP/1.1 {status_line(status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body + b"\r\n"


def _call(part: Message, paths: tuple[str, ...], *, fits: bool) -> tuple[int, Headers, bytes]:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        raise _malformed("a part is a batch itself: each part must be one HTTP request")
    head, body = (*_END_OF_HEAD.split(_checked(payload), maxsplit=1), b"")[:2]
    line, _, rest = head.partition(b"\n")
    words = line.decode("latin-1").split()
    if len(words) not in (2, 3):
        shown = shorten(line.decode("latin-1"))
        raise _malformed(f'"{shown}" is not a request line: send `GET /path HTTP/1.1`')
    if not fits:
        message = f"the batch's responses exceed {MAX_RESPONSE_BYTES} bytes: send smaller batches"
        raise ApiError(message, status=403, reason="responseTooLarge")
    sent = {"Authorization": request.headers.get("Authorization", "")}
    sent |= dict(BytesParser().parsebytes(rest, headersonly=True).items())
    environ = _environ(words[0].upper(), words[1], sent, body)
    if not environ["PATH_INFO"].startswith(paths):
        raise ApiError(NOT_FOUND, status=404)
    chunks, status, headers = run_wsgi_app(current_app.wsgi_app, environ, buffered=True)
    return int(status.split()[0]), headers, b"".join(chunks)


def _environ(verb: str, target: str, headers: dict[str, str], body: bytes) -> WSGIEnvironment:
    """Return the environment of a call within the request that is being answered."""
    url = urlsplit(target)
    kept = {
        name: value
        for name, value in request.environ.items()
        if name.startswith(("wsgi.", "SERVER_", "REMOTE_")) or name in _OF_ALL_PARTS
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
        # Clients state in each part what holds for the whole; a part is never zipped.
        "HTTP_ACCEPT_ENCODING": "",
        "HTTP_CONTENT_ENCODING": "",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": False,
    }


def _malformed(explanation: str) -> ApiError:
    return ApiError(BAD_BATCH, reason="badRequest", explanation=explanation)
