"""The console's addresses, and the headers of all its responses."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response, redirect

from pullqueue.console.actions import Actions
from pullqueue.console.formatting import FILTERS
from pullqueue.console.forms import Notices, carry_out
from pullqueue.console.pages import Pages
from pullqueue.control.state import ServerState

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With another policy browsers could omit the origin by which forms are checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
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
    pages, actions = Pages(state, notices), Actions(state)
    for path, view in (
        ("/", pages.queues),
        ("/queues", lambda: redirect("/console/")),
        (_QUEUE, pages.queue),
        (f"{_QUEUE}/purge", pages.confirm_purge),
        (_TASK, pages.task),
        (f"{_TASK}/payload", pages.payload),
        ("/exhausted", pages.exhausted),
        ("/exhausted.jsonl", pages.download_exhausted),
        ("/requests", pages.requests),
        ("/requests/clear", pages.confirm_clear),
        ("/requests/<number>", pages.request),
        ("/faults", pages.faults),
        ("/clock", pages.clock),
        ("/server", pages.server),
        ("/server/reset", pages.confirm_reset),
        ("/server/snapshot", pages.confirm_load),
        ("/<path:path>", pages.missing),
    ):
        console.add_url_rule(path, view_func=view, methods=["GET"])
    console.add_url_rule("/change/confirm", view_func=pages.confirm_change, methods=["GET", "POST"])
    for path, page, action in (
        (f"{_QUEUE}/add", "queue", actions.add),
        (f"{_QUEUE}/lease", "queue", actions.lease),
        (f"{_QUEUE}/purge", "queue", actions.purge),
        (f"{_TASK}/extend", "task", actions.extend),
        (f"{_TASK}/release", "task", actions.release),
        ("/change", "queues", actions.change),
        ("/requests/clear", "requests", actions.clear_requests),
        ("/faults", "faults", actions.set_fault),
        ("/faults/remove", "faults", actions.remove_fault),
        ("/clock", "clock", actions.move_clock),
        ("/server/reload", "server", actions.reload),
        ("/server/reset", "server", actions.reset),
        ("/server/snapshot", "server", actions.load_snapshot),
    ):
        view = partial(carry_out, notices, action, page)
        console.add_url_rule(path, f"do_{action.__name__}", view, methods=["POST"])
    console.register_error_handler(Exception, pages.refusal)
    console.after_request(_secured)
    for filter_ in FILTERS:
        console.add_app_template_filter(filter_)
    return console


def _secured(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
