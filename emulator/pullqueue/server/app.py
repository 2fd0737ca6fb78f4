"""The WSGI application: the Task Queue API over one emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from flask import Flask, Request, Response, request
from flask.sessions import NullSession, SessionInterface
from werkzeug.routing import Map, MapAdapter, Rule

from pullqueue.api import answers, batch, bodies, discovery, errors, fields, oauth
from pullqueue.api.auth import Guard
from pullqueue.api.handlers import Call, queue_of
from pullqueue.api.parameters import Parameters
from pullqueue.api.projects import Project
from pullqueue.api.remembering import remembering
from pullqueue.api.routes import METHODS, TASK_PATH, Method
from pullqueue.api.tokens import Tokens
from pullqueue.cloudtasks import rest as cloudtasks
from pullqueue.console import blueprint as console
from pullqueue.control import routes
from pullqueue.control.request_log import PLAIN_ANSWER_KEY, STARTED_KEY
from pullqueue.control.state import Site
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import UnknownQueueError
from pullqueue.sdk import bridge
from pullqueue.server import origins

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from pullqueue.cloudtasks.service import Service

_VERB = re.compile(r"[A-Z]{1,20}", re.ASCII)
_ANY_TASK = "any"
_EVERYTHING: fields.Fields = {}


class _Response(Response):
    default_mimetype: str | None = "application/json"


class _Answer(_Response):
    """An answer of the API, of which nothing is left to be worked out when it is sent."""

    default_mimetype = None

    def iter_encoded(self) -> Iterator[bytes]:
        """Give the body; there is no text in it to be encoded."""
        return iter(self.response)  # type: ignore[arg-type]  # the types say: or text

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send it: status and headers as they are, and the body unless it was not asked for.

        Where that is possible, it leaves before Flask puts away what it has used for the request.
        """
        write = start_response(self.status, self.headers.to_wsgi_list())
        body = () if environ["REQUEST_METHOD"] == "HEAD" else self.iter_encoded()
        if answers.AT_ONCE_KEY not in environ:
            return body
        write(b"".join(body))
        return ()


class _Map(Map):
    """Routes that never redirect: with a slash at the end or without, but none doubled within."""

    def __init__(self, *, host_matching: bool) -> None:
        super().__init__(host_matching=host_matching, strict_slashes=False, merge_slashes=False)
        self._known = remembering(self._find)

    def found(self, path: str, verb: str) -> tuple[Rule, dict[str, Any]]:
        """Tell where a path and a verb lead; but for names of tasks, workers ask for a few only."""
        task = TASK_PATH.fullmatch(path)
        if task is None:
            rule, values = self._known(path, verb)
            return rule, dict(values)
        rule, values = self._known(f"{task['tasks']}{_ANY_TASK}", verb)
        return rule, {**values, "task": task["name"]}

    def _find(self, path: str, verb: str) -> tuple[Rule, Mapping[str, Any]]:
        return MapAdapter(self, "", "/", "", "http", path, verb).match(return_rule=True)


class _Adapter(MapAdapter):
    """Routes a request by its path alone: the Host header is looked at by a check of its own."""

    map: _Map

    def __init__(self, routes: _Map, request: Request) -> None:
        super().__init__(
            routes, "", request.root_path, "", request.scheme, request.path, request.method
        )

    def match(self, *more: Any, return_rule: bool = False, **options: Any) -> Any:  # noqa: ANN401
        """Give the rule and the values in the path, as Flask asks for them."""
        if more or options or not return_rule:
            return super().match(*more, return_rule=return_rule, **options)  # type: ignore[call-overload]
        return self.map.found(self.path_info, self.default_method)


class _NoSessions(SessionInterface):
    """What Flask asks for a session at each request, and would make one to find that it is none."""

    _none = NullSession()

    def open_session(self, _app: Flask, _request: Request) -> NullSession:
        """Give the session that holds nothing, and takes nothing."""
        return self._none


class _App(Flask):
    response_class = _Response
    session_interface = _NoSessions()
    url_map: _Map
    url_map_class = _Map  # type: ignore[assignment]  # made with host_matching alone

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Note the time, and let X-HTTP-Method-Override replace the verb of a POST."""
        environ[STARTED_KEY] = perf_counter()
        verb = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE")
        if verb and environ["REQUEST_METHOD"] == "POST" and _VERB.fullmatch(verb.upper()):
            # The answer to a POST has a body, whatever it stands for.
            environ["REQUEST_METHOD"] = "GET" if verb.upper() == "HEAD" else verb.upper()
        return super().wsgi_app(environ, start_response)

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Give what finds the route of a request; outside of one, no address is ever made."""
        return None if request is None else _Adapter(self.url_map, request)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Give a view as it is: none is a coroutine, and to find out anew each time costs."""
        return func


def create_app(
    emulator: Emulator,
    *,
    tokens: Tokens | None = None,
    acl: bool = False,
    site: Site | None = None,
    api_upstream: str | None = None,
    cloud_tasks: Callable[[], Service] | None = None,
) -> Flask:
    """Make the application that serves an emulator; it runs under any WSGI server with threads.

    With `acl`, callers need one of `tokens`, and the acl of the queue they call decides what they
    may do; without, everybody may do everything. `site` holds the records of the server; without
    one, any name in the Host header is answered. Calls that apps make to App Engine's services
    other than the task queue are passed on to `api_upstream`, a `host:port`. `cloud_tasks` is
    the service of Cloud Tasks, where gRPC serves it as well.
    """
    app = _App("pullqueue", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = emulator.limits.rest_body_bytes
    tokens = tokens or Tokens(emulator.clock)
    guard = Guard(tokens) if acl else None
    for version, methods in METHODS.items():
        for method in methods:
            app.add_url_rule(
                f"/taskqueue/{version}/projects/{method.path}",
                # Without dots: what stands before one, Flask takes for a blueprint.
                endpoint=f"{version}/{method.id.replace('.', '/')}",
                view_func=_view(emulator, guard, version, method),
                methods=[method.verb],
            )
    discovery.install(app)
    batch.install(app)
    oauth.install(app, tokens, emulator.project)
    known = site or Site(emulator)
    routes.install(app, known)
    origins.install(app, known)
    console.install(app, known)
    app.register_blueprint(cloudtasks.blueprint(cloud_tasks or cloudtasks.lazy_service(known)))
    known.on_reset.append(bridge.install(app, emulator, upstream=api_upstream))
    errors.install(app)
    return app


def _view(
    emulator: Emulator, guard: Guard | None, version: str, method: Method
) -> Callable[..., Response]:
    known = fields.known_fields(version, method.id)
    # The older version has fewer fields, and its answers are cut down to them.
    usual = known if version == "v1beta1" else _EVERYTHING

    def view(project: str, taskqueue: str, task: str = "") -> Response:
        # The request itself: each use of Flask's stand-in for it would look it up again.
        current: Request = request._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001
        sent = bodies.read(current)
        data = bodies.unzipped(current, sent)
        parameters = Parameters(
            current.environ["QUERY_STRING"].encode("latin-1"), bodies.as_form(current, data)
        )
        parameters.check_format()
        indented = parameters.boolean("prettyPrint", default=True)
        selector = parameters.text("fields")
        wanted = fields.selection(selector, known) if selector and known else usual
        token = guard.identify(current, parameters) if guard else None
        call = Call(
            emulator=emulator,
            project=_project(emulator, project),
            queue=queue_of(emulator, taskqueue),
            task_name=task,
            parameters=parameters,
            request=current,
            data=data,
        )
        if guard and token:
            guard.check(token, call.queue, method.right)
        reply = method.handle(call)
        if reply.body is None:
            return _Answer(status=204, headers=reply.headers)
        body = fields.chosen(reply.body, wanted)
        text = answers.pretty(body) if indented else answers.compact(body)
        return _response(text.encode(), reply.headers, current)

    return view


def _response(body: bytes, headers: Mapping[str, str], current: Request) -> Response:
    response = _Answer(body, headers=headers, content_type=answers.JSON_TYPE)
    if _takes_gzip(current):
        current.environ[PLAIN_ANSWER_KEY] = body
        response.set_data(answers.zipped(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding, User-Agent"
    return response


def _takes_gzip(current: Request) -> bool:
    """Whether the client asks for zipped answers in both headers, as the reference wants it."""
    agent = current.environ.get("HTTP_USER_AGENT", "")
    return "gzip" in agent and current.accept_encodings.quality("gzip") > 0


def _project(emulator: Emulator, text: str) -> Project:
    project = Project.of(text)
    if emulator.project is not None and project.app_id != Project.of(emulator.project).app_id:
        raise UnknownQueueError(
            f"project {text!r} is not served here, only {emulator.project!r}: name that one",
            queue_name="",
        )
    return project
