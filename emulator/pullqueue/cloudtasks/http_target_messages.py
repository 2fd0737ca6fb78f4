"""The `http_target` of a queue as a message."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from pullqueue.address import LARGEST_PORT
from pullqueue.api.tokens import CLOUD_PLATFORM
from pullqueue.cloudtasks.errors import invalid_field
from pullqueue.cloudtasks.messages import Message, check_range, read_method, write_method
from pullqueue.config.model import HttpTarget
from pullqueue.tasks import RequestToken
from pullqueue.text import is_email, quoted

_is_host = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII).fullmatch
_not_in_a_url = re.compile(r"[^!-~]+|#")
_FIELD: Final = "queue.http_target"


def read_http_target(message: Message, *, headers_bytes: int) -> HttpTarget | None:
    """Return what a message overrides; None: nothing. Its headers have less than `headers_bytes`.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: a value is not valid.
    """
    uri = message.uri_override
    headers = tuple((each.header.key, each.header.value) for each in message.header_overrides)
    _check_headers(headers, headers_bytes)
    method = read_method(message, f"{_FIELD}.http_method") or None
    if uri.HasField("host") and not _is_host(uri.host):
        field = f"{_FIELD}.uri_override.host"
        raise invalid_field(field, f"is {quoted(uri.host)}: use the name of a host")
    if uri.HasField("port"):
        check_range(uri.port, 0, LARGEST_PORT, f"{_FIELD}.uri_override.port")
    scheme = "http" if uri.scheme == uri.Scheme.Value("HTTP") else "https"
    target = HttpTarget(
        scheme=scheme if uri.HasField("scheme") else None,
        host=uri.host if uri.HasField("host") else None,
        port=int(uri.port) if uri.HasField("port") else None,
        path=_encode(uri.path_override.path) if uri.HasField("path_override") else None,
        query=_encode(uri.query_override.query_params) if uri.HasField("query_override") else None,
        if_not_exists=uri.uri_override_enforce_mode
        == uri.UriOverrideEnforceMode.Value("IF_NOT_EXISTS"),
        method=method,
        headers=headers,
        token=read_token(message, _FIELD),
    )
    return None if target == HttpTarget() else target


def write_http_target(message: Message, target: HttpTarget) -> None:
    """Write what a queue overrides into a message."""
    uri = message.uri_override
    if target.scheme is not None:
        uri.scheme = uri.Scheme.Value(target.scheme.upper())
    if target.host is not None:
        uri.host = target.host
    if target.port is not None:
        uri.port = target.port
    if target.path is not None:
        uri.path_override.SetInParent()
        uri.path_override.path = target.path
    if target.query is not None:
        uri.query_override.SetInParent()
        uri.query_override.query_params = target.query
    if target.if_not_exists:
        mode = uri.UriOverrideEnforceMode.Value("IF_NOT_EXISTS")
        uri.uri_override_enforce_mode = mode
    if target.method is not None:
        write_method(message, target.method)
    for name, value in target.headers:
        header = message.header_overrides.add().header
        header.key, header.value = name, value
    write_token(message, target.token)


def read_token(message: Message, field: str) -> RequestToken | None:
    """Return the token that a message has, whose field is `field`; None: it has none.

    Without an audience it is the URL of the request.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: the e-mail address is not one.
    """
    kind = message.WhichOneof("authorization_header")
    if kind is None:
        return None
    given = getattr(message, kind)
    email, email_field = given.service_account_email, f"{field}.{kind}.service_account_email"
    if not is_email(email):
        problem = f"is {quoted(email)}: use an e-mail address" if email else "is missing"
        raise invalid_field(email_field, problem)
    detail = given.scope or CLOUD_PLATFORM if kind == "oauth_token" else given.audience
    return RequestToken(kind, email, detail)


def write_token(message: Message, token: RequestToken | None) -> None:
    """Write the token of a service account into a message that can have one."""
    if token is None:
        return
    written = getattr(message, token.kind)
    written.service_account_email = token.email
    setattr(written, "scope" if token.kind == "oauth_token" else "audience", token.detail)


def _encode(part: str) -> str:
    """Return a part of a URL with what is not valid there percent-encoded, as in URLs of tasks."""
    return _not_in_a_url.sub(lambda match: quote(match[0]), part)


def _check_headers(headers: tuple[tuple[str, str], ...], most: int) -> None:
    field = f"{_FIELD}.header_overrides"
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers)
    if size >= most:
        raise invalid_field(field, f"have {size} bytes: they must have less than {most}")
    for name, value in headers:
        if not name or not all(33 <= ord(character) < 127 for character in name) or ":" in name:
            raise invalid_field(field, f"have the name {quoted(name)}: use ASCII letters")
        if any(character in "\r\n\0" for character in value):
            raise invalid_field(field, f"have control characters in {quoted(name)}")
