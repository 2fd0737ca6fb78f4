"""The routes by which an app under `pullqueue exec` has its users sign in, and its blobs stored."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urlsplit

from flask import Blueprint, Response, jsonify, render_template, request

from pullqueue.address import is_loopback
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import SERVED_KEY, current_request, served
from pullqueue.limits import MIB
from pullqueue.observe.users import User, check_email
from pullqueue.runtime.state import ServerState
from pullqueue.sdk.startup import front_end
from pullqueue.services.hosting import Services
from pullqueue.text import quoted

_FIELDS_BYTES = 32 * MIB
"""Maximum size of the fields of a form without its files; App Engine's limit on a request."""

_LOGIN_PAGE = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_PATH = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")

blueprint = Blueprint("services", __name__, template_folder="templates")


@blueprint.get(front_end.LOGIN_PATH)
def show_login() -> Response:
    """Return the login page."""
    return _page(request.args.get("continue", ""))


@blueprint.post(front_end.LOGIN_PATH)
def sign_in() -> Response:
    """Sign a user in, who goes on to the page of the app that needs one."""
    page, email = request.form.get("continue", ""), request.form.get("email", "").strip()
    try:
        user = User(email=check_email(email), admin="admin" in request.form)
    except ValueError as error:
        return _page(page, problem=str(error), status=400)
    response = _go_on(page, user.cookie)
    state = served(ServerState)
    state.users[user.email] = user
    state.activity.record(f"{user} signed in to the app")
    return response


@blueprint.get(front_end.LOGOUT_PATH)
def sign_out() -> Response:
    """Sign the user out, and go on to a page of the app."""
    response = _go_on(request.args.get("continue", ""), "")
    state = served(ServerState)
    user = state.users.pop(_signed_in(), None)
    if user is not None:
        state.activity.record(f"{user} signed out of the app")
    return response


def _page(page: str, *, problem: str = "", status: int = 200) -> Response:
    """Return the login page, from which the user goes on to a page of the app."""
    fields = {
        "page": _page_of_app(page),
        "problem": problem,
        "user": _signed_in(),
        "action": front_end.LOGIN_PATH,
        "log_out": front_end.LOGOUT_PATH,
    }
    response = Response(render_template("services/login.html", **fields), status)
    response.headers["Content-Security-Policy"] = _LOGIN_PAGE
    return response


def _page_of_app(url: str) -> str:
    """Return a URL if it is a path, or on the host of the app or another of this machine.

    Raises:
        ApiError: it is neither.
    """
    with suppress(ValueError):
        parts = urlsplit(url)
        here = request.headers.get(front_end.APP_HOST, request.host)
        is_local = parts.netloc == here or is_loopback(parts.hostname or "")
        if not url or _PATH.fullmatch(url) or (is_local and parts.scheme in ("http", "https")):
            return url or "/"
    message = f"continue is {quoted(url)}: use a path of the app, such as /account"
    raise ApiError.parameter(message, "continue")


def _signed_in() -> str:
    """Return the e-mail address in the cookie of this request; empty: nobody has signed in."""
    return request.cookies.get(front_end.USER_COOKIE, "").partition(":")[0]


def _go_on(page: str, user: str) -> Response:
    response = Response(status=303, headers={"Location": _page_of_app(page)})
    response.set_cookie(front_end.USER_COOKIE, user, httponly=True, samesite="Lax")
    return response


@blueprint.post(f"{front_end.UPLOAD_PATH}<session>")
def upload(session: str) -> Response:
    """Store the files of a form, and return the request that the app is to get in its place."""
    sent = current_request()
    sent.max_content_length, sent.max_form_memory_size = None, _FIELDS_BYTES
    fields, files = sent.form.items(multi=True), sent.files.items(multi=True)
    stored = _services().store_upload(session, fields, files)
    return jsonify(path=stored.path, content_type=stored.content_type, body=stored.body)


@blueprint.get(f"{front_end.BLOB_PATH}<path:key>")
def download(key: str) -> Response:
    """Return a blob, or the range of it that the header Range names."""
    blob = _services().open_blob(key)
    if blob is None:
        raise ApiError("there is no blob of this key", status=404)
    response = Response(blob.stream, content_type=blob.content_type, direct_passthrough=True)
    response.content_length = blob.size
    response.headers["Content-Disposition"] = "attachment"
    response.make_conditional(current_request(), accept_ranges=True, complete_length=blob.size)
    return response


def _services() -> Services:
    found: Services | None = request.environ[SERVED_KEY].get(Services)
    if found is None:
        raise ApiError("this server hosts no services", status=404)
    return found
