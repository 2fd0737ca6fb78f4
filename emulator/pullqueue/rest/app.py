"""The WSGI application: the Task Queue API over one emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flask import Flask, Response, request

from pullqueue.engine.emulator import Emulator
from pullqueue.errors import UnknownQueueError
from pullqueue.rest import answers, bodies, control, errors
from pullqueue.rest.api import METHODS, Method
from pullqueue.rest.methods import Call, queue_of
from pullqueue.rest.parameters import Parameters
from pullqueue.rest.projects import Project

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_VERB = re.compile(r"[A-Z]{1,20}", re.ASCII)


class _Response(Response):
    default_mimetype = "application/json"


class _App(Flask):
    response_class = _Response

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Let X-HTTP-Method-Override replace the verb of a POST, before it is routed."""
        verb = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", "").upper()
        if environ["REQUEST_METHOD"] == "POST" and _VERB.fullmatch(verb):
            environ["REQUEST_METHOD"] = verb
        return super().wsgi_app(environ, start_response)


def create_app(emulator: Emulator) -> Flask:
    """Make the application that serves an emulator; it runs under any WSGI server with threads.

    It holds no state of its own: two applications over one emulator show the same tasks.
    """
    app = _App("pullqueue", static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = emulator.limits.rest_body_bytes
    for version, methods in METHODS.items():
        for method in methods:
            app.add_url_rule(
                f"/taskqueue/{version}/projects/{method.path}",
                endpoint=f"{version}.{method.id}",
                view_func=_view(emulator, method),
                methods=[method.verb],
            )
    control.install(app, emulator)
    errors.install(app)
    return app


def _view(emulator: Emulator, method: Method) -> Callable[..., Response]:
    def view(project: str, taskqueue: str, task: str = "") -> Response:
        data = bodies.read(request)
        parameters = Parameters(request.query_string, bodies.as_form(request, data))
        parameters.check_format()
        known = _project(emulator, project)
        call = Call(
            emulator=emulator,
            project=known,
            queue=queue_of(emulator, taskqueue),
            task_name=task,
            parameters=parameters,
            request=request,
            data=data,
        )
        indented = parameters.boolean("prettyPrint", default=True)
        reply = method.handle(call)
        if reply.body is None:
            return Response(status=204, headers=reply.headers)
        text = answers.pretty(reply.body) if indented else answers.compact(reply.body)
        return _response(text.encode(), reply.headers.items())

    return view


def _response(body: bytes, headers: Iterable[tuple[str, str]]) -> Response:
    response = Response(body, content_type=answers.JSON_TYPE)
    response.headers.extend(headers)
    agent = request.headers.get("User-Agent", "")
    if "gzip" in agent and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.set_data(answers.zipped(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding, User-Agent"
    return response


def _project(emulator: Emulator, text: str) -> Project:
    project = Project.of(text)
    if emulator.project is not None and project.app_id != Project.of(emulator.project).app_id:
        raise UnknownQueueError(
            f"project {text!r} is not served here, only {emulator.project!r}: name that one",
            queue_name="",
        )
    return project
