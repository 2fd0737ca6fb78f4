"""The service over REST: routes, and JSON as protobuf maps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, partial, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Blueprint, Response, g, request

from pullqueue.api import fields
from pullqueue.api.auth import bearer_text
from pullqueue.api.discovery import Api
from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import read_body, served
from pullqueue.cloudtasks import firebase
from pullqueue.cloudtasks.errors import as_service_error, envelope, invalid_field
from pullqueue.cloudtasks.methods import BUFFER_TASK, LOCATIONS_SERVICE, NAME, Method
from pullqueue.cloudtasks.versions import VERSIONS, Version
from pullqueue.engine.interceptors import amend_origin
from pullqueue.errors import PullQueueError
from pullqueue.extras import install_command
from pullqueue.text import quoted, to_snake_case

if TYPE_CHECKING:
    from pullqueue.cloudtasks.messages import Message
    from pullqueue.cloudtasks.servicer import Servicer
    from pullqueue.runtime.state import ServerState

_VERBS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_SYSTEM_PARAMETERS: Final = frozenset(
    {"access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint"}
    | {"quotaUser", "uploadType", "upload_protocol"}
    | {"$.xgafv", "$alt", "$callback", "$fields", "$key", "$prettyPrint"}
)
"""Query parameters that every method of Google's APIs knows."""
_MISSING_EXTRA: Final = (
    f"Cloud Tasks needs an extra: {install_command('cloudtasks')}, then start the server again"
)
_FORMATS: Final = ("", "json", "json;enum-encoding=string", "json;enum-encoding=int")


class _HttpBody(msgspec.Struct):
    """`google.api.HttpBody` in JSON."""

    data: bytes


class _BufferedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The same, and what it is."""

    data: bytes = b""
    content_type: str = ""


class _BufferTaskRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`BufferTaskRequest` in JSON, without the queue that the path names."""

    body: _BufferedBody = _BufferedBody()
    task_id: str = ""


class CloudTasks:
    """The service on the emulator of a server, imported when it is first called."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    @cached_property
    def service(self) -> Servicer:
        """The service; raise an ApiError (UNIMPLEMENTED) if the extra is not installed."""
        try:
            from pullqueue.cloudtasks.servicer import Servicer  # noqa: PLC0415 - takes half a second
        except ModuleNotFoundError:
            raise ApiError(_MISSING_EXTRA, rpc_code="UNIMPLEMENTED") from None
        return Servicer(self._state)


def _build_document(version: Version, root_url: str) -> Json:
    try:
        from pullqueue.cloudtasks.discovery import document  # noqa: PLC0415 - takes half a second
    except ModuleNotFoundError:
        raise ApiError(_MISSING_EXTRA, status=501) from None
    return document(version, root_url)


APIS: Final = tuple(
    Api(
        NAME,
        name,
        "Cloud Tasks API",
        version.description,
        (f"/{name}/", *(f"/{method.path}" for method in version.methods if not method.resource)),
        partial(_build_document, version),
    )
    for name, version in VERSIONS.items()
)


def blueprint() -> Blueprint:
    """Return the routes of the service."""
    routes = Blueprint("cloudtasks", __name__)
    for version in VERSIONS.values():
        _add_routes(routes, version)
    for method in firebase.METHODS:
        view = _make_view(method, of_firebase=True)
        routes.add_url_rule(
            f"/{method.path}", f"firebase {method.name}", view, methods=[method.verb]
        )
    routes.register_error_handler(PullQueueError, _make_error_response)
    return routes


def _add_routes(routes: Blueprint, version: Version) -> None:
    prefix = f"/{version.name}"
    for method in version.methods:
        view, endpoint = _make_view(method), f"{version.name} {method.name}"
        rules, verbs = [f"{each}/{method.path}" for each in _find_prefixes(method)], [method.verb]
        if method.name == BUFFER_TASK:
            # Any request becomes a task with its verb. gcloud sends `/:buffer` without a task id.
            suffixes = ("/<task_id>:buffer", "/:buffer", ":buffer")
            rules, verbs = [f"{prefix}/{method.resource}/tasks{each}" for each in suffixes], _VERBS
        for rule in rules:
            routes.add_url_rule(rule, endpoint, view, methods=verbs)
    for _, verb, path in version.unimplemented:
        routes.add_url_rule(f"{prefix}/{path}", view_func=_refuse_method, methods=[verb])
    unknown, endpoint = partial(_refuse_path, version), f"{version.name} unknown"
    for rule in ("/", "/<path:path>"):
        routes.add_url_rule(f"{prefix}{rule}", endpoint, unknown, methods=_VERBS)


def _find_prefixes(method: Method) -> tuple[str, ...]:
    """Return what the paths of a method begin with."""
    own = f"/{method.version}"
    if method.mixin == LOCATIONS_SERVICE:
        # Its own definition has v1 for all services; Node's REST transport uses that.
        return own, "/v1"
    return (own,) if method.resource else (own, "")


def _make_view(method: Method, *, of_firebase: bool = False) -> Callable[..., Response]:
    # What follows a colon in a path is part of the pattern, so that all values are names.
    pattern = re.sub("<(.*?)>", r"{\1}", method.resource)

    def view(**parts: str) -> Response:
        service = served(CloudTasks).service
        queue = service.queue_name(parts["location"], parts["queue"]) if "queue" in parts else ""
        g.logged = {"method": method.method_id, "queue": queue}
        token = request.args.get("access_token") or request.args.get("oauth_token")
        g.caller = service.authenticate(
            token or bearer_text(request.headers.get("Authorization", ""))
        )
        if g.caller:
            amend_origin(client=g.caller)
        name = pattern.format(**parts)
        called = method
        if method.name == BUFFER_TASK:
            called = method._replace(verb=request.method)
            message = _build_buffer_request(method, name, parts.get("task_id"))
        else:
            message = _build_request(method, name)
        if method.name == "CreateQueue":
            g.logged["queue"] = service.queue_name(*method.read_queue(message))
        if of_firebase:
            firebase.set_url(message, parts)
        # Before the call: one that is refused changes nothing.
        numbers, mask = _check_format(), _parse_mask(method)
        response = service.call(called, message, caller=g.caller)
        body = fields.apply_mask(_to_json(response, numbers=numbers), mask)
        return _to_response(firebase.response(body) if of_firebase else body)

    return view


def _build_request(method: Method, name: str) -> Message:
    """Return the request as a message; `name` is that of its resource."""
    from pullqueue.cloudtasks import rest_fields  # noqa: PLC0415 - slow to import
    from pullqueue.cloudtasks.messages import message_class  # noqa: PLC0415 - slow to import

    message = message_class(method.version, method.request)()
    if not method.resource:
        message.app_id = request.args.get("appId", "")
        message.http_body.data = _read_upload()
        return message
    values = _parse_body() if method.body else {}
    if method.body not in ("", "*"):
        values = {method.body: values}
    values = _parse_query(method, {field.name for field in message.DESCRIPTOR.fields}) | values
    *path, field = method.field.split(".")
    reduce(getitem, path, values)[field] = name
    rest_fields.parse_values(values, message)
    return message


def _build_buffer_request(method: Method, queue: str, task_id: str | None) -> Message:
    """Return the request of BufferTask: the body is that of the task, or a BufferTaskRequest."""
    from pullqueue.cloudtasks.messages import message_class  # noqa: PLC0415 - slow to import

    data = read_body()
    try:
        given = msgspec.json.decode(data, type=_BufferTaskRequest)
    except (ValueError, RecursionError):
        kind = request.content_type or ""
        given = _BufferTaskRequest(body=_BufferedBody(data=data, content_type=kind))
    message = message_class(method.version, method.request)()
    message.queue, message.task_id = queue, task_id or given.task_id
    message.body.data, message.body.content_type = given.body.data, given.body.content_type
    return message


def _read_upload() -> bytes:
    """Return the queue.yaml of an upload: the body is the file, or a JSON object that has it."""
    data = read_body()
    with suppress(ValueError, RecursionError):
        return msgspec.json.decode(data, type=_HttpBody).data
    return data


def _parse_body() -> dict[str, Any]:
    from pullqueue.cloudtasks import rest_fields  # noqa: PLC0415 - slow to import

    data = read_body()
    if not data.strip():
        return {}
    try:
        values = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise rest_fields.not_json(data, str(error)) from None
    if not isinstance(values, dict):
        raise rest_fields.not_an_object()
    return values


def _parse_query(method: Method, fields: set[str]) -> dict[str, Any]:
    """Return the query parameters; `fields` are the names of those of the request."""
    from pullqueue.cloudtasks import rest_fields  # noqa: PLC0415 - slow to import

    given = {name: value for name, value in request.args.items() if name not in _SYSTEM_PARAMETERS}
    for name, value in given.items():
        if to_snake_case(name) not in fields:
            raise rest_fields.unknown_parameter(name)
        if method.body in ("*", name):
            raise invalid_field(name, "is a query parameter: send it in the body")
        if name.lower().endswith("mask"):
            # Both spellings of a field's name are accepted.
            given[name] = re.sub("_([a-z])", lambda match: match[1].upper(), value)
    return given


def _to_json(message: Message, *, numbers: bool) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - slow to import

    body: dict[str, Any] = MessageToDict(message, use_integers_for_enums=numbers)
    return body


def _check_format() -> bool:
    """Check the format that is asked for, and return whether enums are numbers in it."""
    format_ = request.args.get("$alt", request.args.get("alt", ""))
    if format_ not in _FORMATS:
        raise invalid_field("alt", f"is {quoted(format_)}: only json is supported")
    return format_.endswith("int")


def _parse_mask(method: Method) -> fields.FieldMask:
    selector = request.args.get("$fields", request.args.get("fields"))
    if selector and (known := _find_fields(method)):
        return fields.parse_mask(selector, known)
    return {}


@cache
def _find_fields(method: Method) -> fields.FieldMask:
    return fields.fields_in(_build_document(VERSIONS[method.version], ""), method.method_id)


def _to_response(body: dict[str, Any], status: int = 200) -> Response:
    indented = request.args.get("$prettyPrint", request.args.get("prettyPrint")) != "false"
    return Response(encode(body, indented=indented), status, content_type=JSON_TYPE)


def _refuse_method(**_parts: str) -> Response:
    raise ApiError(
        f"{request.method} {request.path:.200} is not supported by the emulator",
        rpc_code="UNIMPLEMENTED",
    )


def _refuse_path(version: Version, path: str = "") -> Response:
    raise ApiError(
        f"no method has {request.method} /{version.name}/{path:.200}: "
        f"see /$discovery/rest?version={version.name}",
        rpc_code="NOT_FOUND",
    )


def _make_error_response(error: PullQueueError) -> Response:
    refused = as_service_error(error)
    response = _to_response(envelope(refused), refused.status)
    response.headers.update(refused.headers)
    return response
