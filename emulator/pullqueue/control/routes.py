"""The control routes in an app, and the same operations called in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final

from flask import Blueprint, Request, Response, request

from pullqueue.api import bodies
from pullqueue.api.encoding import Json, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.schema import SCOPES
from pullqueue.api.tokens import Tokens
from pullqueue.control import PREFIX, openapi
from pullqueue.control.operations import Answer, Call, Operation
from pullqueue.control.state import ServerState
from pullqueue.control.table import OPERATIONS
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.limits import MIB

SNAPSHOT_BYTES: Final = 512 * MIB
"""Body of a request that loads a snapshot."""


def blueprint(state: ServerState, tokens: Tokens) -> Blueprint:
    """Return the routes of the emulator's own."""
    control = Blueprint("control", __name__, url_prefix=PREFIX)
    for operation in OPERATIONS.values():
        control.add_url_rule(
            operation.path.replace("{", "<").replace("}", ">"),
            operation.id,
            _view(state, operation),
            methods=[operation.verb],
        )
    control.add_url_rule(openapi.PATH, "openapi", _openapi)
    _add_token_routes(control, state, tokens)
    return control


def _add_token_routes(control: Blueprint, state: ServerState, tokens: Tokens) -> None:
    @control.get("/token")
    def own_token() -> Response:
        scopes = frozenset((request.args.get("scope") or next(iter(SCOPES))).split())
        issued = tokens.issue(_email(request.args.get("email")), scopes)
        return _response(Answer(body=tokens.response(issued)))

    @control.post("/credentials")
    def credentials() -> Response:
        address = request.remote_addr
        if address and not ip_address(address).is_loopback:
            raise ApiError(
                f"keys are made for this machine alone, and {address} is another: run `pullqueue "
                "credentials` where the server runs",
                status=403,
                reason="forbidden",
            )
        email = _email(bodies.as_json(request, bodies.read(request)).get("email"))
        project = state.emulator.project or "my-app"
        key = tokens.make_key(email, project=project, root_url=request.host_url)
        return _response(Answer(body=key))


def _email(value: object) -> str:
    if not isinstance(value, str) or "@" not in value.strip("@"):
        message = f"email is {value!r:.100}: give an address, such as worker@example.com"
        raise ApiError.parameter(message, "email")
    return value


def call(
    state: ServerState,
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
        return operation.handle(Call(state=state, values=values, body=checked))


def _view(state: ServerState, operation: Operation) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        body = _body(request, operation)
        query = request.args.to_dict()
        return _response(call(state, operation.id, path=path, query=query, body=body))

    return view


def _body(request: Request, operation: Operation) -> Json:
    if operation.id == "loadSnapshot":
        request.max_content_length = SNAPSHOT_BYTES
    data = bodies.read(request)
    if operation.body is None:
        return {}
    return bodies.as_json(request, data)


def _response(answer: Answer) -> Response:
    text = answer.body if isinstance(answer.body, str) else encode(answer.body)
    response = Response(text, answer.status, content_type=answer.content_type)
    response.headers["Cache-Control"] = "no-store"
    return response


def _openapi() -> Response:
    return _response(Answer(body=openapi.document()))
