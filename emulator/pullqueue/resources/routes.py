"""The control routes as a blueprint."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from pullqueue.api.encoding import JSON_TYPE, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import read_body, served
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.errors import PullQueueError
from pullqueue.limits import SNAPSHOT_BYTES
from pullqueue.resources import (  # noqa: F401 - importing them registers their operations
    PREFIX,
    activity,
    clock,
    cron,
    entities,
    failures,
    history,
    mails,
    metrics,
    openapi,
    overview,
    projects,
    push,
    queues,
    run,
    service,
    snapshots,
    task_lists,
)
from pullqueue.resources.operations import OPERATIONS, Operation, parse_arguments
from pullqueue.runtime.state import ServerState


def blueprint() -> Blueprint:
    """Return the routes of the emulator's own."""
    control = Blueprint("control", __name__, url_prefix=PREFIX)
    for operation in OPERATIONS:
        control.add_url_rule(
            operation.path.replace("{queue}", "<queue:queue>").replace("{", "<").replace("}", ">"),
            operation.id,
            _view(operation),
            methods=[operation.verb],
        )
    control.register_error_handler(
        PullQueueError, lambda error: ApiError.of(error).response(with_rpc_code=True)
    )
    control.add_url_rule(openapi.PATH, "openapi", lambda: _response(openapi.document(), JSON_TYPE))
    return control


def _view(operation: Operation) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        if operation.body is snapshots.Snapshot:
            request.max_content_length = SNAPSHOT_BYTES
        body = read_body()
        query = {name: text for name, text in request.args.items() if name != "project"}
        arguments = path | parse_arguments(operation, query, body)
        with bypass_interceptors():  # faults affect the app, not who operates the server
            result = operation.handle(served(ServerState), **arguments)
        shown = {operation.key: result} if operation.key else result
        return _response(shown, operation.content_type)

    return view


def _response(result: object, content_type: str) -> Response:
    body = result if isinstance(result, str) else encode(result)
    status = 503 if isinstance(result, service.Ready) and not result.ready else 200
    response = Response(body, status, content_type=content_type)
    response.headers["Cache-Control"] = "no-store"
    return response
