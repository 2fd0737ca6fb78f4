"""The routes of the API: which verb and path lead to which method, in each version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from flask import Blueprint, Request, Response, g

from pullqueue.api import discovery, encoding, fields, handlers
from pullqueue.api.auth import Authorizer, Right
from pullqueue.api.handlers import RequestContext, Result
from pullqueue.api.requests import Parameters, as_form, current_request, read_body, served
from pullqueue.api.resources import Project
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.errors import UnknownQueueError
from pullqueue.text import quoted


class Route(NamedTuple):
    """How one method of the API is reached."""

    method_id: str
    """Its name in the discovery document, without the API's."""
    verb: str
    path: str
    """After `/taskqueue/VERSION/projects/`, as in the discovery document."""
    handle: Callable[[RequestContext], Result]
    right: Right = Right.USE


_QUEUE = "{project}/taskqueues/{taskqueue}"
_TASKS = f"{_QUEUE}/tasks"
_TASK = f"{_TASKS}/{{task}}"
_LEASE = f"{_TASKS}/lease"  # takes precedence over a task called lease

_READ_AND_LEASE = (
    Route("taskqueues.get", "GET", _QUEUE, handlers.get_queue),
    Route("tasks.delete", "DELETE", _TASK, handlers.delete_task),
    Route("tasks.get", "GET", _TASK, handlers.get_task),
    Route("tasks.lease", "POST", _LEASE, handlers.lease_tasks),
    Route("tasks.list", "GET", _TASKS, handlers.list_tasks),
)
_CHANGE = (
    Route("tasks.insert", "POST", _TASKS, handlers.insert_task, Right.INSERT),
    Route("tasks.patch", "PATCH", _TASK, handlers.patch_task),
    Route("tasks.update", "POST", _TASK, handlers.update_task),
)
ROUTES: Final[Mapping[str, tuple[Route, ...]]] = {
    "v1beta1": _READ_AND_LEASE,
    "v1beta2": _READ_AND_LEASE + _CHANGE,
}


def blueprint() -> Blueprint:
    """Return the routes of the API."""
    api = Blueprint("api", __name__, url_prefix="/taskqueue")
    for version, routes in ROUTES.items():
        for route in routes:
            api.add_url_rule(
                f"/{version}/projects/{route.path.replace('{', '<').replace('}', '>')}",
                endpoint=f"{version}_{route.method_id.replace('.', '_')}",
                view_func=_view(version, route),
                methods=[route.verb],
            )
    return api


def _view(version: str, route: Route) -> Callable[..., Response]:
    known = fields.fields_in(discovery.document(version), route.method_id)
    # The older version has fewer fields, and its responses are cut down to them.
    default = known if version == "v1beta1" else {}

    def view(project: str, taskqueue: str, task: str = "") -> Response:
        request = current_request()
        emulator, authorizer = served(Emulator), served(Authorizer)
        g.logged = {"method": route.method_id, "queue": taskqueue}
        body = read_body()
        parameters = Parameters(request.query_string, as_form(body, request.content_type))
        parameters.check_format()
        indented = parameters.boolean("prettyPrint", default=True)
        selector = parameters.text("fields")
        mask = fields.parse_mask(selector, known) if selector and known else default
        token = authorizer.identify(request, parameters)
        context = RequestContext(
            emulator=emulator,
            version=version,
            project=_project(emulator, project),
            queue=_queue(emulator, taskqueue),
            task_name=task,
            parameters=parameters,
            data=body,
        )
        authorizer.check(token, context.queue, route.right)
        return _response(request, route.handle(context), mask, indented=indented)

    return view


def _response(
    request: Request, result: Result, mask: fields.FieldMask, *, indented: bool
) -> Response:
    if result.body is None:
        response = Response(status=204, headers=result.headers)
        del response.headers["Content-Type"]
        return response
    resource = fields.apply_mask(result.body, mask) if mask else result.body
    body = encoding.encode(resource, indented=indented)
    response = Response(body, headers=result.headers, content_type=encoding.JSON_TYPE)
    # A client asks for it in both headers (reference).
    is_zipped = "gzip" in request.headers.get("User-Agent", "")
    if is_zipped and request.accept_encodings.quality("gzip") > 0:
        g.response_body = body
        response.set_data(encoding.zipped(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding, User-Agent"
    return response


def _project(emulator: Emulator, text: str) -> Project:
    project = Project.of(text)
    if emulator.project is not None and project.app_id != Project.of(emulator.project).app_id:
        raise UnknownQueueError(
            f'project {quoted(text)} is not served here, only "{emulator.project}": name that one',
            queue_name="",
        )
    return project


def _queue(emulator: Emulator, name: str) -> Queue:
    queue = emulator.queue(name)
    if queue.is_push:
        raise queue.wrong_mode(
            "the REST API works with pull queues only; set `mode: pull` in queue.yaml"
        )
    return queue
