"""The console's addresses, and the headers of all its responses."""

from __future__ import annotations

from flask import Blueprint, Response, redirect
from werkzeug.wrappers import Response as BaseResponse

from pullqueue.console.actions import Actions
from pullqueue.console.control import Control
from pullqueue.console.formatting import FILTERS
from pullqueue.console.forms import Notices
from pullqueue.console.pages import Pages
from pullqueue.control.state import ServerState

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Another policy would let browsers leave out the origin that forms are checked by.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_QUEUE = "/queues/<queue>"
_TASK = f"{_QUEUE}/tasks/<task>"


def blueprint(state: ServerState) -> Blueprint:
    """Return the pages and forms of the console."""
    console = Blueprint(
        "console",
        __name__,
        url_prefix="/console",
        template_folder="templates",
        static_folder="static",
    )
    notices = Notices()
    control = Control(state)
    pages = Pages(control, notices)
    _add_pages(console, pages)
    _add_actions(console, Actions(control, notices))
    console.after_request(_secured)
    for name, function in FILTERS.items():
        console.add_app_template_filter(function, name)
    return console


def _add_pages(console: Blueprint, pages: Pages) -> None:
    for path, view in (
        ("/", pages.queues),
        ("/queues", _to_console),
        (_QUEUE, pages.queue),
        (f"{_QUEUE}/purge", pages.confirm_purge),
        (_TASK, pages.task),
        (f"{_TASK}/payload", pages.payload),
        (f"{_TASK}/delete", pages.confirm_delete),
        ("/exhausted", pages.exhausted),
        ("/exhausted.jsonl", pages.download_exhausted),
        ("/requests", pages.requests),
        ("/requests/<number>", pages.request),
        ("/faults", pages.faults),
        ("/clock", pages.clock),
        ("/server", pages.server),
        ("/server/reset", pages.confirm_reset),
        ("/<path:path>", pages.missing),
    ):
        console.add_url_rule(path, view_func=view, methods=["GET"])
    console.add_url_rule("/change/confirm", view_func=pages.confirm_change, methods=["POST"])
    console.register_error_handler(Exception, pages.refusal)


def _add_actions(console: Blueprint, actions: Actions) -> None:
    for path, view in (
        (f"{_QUEUE}/add", actions.add),
        (f"{_QUEUE}/lease", actions.lease),
        (f"{_QUEUE}/purge", actions.purge),
        (f"{_TASK}/extend", actions.extend),
        (f"{_TASK}/release", actions.release),
        ("/change", actions.change),
        ("/requests/clear", actions.clear_requests),
        ("/faults", actions.set_fault),
        ("/faults/remove", actions.remove_fault),
        ("/clock", actions.move_clock),
        ("/server/reload", actions.reload),
        ("/server/reset", actions.reset),
        ("/server/snapshot", actions.load_snapshot),
    ):
        console.add_url_rule(path, f"do_{view.__name__}", view_func=view, methods=["POST"])


def _secured(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _to_console() -> BaseResponse:
    return redirect("/console/")
