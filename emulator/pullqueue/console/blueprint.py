"""The console's addresses, and the headers of all its responses."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, redirect, request, url_for
from werkzeug.wrappers import Response as WerkzeugResponse

from pullqueue.api.requests import served
from pullqueue.console.actions import Actions
from pullqueue.console.addresses import ACTIONS, PAGES
from pullqueue.console.formatting import FILTERS
from pullqueue.console.forms import Notice, Notices, carry_out
from pullqueue.console.pages import Pages
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import ServerState

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    # With another policy browsers could omit the origin by which forms are checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NOTICES = Notices()


def blueprint() -> Blueprint:
    """Return the pages and forms of the console."""
    console = Blueprint(
        "console",
        __name__,
        url_prefix="/console",
        template_folder="templates",
        static_folder="static",
    )
    for path, method, verbs in PAGES:
        console.add_url_rule(path, method.__name__, _page_view(method), methods=verbs)
    console.add_url_rule("/queues", view_func=lambda: redirect(url_for("console.queues")))
    for path, method, verbs in ACTIONS:
        console.add_url_rule(path, f"do_{method.__name__}", _action_view(method), methods=verbs)
    console.before_request(_go_to_project)
    console.register_error_handler(Exception, _page_view(Pages.error))
    console.after_request(_add_headers)
    for filter_ in FILTERS:
        console.add_app_template_filter(filter_)
    return console


def _page_view(page: Callable[..., Any]) -> Callable[..., Any]:
    def view(*error: Exception, **path: str) -> Any:  # noqa: ANN401 - what the page returns
        with bypass_interceptors():  # faults affect the app, not the person at the console
            return page(Pages(served(ServerState), _NOTICES), *error, **path)

    return view


def _action_view(action: Callable[..., Notice | str]) -> Callable[..., WerkzeugResponse]:
    def view(**path: str) -> WerkzeugResponse:
        with bypass_interceptors():
            return carry_out(_NOTICES, MethodType(action, Actions(served(ServerState))), **path)

    return view


def _go_to_project() -> WerkzeugResponse | None:
    """Redirect a page that names a project to its own address, whose links keep the project."""
    if request.method != "GET" or "project" not in request.args:
        return None
    name, root = request.args["project"], ""
    if served(Projects).get(name) is not served(Projects).own:
        root = f"/projects/{name}"
    kept = urlencode([each for each in request.args.items(multi=True) if each[0] != "project"])
    return redirect(f"{root}{request.path}?{kept}".rstrip("?"))


def _add_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
