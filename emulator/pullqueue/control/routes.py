"""The control routes in an app, and the same operations called in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flask import Flask, Request, Response, request

from pullqueue.api import answers, bodies
from pullqueue.api.answers import Json
from pullqueue.control import PREFIX, openapi
from pullqueue.control.operations import Answer, Call, Operation
from pullqueue.control.state import Site
from pullqueue.control.table import OPERATIONS
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.limits import MIB

SNAPSHOT_BYTES: Final = 512 * MIB
"""Body of a request that loads a snapshot."""


def install(app: Flask, site: Site) -> None:
    """Add the routes to an app, and what watches over all its requests."""
    site.requests.install(app)
    for operation in OPERATIONS.values():
        app.add_url_rule(
            PREFIX + operation.path.replace("{", "<").replace("}", ">"),
            endpoint=f"control.{operation.id}",
            view_func=_view(site, operation),
            methods=[operation.verb],
        )
    app.add_url_rule(PREFIX + openapi.PATH, endpoint="control.openapi", view_func=_openapi)


def call(
    site: Site,
    operation_id: str,
    *,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    body: Json | None = None,
) -> Answer:
    """Do an operation as its route would.

    Faults strike the calls of the app, never those of the person who looks after it.

    Raises:
        PullQueueError: it is refused.
    """
    operation = OPERATIONS[operation_id]
    values = operation.checked(path or {}, query or {})
    checked = operation.checked_body(body or {})
    with bypass_interceptors():
        return operation.handle(Call(site=site, values=values, body=checked))


def _view(site: Site, operation: Operation) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        body = _body(request, operation)
        query = request.args.to_dict()
        return _response(call(site, operation.id, path=path, query=query, body=body))

    return view


def _body(request: Request, operation: Operation) -> Json:
    if operation.id == "loadSnapshot":
        request.max_content_length = SNAPSHOT_BYTES
    data = bodies.read(request)
    if operation.body is None:
        return {}
    return bodies.as_json(request, data)


def _response(answer: Answer) -> Response:
    text = answer.body if isinstance(answer.body, str) else answers.pretty(answer.body)
    response = Response(text, answer.status, content_type=answer.content_type)
    response.headers["Cache-Control"] = "no-store"
    return response


def _openapi() -> Response:
    return _response(Answer(body=openapi.document()))
