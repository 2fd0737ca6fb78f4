"""Host and origin checks: a request must name this server, and no page of another site changes it.

Programs send no Origin; browsers send one with every change, or state in Sec-Fetch-Site where it
comes from. What comes from a browser must come from a page of this server, which is proven by the
origin and, on the control routes and in the console, by a token that only such pages know.
"""

from __future__ import annotations

import logging
import re
from hmac import compare_digest
from ipaddress import ip_address

from flask import Request

from pullqueue.api.errors import ApiError
from pullqueue.limits import MIB
from pullqueue.runtime.state import TOKEN_FIELD, TOKEN_HEADER, ServerState
from pullqueue.server.http import MAX_BODY_BYTES
from pullqueue.text import quoted

_FORM_BYTES = 4 * MIB
"""A payload of 1 MB in base64, each character of it escaped."""
_SAFE_VERBS = frozenset({"GET", "HEAD", "OPTIONS"})
_PROTECTED = ("/_emulator/", "/console/")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{1,5})?", re.ASCII)
_ABSOLUTE = re.compile(r"(?i)[a-z][a-z0-9+.-]*://([^/?#]*)")
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_GRPC_OFF = "of `pullqueue serve --grpc-port 8126`, in a test `pullqueue_server.grpc_address`"

_log = logging.getLogger("pullqueue.server")


def may_change(state: ServerState, request: Request) -> bool:
    """Return whether a request may change something, whatever its method is."""
    try:
        check(state, request, changes=True)
    except ApiError:
        return False
    return True


def check(state: ServerState, request: Request, *, changes: bool = False) -> None:
    """Refuse a request if it names another server or comes from another site's page."""
    if request.method == "PRI":  # how HTTP/2 begins
        where = state.grpc_address or _GRPC_OFF
        message = f"a client uses gRPC on the port for REST: pass it the address {where}"
        _log.warning(message)  # the client reports only that this is not HTTP/2
        raise ApiError(message, reason="badRequest")
    host = request.headers.get("Host", "")
    if state.host_names is not None:
        names = _LOCAL | state.host_names
        _check_host(host, names)
        # As a proxy is asked; the server that is named so is the one that counts.
        if target := _ABSOLUTE.match(request.environ.get("REQUEST_URI", "")):
            _check_host(target[1], names)
    # BufferTask makes a task of a GET, too.
    if changes or request.method not in _SAFE_VERBS or request.path.endswith(":buffer"):
        _check_origin(request, host, state.token)


def _check_host(header: str, names: frozenset[str]) -> None:
    if not header:
        message = "the request has no Host header: name the server in it"
        raise ApiError(message, reason="badRequest")
    match = _HOST.fullmatch(header)
    name = match[1].lower() if match else ""
    if name in names or name.endswith(".localhost") or _is_address(name):
        return
    raise ApiError(
        f"the host of the request is {quoted(header)}, which is not a name of this server: use "
        "localhost, or start the server with --allow-host NAME",
        status=403,
    )


def _is_address(name: str) -> bool:
    # A page's own name can be made to resolve to this server, an address in its place cannot.
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _check_origin(request: Request, host: str, token: str) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise _forbidden(f"it comes from a page of {quoted(origin)}")
    fetched = request.headers.get("Sec-Fetch-Site")
    if fetched not in (None, "same-origin", "none"):
        raise _forbidden(f"it comes from a page of another site ({quoted(fetched)})")
    from_browser = origin is not None or fetched is not None
    if from_browser and request.path.startswith(_PROTECTED):
        given = request.headers.get(TOKEN_HEADER) or _token_of_form(request)
        if not compare_digest(given.encode(), token.encode()):
            raise _forbidden("it has no token, or the token of an earlier start of the server")


def _token_of_form(request: Request) -> str:
    request.max_form_memory_size = _FORM_BYTES
    request.max_content_length = MAX_BODY_BYTES  # files go to disk, and fields have their limit
    return request.form.get(TOKEN_FIELD, "")


def _forbidden(why: str) -> ApiError:
    message = f"the request is refused, since {why}: use the web console of this server"
    return ApiError(message, status=403)
