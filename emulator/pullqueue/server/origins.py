"""Who may ask: the Host header must name this server, and no page of another site may change it.

Programs send no Origin; browsers send one with every change, or say with Sec-Fetch-Site where it
comes from. What comes from a browser must come from a page of this server, which shows in the
origin and, on the control routes and the console, in a token that only such pages know.
"""

from __future__ import annotations

import re
from hmac import compare_digest
from ipaddress import ip_address
from typing import TYPE_CHECKING

from flask import Flask, request

from pullqueue.api.errors import ApiError
from pullqueue.api.remembering import remembering
from pullqueue.control.state import Site
from pullqueue.limits import MIB

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

TOKEN_HEADER = "X-Pullqueue-Token"  # noqa: S105 - the name of the header
TOKEN_FIELD = "pullqueue_token"  # noqa: S105 - the name of the form's field

_FORM_BYTES = 4 * MIB
"""A payload of 1 MB in base64, each sign of it escaped."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_GUARDED = ("/_emulator/", "/console/")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::[0-9]{1,5})?", re.ASCII)
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


def install(app: Flask, site: Site) -> None:
    """Check every request of an app."""
    names = None
    if site.host_names is not None:
        names = _LOCAL | {name.lower() for name in site.host_names}

    def check() -> None:
        # Plain names in the environment: every request of every worker comes by here.
        environ = request.environ
        host = environ.get("HTTP_HOST", "")
        if names is not None:
            _check_host(host, names)
        if environ["REQUEST_METHOD"] not in _READING:
            _check_origin(environ, host, site)

    app.before_request(check)


@remembering
def _check_host(header: str, names: frozenset[str]) -> None:
    if not header:
        message = "the request has no Host header: name the server in it"
        raise ApiError(message, reason="badRequest")
    match = _HOST.fullmatch(header)
    name = match[1].lower() if match else ""
    if name in names or name.endswith(".localhost") or _is_address(name):
        return
    raise ApiError(
        f"the Host header is {header!r:.100}, which is no name of this server: use localhost, or "
        "start the server with --allow-host NAME",
        status=403,
        reason="forbidden",
    )


def _is_address(name: str) -> bool:
    # An address in the Host header cannot be a name that was made to point here.
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _check_origin(environ: WSGIEnvironment, host: str, site: Site) -> None:
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise _forbidden(f"it comes from a page of {origin!r:.100}")
    fetched = environ.get("HTTP_SEC_FETCH_SITE")
    if fetched not in (None, "same-origin", "none"):
        raise _forbidden(f"it comes from a page of another site ({fetched!r:.30})")
    from_browser = origin is not None or fetched is not None
    if from_browser and request.path.startswith(_GUARDED):
        given = request.headers.get(TOKEN_HEADER) or _token_of_form(site)
        if not compare_digest(given.encode(), site.token.encode()):
            raise _forbidden("it has no token, or one of another start of the server")


def _token_of_form(site: Site) -> str:
    request.max_form_memory_size = _FORM_BYTES
    if request.path in site.form_bytes:
        request.max_content_length = site.form_bytes[request.path]
    return request.form.get(TOKEN_FIELD, "")


def _forbidden(why: str) -> ApiError:
    message = f"the request is refused, since {why}: use the web console of this server"
    return ApiError(message, status=403, reason="forbidden")
