"""The WSGI application: every interface over HTTP, on the emulator of the server that is called."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from flask import Flask, Request, Response, g, redirect
from werkzeug.routing import BaseConverter

from pullqueue.api import batch, discovery, oauth, routes
from pullqueue.api.auth import Authorizer
from pullqueue.api.encoding import status_line
from pullqueue.api.errors import register_error_handlers
from pullqueue.api.requests import FIND_SERVED_KEY, SERVED_KEY, current_request, served
from pullqueue.api.tokens import Tokens
from pullqueue.cloudtasks import rest as cloudtasks
from pullqueue.cloudtasks.rest import CloudTasks
from pullqueue.console import blueprint as console
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Interface
from pullqueue.engine.interceptors import Caller, Touched, amend_origin, called_by
from pullqueue.errors import PullQueueError
from pullqueue.push.tokens import TokenSigner
from pullqueue.resources import routes as resources
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import ServerState
from pullqueue.server import origins
from pullqueue.services import bridge
from pullqueue.services import routes as service_routes
from pullqueue.services.bridge import Bridge, ProjectOfApp
from pullqueue.services.hosting import Services
from pullqueue.tasks import FULL_QUEUE_NAME

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from pullqueue.cloudtasks.servicer import Servicer

_INTERFACES = {
    "bridge": Interface.SDK,
    "cloudtasks": Interface.CLOUD_TASKS_REST,
    "console": Interface.CONSOLE,
    "services": Interface.SDK,
}
"""Interfaces by blueprint, where it is not that of the path: REST, or control for own routes."""
_WITHOUT_PUSH_TASKS = frozenset({"api", "cloudtasks"})
"""Blueprints after whose calls no push task can be due, or that report it themselves: each report
costs as much of the processor as a view."""
_POLICY = "Content-Security-Policy"
_NOT_A_PAGE = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""The policy of every response but pages of the emulator's own, which have theirs: bytes of others,
such as blobs, must not become a page of the console's origin, which may call all routes.
"""
_Objects = dict[type, Any]
"""What requests are answered from, by class; `served` of `pullqueue.api.requests` finds it."""
_NAMED_PROJECT = re.compile(r"/(?:(?:taskqueue/v1beta[12]|v1|v2|v2beta[23])/)?projects/([^/]+)")
_OWN_PATHS = ("/_emulator", "/console")
_NAMED_IN_PATH = re.compile(f"/queues/{FULL_QUEUE_NAME}")
_BELOW_PROJECT = re.compile(
    r"(?P<prefix>/projects/(?P<project>[^/]+))(?P<rest>/(console|_emulator)(/.*)?)", re.DOTALL
)
_PROJECTS_PATH = "/_emulator/projects"
"""Its routes are about all projects; clients that add the parameter `project` to each call may."""
_UNKNOWN_KEY = "pullqueue.unknown_project"
"""In the environment: why the project that is named cannot be found."""
_VERB = re.compile(r"[A-Z]{1,20}", re.ASCII)


def create_app(
    emulator: Emulator,
    *,
    tokens: Tokens | None = None,
    acl: bool = False,
    state: ServerState | None = None,
    services: Services | None = None,
    api_upstream: str | None = None,
) -> Application:
    """Return the application that serves an emulator; it runs under any WSGI server with threads.

    With `acl`, callers need one of `tokens`, and the acl of the queue they call decides what they
    may do; without, anybody may do everything. `state` contains the records of the server, and
    replaces both; without one, any name in the Host header is answered. Calls that apps make to
    App Engine's services other than the task queue are answered by `services`, where these have the
    service, or else passed on to `api_upstream`, a `host:port`.
    """
    state = state or ServerState(emulator, tokens=tokens, acl=acl)
    projects = Projects(state, begins=False, files={})
    return Application(projects, services=services, api_upstream=api_upstream)


class Application:
    """The application of one server: each request is answered from the project that it names.

    The API of a call says which: in the path, or over gRPC in the message, and calls of App
    Engine's SDK by the ticket of the app. On routes of the emulator's own the parameter `project`
    does, and pages of the console are below `/projects/PROJECT`.
    """

    def __init__(
        self, projects: Projects, *, services: Services | None, api_upstream: str | None
    ) -> None:
        """Serve projects; `create_app` says what the others are, `services` of the server's own."""
        self.projects = projects
        projects.on_end = self._end
        self._objects: WeakKeyDictionary[ServerState, _Objects] = WeakKeyDictionary()
        self._services, self._upstream = services, api_upstream
        self._lock = threading.RLock()
        self._objects_of(projects.own)
        self._app = flask_app()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        environ[FIND_SERVED_KEY] = self._find_served
        return self._app(environ, start_response)

    def _find_served(self, environ: WSGIEnvironment) -> _Objects:
        """Return the objects that serve a request: those of the project that it names."""
        try:
            return self._objects_of(self._state_of(environ))
        except PullQueueError as error:
            environ[_UNKNOWN_KEY] = error
            return self._objects_of(self.projects.own)

    def service(self, project: str) -> Servicer:
        """Return the service of Cloud Tasks of a project; an empty name is the server's own.

        Raises:
            ApiError: UNIMPLEMENTED: the extra is not installed.
        """
        state = self.projects.called(project) if project else self.projects.own
        found: CloudTasks = self._objects_of(state)[CloudTasks]
        return found.service

    def _objects_of_app(self, data: bytes) -> _Objects | None:
        """Return what answers a serialized call of an app; None: there is one project only."""
        if self.projects.is_single:
            return None
        from pullqueue.services.wire import find_app  # noqa: PLC0415 - imports the SDK

        return self._objects_of(self.projects.called(find_app(data)))

    def _state_of(self, environ: WSGIEnvironment) -> ServerState:
        if below := _BELOW_PROJECT.fullmatch(environ.get("PATH_INFO", "")):
            return self._below(below, environ)
        path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
        is_of_one = path.startswith(_OWN_PATHS) and not path.startswith(_PROJECTS_PATH)
        if is_of_one and "project=" in query:
            [name] = parse_qs(query).get("project", [""])[-1:]
            return self.projects.get(name)
        if not self.projects.is_single and (named := _NAMED_PROJECT.match(path)):
            begins = origins.may_change(self.projects.own, Request(environ))
            return self.projects.called(named[1], begins=begins)
        if is_of_one and (named := _NAMED_IN_PATH.search(path)):
            return self.projects.called(named[1], begins=False)
        return self.projects.own

    def _below(self, path: re.Match[str], environ: WSGIEnvironment) -> ServerState:
        """Return the project of a path; links of its pages lead to addresses below the same."""
        environ["PATH_INFO"] = path["rest"]
        state = self.projects.get(path["project"])
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}{path['prefix']}"
        return state

    def _objects_of(self, state: ServerState) -> _Objects:
        found = self._objects.get(state)
        if found is None:
            with self._lock:
                found = self._objects.get(state) or self._make_objects(state)
                self._objects[state] = found
        return found

    def _end(self, state: ServerState, *, delete: bool) -> None:
        """Close the services of a project that ends, and `delete` their data."""
        if services := self._objects.get(state, {}).get(Services):
            services.close()
        if delete and self._services is not None:
            self._services.delete_data_of(state.emulator)

    def _make_objects(self, state: ServerState) -> _Objects:
        services = self._services
        if services is not None and state is not self.projects.own:
            services = services.of_project(state.emulator, push_to=state.push_to)
        calls = Bridge(state.emulator, services=services, upstream=self._upstream)
        calls.add_committed_tasks()
        state.on_reset.append(calls.reset)
        state.services = services
        return {
            **({} if services is None else {Services: services}),
            ProjectOfApp: ProjectOfApp(self._objects_of_app),
            Projects: self.projects,
            Emulator: state.emulator,
            ServerState: state,
            Tokens: state.tokens,
            TokenSigner: state.signer,
            Authorizer: Authorizer(state.tokens, enforced=state.acl),
            CloudTasks: CloudTasks(state),
            Bridge: calls,
        }


class _LimitedRequest(Request):
    """A request with limits of its own, which before Flask 3.1 are those of the application."""

    max_content_length: int | None = None
    max_form_memory_size: int | None = None


class _QueueName(BaseConverter):
    """A queue in a path of the emulator's own: its name, or that of Cloud Tasks."""

    regex = f"(?:[^/]+|{FULL_QUEUE_NAME.replace('(', '(?:')})"
    part_isolating = False


@cache
def flask_app() -> Flask:
    """Return the one application of this process, whose views find at each request what they serve.

    `create_app` says what that is. To make an application takes long: it has 130 routes.
    """
    app = Flask("pullqueue", static_folder=None)
    app.request_class = _LimitedRequest
    app.url_map.converters["queue"] = _QueueName
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.wsgi_app = _Requests(app.wsgi_app)  # type: ignore[method-assign]  # as documented
    app.before_request(_begin)
    app.after_request(_finish)
    apis = [*discovery.APIS, *cloudtasks.APIS]
    for blueprint in (
        routes.blueprint(),
        discovery.blueprint(apis),
        batch.blueprint(apis),
        oauth.blueprint,
        resources.blueprint(),
        console.blueprint(),
        cloudtasks.blueprint(),
        bridge.blueprint,
        service_routes.blueprint,
    ):
        app.register_blueprint(blueprint)
    app.add_url_rule("/", "root", lambda: redirect("/console/"))
    register_error_handlers(app)
    return app


def _begin() -> None:
    request = current_request()
    g.started = perf_counter()
    if interface := _INTERFACES.get(request.blueprint or ""):
        amend_origin(interface=interface)
    request.max_content_length = served(Emulator).limits.rest_body_bytes
    origins.check(served(ServerState), request)
    if _UNKNOWN_KEY in request.environ:
        raise request.environ[_UNKNOWN_KEY]


def _finish(response: Response) -> Response:
    request = current_request()
    if response.status_code != HTTPStatus.OK:
        response.status = status_line(response.status_code)
    response.headers.add("X-Content-Type-Options", "nosniff")
    if response.mimetype != "text/html" or _POLICY not in response.headers:
        response.headers[_POLICY] = _NOT_A_PAGE
    state = served(ServerState)
    state.requests.record_response(request, response)
    if request.method != "GET" and request.blueprint not in _WITHOUT_PUSH_TASKS:
        state.wake()
    return response


class _Requests:
    """Makes each request, and each part of a batch, a call of its client on the named project.

    Replaces the verb of a POST by that in the header X-HTTP-Method-Override.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        verb = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", "").upper()
        if environ["REQUEST_METHOD"] == "POST" and _VERB.fullmatch(verb):
            # The response to a POST has a body, whatever its verb is replaced with.
            environ["REQUEST_METHOD"] = "GET" if verb == "HEAD" else verb
        environ[SERVED_KEY] = environ[FIND_SERVED_KEY](environ)
        requests = environ[SERVED_KEY][ServerState].requests
        agent = environ.get("HTTP_USER_AGENT", "")
        origin = requests.begin(environ.get("PATH_INFO", ""), agent)
        with called_by(Caller(origin, environ.get("REMOTE_PORT"), Touched())):
            return self._app(environ, start_response)
